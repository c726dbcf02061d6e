//! Sessions: one, lists, their moves, forks, and what a host changes of them.
//!
//! It must never show a run in no session as one.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};
use crate::journal::history;
use crate::journal::pointer::{Identity, unknown_session, unknown_turn};
use crate::reading::filters::{metadata_of, no_cursor};
use crate::rows::turn_read::get;
use model::{
    Metadata, Page, PageOptions, SessionFilter, SessionMove, SessionRow, SessionStatus,
    StorageError, StorageErrorKind, names_no_session,
};

pub(crate) const COLUMNS: &str = "label, head, persona_id, agent_id, created_at, updated_at, status, is_subagent, parent_session_label,
    parent_turn_id, spawn_tool_call_id, task_description, task_status, origin, origin_session_id, metadata, routing_key";
/// A session is there once its first turn is open.
pub(crate) const IS_THERE: &str = "(not opening or exists (select from @turns t where t.session_label = label and t.status = 'streaming'))";
/// Takes the row `s` of a deleted session, whose label is free, for a new one.
pub(crate) const TAKE_FREE: &str = "on conflict (label) do update set head = excluded.head, persona_id = excluded.persona_id,
       agent_id = excluded.agent_id, created_at = excluded.created_at, updated_at = excluded.updated_at, opening = false,
       metadata = excluded.metadata, metadata_values = excluded.metadata_values
     where s.opening and s.head is null and s.running is null and s.parked is null
       and not exists (select from @turns o where o.session_label = s.label and o.status = 'streaming')";
pub(crate) const IS_SESSION: &str = "label !~ '^run:[0-9A-HJKMNP-TV-Z]{26}$'";

pub(crate) fn session_row(row: &Row) -> Stored<SessionRow> {
    Ok(SessionRow {
        label: get(row, "label")?,
        thread_id: get(row, "head")?,
        persona_id: get(row, "persona_id")?,
        agent_id: get(row, "agent_id")?,
        is_subagent: get(row, "is_subagent")?,
        parent_session_label: get(row, "parent_session_label")?,
        parent_turn_id: get(row, "parent_turn_id")?,
        spawn_tool_call_id: get(row, "spawn_tool_call_id")?,
        task_description: get(row, "task_description")?,
        task_status: get(row, "task_status")?,
        routing_key: get(row, "routing_key")?,
        origin: get(row, "origin")?,
        origin_session_id: get(row, "origin_session_id")?,
        created_at: get(row, "created_at")?,
        updated_at: get(row, "updated_at")?,
        status: get(row, "status")?,
        metadata: get::<Option<String>>(row, "metadata")?.map(Metadata::stored),
    })
}

/// The session of that label.
pub(crate) async fn session(server: &Server, label: &str) -> Stored<Option<SessionRow>> {
    if names_no_session(label) {
        return Ok(None);
    }
    let text = format!("select {COLUMNS} from @sessions where label = $1 and {IS_THERE}");
    let row = server.row("read a session", &text, &[(&label, Type::TEXT)]).await?;
    row.as_ref().map(session_row).transpose()
}

/// The sessions of `filter`, by their labels.
pub(crate) async fn sessions(server: &Server, filter: &SessionFilter) -> Stored<Page<SessionRow>> {
    let text = format!(
        "select {COLUMNS} from @sessions where label > $1 and ($2::text is null or starts_with(label, $2))
           and label >= coalesce($2, '') and ($3::text is null or agent_id = $3)
           and ($4::text is null or persona_id = $4) and ($5::text is null or status = $5)
           and ($7::bool is null or is_subagent = $7) and ($8::text is null or parent_session_label = $8)
           and {IS_SESSION} and {IS_THERE}
           and ($9::text is null or metadata_values @> $9::jsonb) order by label limit $6"
    );
    let after = filter.after.as_deref().unwrap_or_default();
    let status = filter.status.map(SessionStatus::as_str);
    let metadata = filter.metadata.as_ref().map(metadata_of);
    let limit = filter.limit.and_one();
    let params: [Param<'_>; 9] = [
        (&after, Type::TEXT),
        (&filter.prefix, Type::TEXT),
        (&filter.agent_id, Type::TEXT),
        (&filter.persona_id, Type::TEXT),
        (&status, Type::TEXT),
        (&limit, Type::INT8),
        (&filter.is_subagent, Type::BOOL),
        (&filter.parent_session_label, Type::TEXT),
        (&metadata, Type::TEXT),
    ];
    let rows = server.rows("list the sessions", &text, &params).await?;
    let found: Vec<SessionRow> = rows.iter().map(session_row).collect::<Stored<_>>()?;
    Ok(Page::cut(found.into_iter().map(|it| (it.label.clone(), it)).collect(), filter.limit))
}

