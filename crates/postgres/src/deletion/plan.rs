//! What a deletion deletes: sessions, and turns in the order in which they can go.
//!
//! It must never write. What changes after the plan is checked again by each batch.

use std::collections::{HashMap, HashSet};

use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};
use crate::journal::pointer::unknown_session;
use crate::queue::transaction::Transaction;
use crate::reading::filters::metadata_of;
use crate::reading::sessions::IS_SESSION;
use crate::rows::turn_read::get;
use model::{
    Deletion, EndedStatus, PruneOptions, StorageError, StorageErrorKind, TurnSelection,
    names_no_session,
};
use turn::removal::{Requested, removable};

pub(crate) const DOING: &str = "find what to delete";

/// A session that is deleted.
pub(crate) struct PlannedSession {
    pub(crate) label: String,
    /// The turns at which it has pointed and that go with it; `None` where its turns stay.
    pub(crate) threads: Option<Vec<String>>,
}

/// What is deleted.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) sessions: Vec<PlannedSession>,
    /// The numbers of the turns, those that follow others first.
    pub(crate) turns: Vec<i64>,
    /// How many selected turns stay.
    pub(crate) retained: u64,
    /// Whether a session may point at a deleted turn: its pointer moves back then.
    pub(crate) moves_heads: bool,
    /// The newest pointer move of the plan.
    pub(crate) last_move: i64,
}

/// A deletion of a session that was cut off.
struct Pending {
    threads: Vec<String>,
    hidden_at: i64,
}

/// Plans a deletion. The labels in it are resolved.
///
/// # Errors
/// `unknown_session`; `storage_locked` for a session in which a turn is open.
pub(crate) async fn plan(server: &Server, deletion: &Deletion) -> Stored<Plan> {
    let last = "select coalesce(max(id), 0) as last from @session_moves";
    let last = server.row(DOING, last, &[]).await?;
    let mut plan = match deletion {
        Deletion::Session(label, options) => session(server, label, options.turns).await?,
        Deletion::Turns(selection, options) => turns(server, selection, options.followers).await?,
        Deletion::Prune(options) => prune(server, options).await?,
    };
    plan.last_move = last.map_or(Ok(0), |row| get(&row, "last"))?;
    Ok(plan)
}

/// The numbers that a statement selects.
async fn numbers(server: &Server, text: &str, params: &[Param<'_>]) -> Stored<Vec<i64>> {
    server.rows(DOING, text, params).await?.iter().map(|row| get(row, "n")).collect()
}

async fn session(server: &Server, label: &str, with_turns: bool) -> Stored<Plan> {
    let pending = pending(server, label).await?;
    if pending.is_none() {
        refuse(server, label).await?;
    }
    if !with_turns && pending.is_none() {
        let sessions = vec![PlannedSession { label: label.to_owned(), threads: None }];
        return Ok(Plan { sessions, ..Plan::default() });
    }
    let is_pending = pending.is_some();
    let (threads, until) = match pending {
        Some(Pending { threads, hidden_at }) => (threads, hidden_at),
        None => {
            let text = "select head as id from @sessions where label = $1 and head is not null
                union select thread_id from @session_moves where session_label = $1";
            let rows = server.rows(DOING, text, &[(&label, Type::TEXT)]).await?;
            let threads = rows.iter().map(|row| get(row, "id")).collect::<Stored<_>>()?;
            (threads, i64::MAX)
        }
    };
    // The turns of deleted sessions belong to whoever continued them.
    let text = "with recursive own as (
           select n, id, parent_turn_id from @turns where session_label = $1 and n is not null and completed_at <= $2
           union
           select t.n, t.id, t.parent_turn_id from @turns t left join @sessions s on s.label = t.session_label
             where t.id = any($3) and t.n is not null and (t.session_label = $1 or (s.opening and s.head is null))
           union
           select t.n, t.id, t.parent_turn_id from own join @turns t on t.id = own.parent_turn_id
             left join @sessions s on s.label = t.session_label
             where t.n is not null and (t.session_label = $1 or (s.opening and s.head is null)))
         select n from own";
    let params: [Param<'_>; 3] =
        [(&label, Type::TEXT), (&until, Type::INT8), (&threads, Type::TEXT_ARRAY)];
    let candidates = numbers(server, text, &params).await?;
    let own =
        "select n from @turns where session_label = $1 and n is not null and completed_at <= $2";
    let selected = numbers(server, own, params.get(..2).unwrap_or_default()).await?;
    // A session that has the label again is another one.
    let except = if is_pending { None } else { Some(label) };
    let turns =
        removable(&requested(server, &candidates, "s.label is distinct from $2", except).await?);
    let sessions = vec![PlannedSession { label: label.to_owned(), threads: Some(threads) }];
    let retained = remaining(&selected, &turns);
    Ok(Plan { sessions, turns, retained, ..Plan::default() })
}

async fn turns(server: &Server, selection: &TurnSelection, followers: bool) -> Stored<Plan> {
    let TurnSelection { ids, session_label, status, since, until, metadata } = selection;
    let (status, metadata) = (status.map(EndedStatus::as_str), metadata.as_ref().map(metadata_of));
    let text = "select n from @turns t where n is not null and ($1::text[] is null or t.id = any($1))
           and ($2::text is null or t.session_label = $2) and ($3::text is null or t.status = $3)
           and ($4::bigint is null or t.started_at >= $4) and ($5::bigint is null or t.started_at < $5)
           and ($6::text is null or t.metadata @> $6::jsonb)";
    let params: [Param<'_>; 6] = [
        (ids, Type::TEXT_ARRAY),
        (session_label, Type::TEXT),
        (&status, Type::TEXT),
        (since, Type::INT8),
        (until, Type::INT8),
        (&metadata, Type::TEXT),
    ];
    let selected = numbers(server, text, &params).await?;
    // A compaction that directly follows a turn is made of it.
    let text = "with recursive chosen as (
           select n, id from @turns where n = any($1)
           union
           select t.n, t.id from chosen c join @turns t on t.parent_turn_id = c.id
             where t.n is not null and ($2 or t.turn_type = 'compaction'))
         select n from chosen";
    let params: [Param<'_>; 2] = [(&selected, Type::INT8_ARRAY), (&followers, Type::BOOL)];
    let candidates = numbers(server, text, &params).await?;
    // A run under way continues the head of its session.
    let needed = "exists (select from @turns o where o.session_label = s.label and o.status = 'streaming') and $2::text is null";
    let turns = removable(&requested(server, &candidates, needed, None).await?);
    let retained = remaining(&selected, &turns);
    Ok(Plan { turns, retained, moves_heads: true, ..Plan::default() })
}

async fn prune(server: &Server, options: &PruneOptions) -> Stored<Plan> {
    let text = format!(
        "select label, updated_at, {IS_SESSION} as is_session,
           exists (select from @turns o where o.session_label = label and o.status = 'streaming') as is_open
         from @sessions where not opening order by updated_at desc, label desc"
    );
    let (mut newest, mut doomed) = (0, Vec::new());
    for row in &server.rows(DOING, &text, &[]).await? {
        let is_session: bool = get(row, "is_session")?;
        let stays = is_session && newest < options.keep;
        newest += u32::from(is_session);
        if !stays
            && get::<i64>(row, "updated_at")? < options.before
            && !get::<bool>(row, "is_open")?
        {
            doomed.push(get::<String>(row, "label")?);
        }
    }
    let old = "select n from @turns t where completed_at < $1 and n is not null and not exists (
        select from @turns o where o.session_label = t.session_label and o.status = 'streaming')";
    let candidates = numbers(server, old, &[(&options.before, Type::INT8)]).await?;
    let needed = "not s.label = any(string_to_array($2, chr(31)))";
    let labels = doomed.join("\u{1f}");
    let turns = removable(&requested(server, &candidates, needed, Some(&labels)).await?);
    let own = "select n from @turns where session_label = any($1) and n = any($2)";
    let params: [Param<'_>; 2] = [(&doomed, Type::TEXT_ARRAY), (&candidates, Type::INT8_ARRAY)];
    let selected = numbers(server, own, &params).await?;
    let retained = remaining(&selected, &turns);
    let sessions = doomed.into_iter();
    let sessions = sessions.map(|label| PlannedSession { label, threads: Some(Vec::new()) });
    Ok(Plan { sessions: sessions.collect(), turns, retained, ..Plan::default() })
}

/// The candidates in the form of the rule. `needs` is the condition of the sessions `s` whose turns stay.
async fn requested(
    server: &Server,
    candidates: &Vec<i64>,
    needs: &str,
    with: Option<&str>,
) -> Stored<Vec<Requested>> {
    let text = format!(
        "select t.n, t.depth, p.n as parent, r.n as retains,
           exists (select from @session_moves m join @sessions s on s.label = m.session_label
             where m.thread_id = t.id and {needs})
           or exists (select from @turns c where c.parent_turn_id = t.id and (c.n is null or c.n <> all($1)))
           or exists (select from @compactions c join @turns a on a.id = c.turn_id
             where c.first_kept_turn_id = t.id and a.n <> all($1)) as needed
         from @turns t left join @turns p on p.id = t.parent_turn_id
           left join @compactions k on k.turn_id = t.id left join @turns r on r.id = k.first_kept_turn_id
         where t.n = any($1) and ($2::text is null or true)"
    );
    let params: [Param<'_>; 2] = [(candidates, Type::INT8_ARRAY), (&with, Type::TEXT)];
    let rows = server.rows(DOING, &text, &params).await?;
    let found = rows.iter().map(|row| {
        Ok(Requested {
            n: get(row, "n")?,
            depth: get(row, "depth")?,
            parent: get(row, "parent")?,
            retains: get(row, "retains")?,
            needed: get(row, "needed")?,
        })
    });
    found.collect()
}

fn remaining(selected: &[i64], turns: &[i64]) -> u64 {
    let gone: HashSet<i64> = turns.iter().copied().collect();
    selected.iter().filter(|n| !gone.contains(n)).count() as u64
}

/// Refuses a session that cannot be deleted.
///
/// # Errors
/// `unknown_session`; `storage_locked` where a turn of it is open.
async fn refuse(server: &Server, label: &str) -> Stored<()> {
    let text = "select opening, exists (select from @turns where session_label = $1 and status = 'streaming') as is_open
        from @sessions where label = $1";
    let row = server.row(DOING, text, &[(&label, Type::TEXT)]).await?;
    let Some(row) = row.filter(|_| !names_no_session(label)) else {
        return Err(unknown_session(label));
    };
    if get::<bool>(&row, "is_open")? {
        let message = format!(
            "a turn of session `{label}` runs or was interrupted; wait until it has ended, resume it or discard it"
        );
        return Err(StorageError::new(StorageErrorKind::Locked, message));
    }
    if get::<bool>(&row, "opening")? { Err(unknown_session(label)) } else { Ok(()) }
}

async fn pending(server: &Server, label: &str) -> Stored<Option<Pending>> {
    let text = "select threads, hidden_at from @pending_deletions where session_label = $1";
    let row = server.row("read a deletion", text, &[(&label, Type::TEXT)]).await?;
    row.map(|row| {
        Ok(Pending { threads: get(&row, "threads")?, hidden_at: get(&row, "hidden_at")? })
    })
    .transpose()
}

/// The sessions that point at one of `turns`, with the nearest turn that stays; none where every turn at which such a session has pointed
/// goes. Those that have moved since the plan are not among them.
pub(crate) async fn heads(
    transaction: &Transaction<'_>,
    plan: &Plan,
    turns: &[i64],
) -> Result<HashMap<String, (String, Option<String>)>, Failure> {
    let at = "select s.label, s.head from @turns t join @session_moves m on m.thread_id = t.id
           join @sessions s on s.label = m.session_label
         where t.n = any($1) and s.head = t.id group by s.label having max(m.id) <= $2 order by s.label";
    let params: [Param<'_>; 2] = [(&turns, Type::INT8_ARRAY), (&plan.last_move, Type::INT8)];
    let rows = transaction.rows(at, &params).await?;
    if rows.is_empty() {
        return Ok(HashMap::new());
    }
    let labels: Vec<String> = rows.iter().map(|row| get(row, "label")).collect::<Stored<_>>()?;
    let text = "with recursive up as (
           select s.label, s.head, t.id, t.n, t.parent_turn_id, 0 as steps
           from @sessions s join @turns t on t.id = s.head where s.label = any($2)
           union all
           select up.label, up.head, p.id, p.n, p.parent_turn_id, steps + 1
           from up join @turns p on p.id = up.parent_turn_id where up.n = any($1)),
         stays as (select distinct on (label) label, id from up where n <> all($1) order by label, steps)
         select distinct on (up.label) up.label, up.head, coalesce(stays.id, (
           select m.thread_id from @session_moves m join @turns t on t.id = m.thread_id
           where m.session_label = up.label and t.n <> all($1) order by m.changed_at desc, m.id desc limit 1)) as stays
         from up left join stays on stays.label = up.label order by up.label";
    let params: [Param<'_>; 2] = [(&plan.turns, Type::INT8_ARRAY), (&labels, Type::TEXT_ARRAY)];
    let rows = transaction.rows(text, &params).await?;
    let found =
        rows.iter().map(|row| Ok((get(row, "label")?, (get(row, "head")?, get(row, "stays")?))));
    Ok(found.collect::<Stored<_>>()?)
}