/// The agent of a session; for a session that does not exist yet, its future agent.
pub(crate) async fn agent_of(
    server: &Server,
    label: &str,
    follows: Option<&str>,
) -> Stored<String> {
    let text = "select coalesce((select agent_id from @sessions where label = $1), $2,
        (select id from @personas where main_session_label = $1),
        (select s.agent_id from @turns t join @sessions s on s.label = t.session_label where t.id = $3), 'default') as agent";
    let named = Identity::of(label).agent;
    let params: [Param<'_>; 3] =
        [(&label, Type::TEXT), (&named, Type::TEXT), (&follows, Type::TEXT)];
    match server.row("read the agent of a session", text, &params).await? {
        Some(row) => get(&row, "agent"),
        None => Err(unknown_session(label)),
    }
}

fn move_row(row: &Row) -> Stored<SessionMove> {
    Ok(SessionMove {
        id: get(row, "id")?,
        session_label: get(row, "session_label")?,
        thread_id: get(row, "thread_id")?,
        changed_at: get(row, "changed_at")?,
    })
}

async fn known(server: &Server, label: &str) -> Stored<()> {
    if names_no_session(label) || history::head(server, label).await?.is_none() {
        return Err(unknown_session(label));
    }
    Ok(())
}

/// The turns at which the session has pointed, oldest first.
pub(crate) async fn moves(
    server: &Server,
    label: &str,
    page: &PageOptions,
) -> Stored<Page<SessionMove>> {
    known(server, label).await?;
    let (changed_at, id) = match &page.after {
        None => (i64::MIN, i64::MIN),
        Some(after) => {
            let id: Option<i64> = after.parse().ok();
            let text = "select changed_at, id from @session_moves where id = $1";
            let row = server.row("read a move", text, &[(&id, Type::INT8)]).await?;
            let row = row.ok_or_else(|| no_cursor("page.after", after))?;
            (get(&row, "changed_at")?, get(&row, "id")?)
        }
    };
    let text = "select id, session_label, thread_id, changed_at from @session_moves
        where session_label = $1 and (changed_at, id) > ($2, $3) order by changed_at, id limit $4";
    let limit = page.limit.and_one();
    let params: [Param<'_>; 4] =
        [(&label, Type::TEXT), (&changed_at, Type::INT8), (&id, Type::INT8), (&limit, Type::INT8)];
    let rows = server.rows("read the moves of a session", text, &params).await?;
    let found: Vec<SessionMove> = rows.iter().map(move_row).collect::<Stored<_>>()?;
    Ok(Page::cut(found.into_iter().map(|it| (it.id.to_string(), it)).collect(), page.limit))
}

/// The turn at which the session pointed at a time.
pub(crate) async fn as_of(server: &Server, label: &str, time: i64) -> Stored<Option<SessionMove>> {
    known(server, label).await?;
    let text = "select id, session_label, thread_id, changed_at from @session_moves
        where session_label = $1 and changed_at <= $2 order by changed_at desc, id desc limit 1";
    let params: [Param<'_>; 2] = [(&label, Type::TEXT), (&time, Type::INT8)];
    let row = server.row("read the moves of a session", text, &params).await?;
    row.as_ref().map(move_row).transpose()
}

/// A new session that begins at an existing turn, with the persona of that turn.
///
/// # Errors
/// `unknown_turn`, also for one that still runs; `storage_constraint` when the label is taken; `ledger_moved`.
pub(crate) async fn fork(server: &Server, turn_id: &str, label: &str) -> Stored<SessionRow> {
    let made = server.run("fork a turn", async |client, may_be_done| {
        insert_fork(server, client, (turn_id, turn_id), label, may_be_done).await
    });
    made.await
}

/// Inserts the session that begins at `head`, with the persona of the ended turn `turn_id`.
pub(crate) async fn insert_fork(
    server: &Server,
    client: &Client,
    (turn_id, head): (&str, &str),
    label: &str,
    may_be_done: bool,
) -> Result<SessionRow, Failure> {
    let identity = Identity::of(label);
    let sql = server.sql(&format!(
        "with made as (
           insert into @sessions as s (label, head, persona_id, agent_id, created_at, updated_at, opening)
           select $1, $5, coalesce(main.id, $3, f.persona_id, 'default'), coalesce($4, main.id, f.agent_id, 'default'), @now_ms(), @now_ms(), false
           from (select where @is_open()) as one join @turns t on true left join @sessions f on f.label = t.session_label
             left join @personas main on main.main_session_label = $1 where t.id = $2 and t.status <> 'streaming'
             and not exists (select from @session_aliases where alias = $1)
           {TAKE_FREE} returning {COLUMNS}),
         moved as (
           insert into @session_moves (session_label, thread_id, changed_at) select label, head, created_at from made)
         select {COLUMNS} from made"
    ));
    let params: [Param<'_>; 5] = [
        (&label, Type::TEXT),
        (&turn_id, Type::TEXT),
        (&identity.persona, Type::TEXT),
        (&identity.agent, Type::TEXT),
        (&head, Type::TEXT),
    ];
    if let Some(row) = client.query_typed(&sql, &params).await?.first() {
        return Ok(session_row(row)?);
    }
    let parent = server.sql("select from @turns where id = $1 and status <> 'streaming'");
    if client.query_typed(&parent, &[(&turn_id, Type::TEXT)]).await?.is_empty() {
        return Err(Failure::Refused(unknown_turn(turn_id)));
    }
    let taken =
        server.sql(&format!("select {COLUMNS} from @sessions where label = $1 and head = $2"));
    let of: [Param<'_>; 2] = [(&label, Type::TEXT), (&head, Type::TEXT)];
    if may_be_done && let Some(row) = client.query_typed(&taken, &of).await?.first() {
        return Ok(session_row(row)?);
    }
    let message = format!("session `{label}` exists already; pass another label, or none");
    Err(Failure::Refused(StorageError::new(StorageErrorKind::Constraint, message).at("label")))
}

/// Points the session at the turn before its last compaction; `None` if its thread has no compaction.
///
/// # Errors
/// `unknown_session`; `storage_locked` while a turn of the session runs; `ledger_moved`.
pub(crate) async fn uncompact(server: &Server, label: &str) -> Stored<Option<SessionRow>> {
    let head = history::head(server, label).await?.ok_or_else(|| unknown_session(label))?;
    let Some(head) = head else { return Ok(None) };
    let Some(before) = history::before_compaction(server, &head).await? else { return Ok(None) };
    let text = format!(
        "with moved as (
           update @sessions set head = $2, updated_at = @now_ms(), status = 'active'
           where label = $1 and head = $3 and (running is null or owner is null or expires_at <= @now_ms())
             and @is_open() returning {COLUMNS}),
         logged as (
           insert into @session_moves (session_label, thread_id, changed_at)
           select label, head, greatest(updated_at, (select max(changed_at) from @session_moves where session_label = $1))
           from moved)
         select {COLUMNS} from moved"
    );
    let params: [Param<'_>; 3] = [(&label, Type::TEXT), (&before, Type::TEXT), (&head, Type::TEXT)];
    let moved = server.once("undo a compaction", &text, &params).await?;
    let row = moved.first().ok_or_else(|| runs(label))?;
    session_row(row).map(Some)
}

fn runs(label: &str) -> StorageError {
    let message = format!("a turn of session `{label}` runs; wait until it has ended");
    StorageError::new(StorageErrorKind::Locked, message)
}

/// Archives a session, or makes it active again.
///
/// # Errors
/// `unknown_session`; `storage_locked` while a turn of it runs; `ledger_moved`.
pub(crate) async fn set_archived(
    server: &Server,
    label: &str,
    archived: bool,
) -> Stored<SessionRow> {
    let known = session(server, label).await?.ok_or_else(|| unknown_session(label))?;
    let status = if archived { "archived" } else { "active" };
    if known.status == status {
        return Ok(known);
    }
    let alias = "select from @session_aliases where alias = $1";
    let doing = "archive a session";
    if !archived && server.row(doing, alias, &[(&label, Type::TEXT)]).await?.is_some() {
        let message = format!("`{label}` is an alias by now; remove that first");
        return Err(StorageError::new(StorageErrorKind::Constraint, message).at("label"));
    }
    let text = format!(
        "update @sessions set status = $2, updated_at = @now_ms()
         where label = $1 and (running is null or owner is null or expires_at <= @now_ms()) and @is_open()
         returning {COLUMNS}"
    );
    let params: [Param<'_>; 2] = [(&label, Type::TEXT), (&status, Type::TEXT)];
    let changed = server.once(doing, &text, &params).await?;
    session_row(changed.first().ok_or_else(|| runs(label))?)
}
