//! W4: the end of a turn, with the move of its session's pointer, in one statement.
//!
//! The statement compares the head that it was made for; if another one is there, the rule of `turn::stale_head` decides
//! again. It must never write a part of a turn.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use base::clock::Clock;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored};
use crate::connect::once::Tried;
use crate::connect::server::{Param, Server};
use crate::events::new_events::{Tail, insert_events};
use crate::events::waiting;
use crate::journal::cache_chain::{self, Written};
use crate::journal::compaction;
use crate::journal::pointer::{
    Identity, POINTER, POINTER_PARAMS, already_stored, duplicate_run, is_taken, stale_writer,
    unknown_turn,
};
use crate::memory::turns;
use crate::queue::transaction::Transaction;
use crate::queue::{budgets, turn_end};
use crate::rows::body::{self, Body};
use crate::rows::turn_body::{HeaderBody, OutcomeBody, integer};
use crate::rows::turn_read::get;
use crate::rows::written::{Calls, Messages, insert_calls, insert_messages};
use model::{
    CommitReceipt, CompactionCommit, CompactionResult, CompactionUsage, Metadata, StorageError,
    StorageErrorKind, TurnEnd, TurnHeader, TurnLease,
};
use turn::stale_head::{Ending, Landing, Rebase};

/// What became of a turn whose session has another head by now.
const BESIDE: &str = "was stored as a branch";

/// Heads that change between two statements.
const TRIES: usize = 16;

/// The bodies and rows of an end, made once.
struct Parts {
    header: Body,
    outcome: Body,
    checksum: i64,
    messages: Messages,
    calls: Calls,
    /// The messages of calls that must be stored already.
    owners: Vec<String>,
    cache: Option<Written>,
}

/// W4.
///
/// # Errors
/// `stale_writer`, `stale_head` where that is to be refused; `unknown_turn` for a parent that does not exist,
/// `storage_constraint` for an id that exists already. Nothing is written then.
pub(crate) async fn commit(
    server: &Server,
    turn: &TurnEnd,
    clock: &Clock,
    mut events: Option<&mut Tail>,
) -> Stored<CommitReceipt> {
    check(turn)?;
    let header = HeaderBody::of(&turn.header, &turn.settings, turn.query_message_ids.clone())?;
    let header = body::encode(&header)?;
    let outcome = body::encode(&OutcomeBody::of(turn)?)?;
    // That of the header is in the row of a turn that was opened.
    let checksum =
        if turn.epoch.is_some() { outcome.checksum } else { header.checksum ^ outcome.checksum };
    let steered = turn.queue.iter().flat_map(|queue| &queue.layers);
    let messages = Messages::of(&turn.messages, turn.settings.layers.iter().chain(steered))?;
    let (calls, owners) = (Calls::of(&turn.tool_calls, clock)?, owners(turn));
    let cache = turn.cache.as_deref().map(Written::of).transpose()?;
    let parts = Parts { header, outcome, checksum, messages, calls, owners, cache };
    let sql = statement(server, turn.epoch.is_some(), events.is_some(), &parts);
    let committed = server.run("commit a turn", async |client, may_be_done| {
        if may_be_done && let Some(receipt) = committed(server, client, (turn, &parts)).await? {
            return Ok(receipt);
        }
        let mut head = turn.header.expected_head.clone();
        for _ in 0..TRIES {
            let position = landing(server, client, turn, head.as_deref()).await?;
            if let Some(events) = &mut events {
                let is_beside = position.stale_head.is_some();
                let last = turn.last_event.clone();
                let last = last.map(|it| if is_beside { it.persisted(false) } else { it });
                events.encode(last.as_slice())?;
            }
            let events = events.as_deref();
            let receipt = if turn.compaction.is_none() && !turn_end::has_more(turn) {
                write(server, client, (turn, &parts, events), &sql, &head, &position).await?
            } else {
                let tried = Tried::default();
                let transaction = Transaction::new((server, client, clock), may_be_done, &tried);
                // Sent before the first statement, and not awaited by itself.
                let begin = client.batch_execute("begin");
                let all = write_all(&transaction, (turn, &parts, events), &sql, &head, &position);
                let (begun, all) = tokio::join!(biased; begin, all);
                begun?;
                let ended = transaction.commit(matches!(all, Ok(Some(_)))).await;
                let all = all?;
                ended?;
                all
            };
            if let Some(receipt) = receipt {
                return Ok(receipt);
            }
            // The server may have gone on with an earlier try after its connection was lost.
            if may_be_done && let Some(receipt) = committed(server, client, (turn, &parts)).await? {
                return Ok(receipt);
            }
            head = look(server, client, turn, (&position, head.as_deref())).await?;
        }
        let label = &turn.header.session_label;
        let message = format!(
            "session `{label}` moves faster than turn `{}` is written; try again",
            turn.turn_id
        );
        Err(StorageError::new(StorageErrorKind::Locked, message).into())
    });
    committed.await
}

/// W4 of a turn that has more than its own statement.
async fn write_all(
    transaction: &Transaction<'_>,
    (turn, parts, events): (&TurnEnd, &Parts, Option<&Tail>),
    sql: &str,
    head: &Option<String>,
    position: &Position,
) -> Result<Option<CommitReceipt>, Failure> {
    let Transaction { server, client, clock, .. } = *transaction;
    let receipt = match &turn.compaction {
        None => write(server, client, (turn, parts, events), sql, head, position).await?,
        Some(result) => {
            let compaction = before(turn, result, (head, position), clock)?;
            if !compaction::write(server, client, &compaction, &clock.new_id()).await? {
                return Ok(None);
            }
            let id = Some(compaction.id.clone());
            let position = Position { parent: id.clone(), moves: position.moves, stale_head: None };
            write(server, client, (turn, parts, events), sql, &id, &position).await?
        }
    };
    if let Some(receipt) = &receipt {
        turn_end::finish(transaction, turn, receipt).await?;
    }
    Ok(receipt)
}

/// The compaction that another engine made for the turn, written before it.
fn before(
    turn: &TurnEnd,
    result: &CompactionResult,
    (head, position): (&Option<String>, &Position),
    clock: &Clock,
) -> Stored<CompactionCommit> {
    if position.parent.is_none() {
        return Err(StorageError::new(
            StorageErrorKind::Constraint,
            format!(
                "turn `{}` has a compaction but no parent that could be compacted",
                turn.turn_id
            ),
        ));
    }
    let header = TurnHeader {
        parent_turn_id: position.parent.clone(),
        expected_head: head.clone(),
        ..turn.header.clone()
    };
    Ok(CompactionCommit {
        id: clock.new_id(),
        header,
        open_turn: turn.epoch.map(|epoch| TurnLease { turn_id: turn.turn_id.clone(), epoch }),
        completed_at: turn.completed_at,
        compaction: result.clone(),
        usage: CompactionUsage::of_result(result),
    })
}

/// Refuses calls of messages that the turn does not have, and ids that stand twice.
fn check(turn: &TurnEnd) -> Stored<()> {
    let mut ids: Vec<&str> = turn.messages.iter().map(|message| message.id.as_str()).collect();
    ids.sort_unstable();
    let twice = ids.windows(2).find(|pair| pair.first() == pair.last());
    let lost = turn.tool_calls.iter().find(|call| {
        turn.epoch.is_none()
            && !call.message_id.is_empty()
            && ids.binary_search(&call.message_id.as_str()).is_err()
    });
    let message = match (twice.and_then(|pair| pair.first()), lost) {
        (Some(id), _) => {
            format!("turn `{}` has two messages `{id}`; give each its own id", turn.turn_id)
        }
        (None, Some(call)) => format!(
            "tool call `{}` belongs to message `{}`, which turn `{}` does not have",
            call.call_id, call.message_id, turn.turn_id
        ),
        (None, None) => return Ok(()),
    };
    Err(StorageError::new(StorageErrorKind::Constraint, message))
}

/// The messages of calls that are not among those which the end of an open turn writes.
fn owners(turn: &TurnEnd) -> Vec<String> {
    let new = |id: &str| turn.messages.iter().any(|message| message.id == id);
    let calls = turn.tool_calls.iter().filter(|_| turn.epoch.is_some());
    let owners = calls.map(|call| &call.message_id).filter(|id| !id.is_empty() && !new(id));
    owners.cloned().collect()
}

/// Where a turn is written.
struct Position {
    parent: Option<String>,
    moves: bool,
    stale_head: Option<StorageError>,
}

async fn landing(
    server: &Server,
    client: &Client,
    turn: &TurnEnd,
    head: Option<&str>,
) -> Result<Position, Failure> {
    let expected = turn.header.expected_head.as_deref();
    let ending = Ending {
        head,
        expected,
        parent: turn.header.parent_turn_id.as_deref(),
        moves: turn.move_pointer,
        compacts: turn.compaction.is_some(),
        on_stale_head: turn.on_stale_head,
    };
    let compacted = ending.is_stale() && is_compacted(server, client, head, expected).await?;
    let owned = |parent: Option<&str>| parent.map(ToOwned::to_owned);
    match ending.landing(compacted) {
        Landing::InThread(parent) => {
            Ok(Position { parent: owned(parent), moves: turn.move_pointer, stale_head: None })
        }
        Landing::Beside(parent) => {
            let stale_head = Some(stale(turn, head, BESIDE));
            Ok(Position { parent: owned(parent), moves: false, stale_head })
        }
        Landing::Refused => Err(stale(turn, head, "was not written; run it again").into()),
    }
}

/// Whether only compactions follow the head from which a run started.
pub(crate) async fn is_compacted(
    server: &Server,
    client: &Client,
    head: Option<&str>,
    expected: Option<&str>,
) -> Result<bool, Failure> {
    let sql = server.sql(
        "select turn_type = 'compaction' as compaction, parent_turn_id from @turns where id = $1",
    );
    let mut rebase = Rebase::new(head, expected);
    while let Some(id) = rebase.wanted().map(ToOwned::to_owned) {
        let rows = client.query_typed(&sql, &[(&id, Type::TEXT)]).await?;
        match rows.first() {
            Some(row) => rebase.turn(get(row, "compaction")?, get(row, "parent_turn_id")?),
            None => rebase.turn(false, None),
        }
    }
    Ok(rebase.is_compacted())
}

fn stale(turn: &TurnEnd, head: Option<&str>, outcome: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::StaleHead,
        format!(
            "session `{}` moved from `{}` to `{}` since the run began, and turn `{}` {outcome}",
            turn.header.session_label,
            turn.header.expected_head.as_deref().unwrap_or("no turn"),
            head.unwrap_or("no turn"),
            turn.turn_id
        ),
    )
}

/// The statement; `is_open` where the turn was opened.
fn statement(server: &Server, is_open: bool, has_events: bool, parts: &Parts) -> Rc<str> {
    let has_accounts = server.live.has_accounts.load(Ordering::Acquire);
    let is_remembered = server.live.memory.get().is_some();
    let (has_chain, has_breaks) = parts.cache.as_ref().map(Written::has).unwrap_or_default();
    let has_owners = !parts.owners.is_empty();
    let has = [is_open, has_events, has_owners, has_accounts, is_remembered, has_chain, has_breaks];
    // Those of W0 are below 8.
    let form = has.iter().fold(1, |form, has| form << 1 | u8::from(*has));
    server.built(form, || text(has))
}

/// The statement: whether the turn was opened, stores events, has calls of stored messages, accounts, a memory, a cache chain and
/// breaks of a cache.
fn text(
    [is_open, has_events, has_owners, has_accounts, is_remembered, has_chain, has_breaks]: [bool;
        7],
) -> String {
    let first = POINTER_PARAMS + 1;
    let p = |n: usize| format!("${}", first + n);
    let usage = "input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens, total_tokens";
    let values: Vec<String> = (6..12).map(p).collect();
    let values = values.join(", ");
    let tokens = format!("coalesce(p.thread_tokens, 0) + {}", p(11));
    let [status, stop, provider, model, count, cost] = [p(0), p(1), p(2), p(3), p(4), p(5)];
    let [outcome, checksum, header, run, started, role] =
        [p(12), p(13), p(14), p(15), p(16), p(17)];
    let [estimated, metadata] = [p(18), p(19)];
    let number = if has_events { waiting::NUMBER } else { "null::bigint" };
    let turn = if is_open {
        format!(
            "update @turns t set n = nextval('@turn_numbers'), status = {status}, stop_reason = {stop},
               parent_turn_id = $8, depth = coalesce(p.depth + 1, 0), thread_tokens = {tokens}, provider = {provider},
               model = {model}, tool_call_count = {count}, cost = {cost}, ({usage}) = ({values}), outcome = {outcome},
               checksum = t.checksum # {checksum}, usage_estimated = {estimated}, epoch = null, opening = null, progress = null, completed_at = $7
             from pointed left join parent p on true
             where t.id = $6"
        )
    } else {
        format!(
            "insert into @turns (n, id, parent_turn_id, session_label, run_id, turn_type, status, stop_reason, depth,
               thread_tokens, started_at, completed_at, provider, model, role, tool_call_count, cost, {usage}, header,
               outcome, checksum, run_number, is_run, usage_estimated, metadata)
             select nextval('@turn_numbers'), $6, $8, $1, {run}, 'normal', {status}, {stop}, coalesce(p.depth + 1, 0),
               {tokens}, {started}, $7, {provider}, {model}, {role}, {count}, {cost}, {values}, {header}, {outcome},
               {checksum}, {number}, {has_events}, {estimated}, {metadata}::jsonb
             from pointed left join parent p on true"
        )
    };
    let messages = insert_messages("$6", "pointed", first + 20);
    let calls = insert_calls("$6", "pointed", first + 20 + Messages::PARAMS);
    let first = first + 20 + Messages::PARAMS + Calls::PARAMS;
    let events = if has_events { insert_events("$6", "pointed", first) } else { String::new() };
    // The whole statement fails where a call has no message.
    let sound = match has_owners {
        false => String::new(),
        true => {
            let at = first + if has_events { 3 } else { 0 };
            format!(
                ", @expect(not exists (select from unnest(${at}::text[]) as o (id) where not exists (
                     select from @messages m where m.turn_id = $6 and m.id = o.id)), '23503',
                   'a tool call belongs to a message that its turn does not have')"
            )
        }
    };
    let first = first + if has_events { 3 } else { 0 } + usize::from(has_owners);
    let cache = cache_chain::sql((has_chain, has_breaks), first);
    // The run has ended before its turn was opened: it may have a row among those that wait.
    let take_place = match has_events && !is_open {
        true => waiting::take_place((&run, "$6", "$5"), "pointed"),
        false => String::new(),
    };
    let closed = match has_accounts {
        true => budgets::close_own("$6"),
        false => String::new(),
    };
    let remembered = match is_remembered {
        false => String::new(),
        true => turns::note("$6", "pointed"),
    };
    format!(
        "with {POINTER}{take_place}, ended as ({turn}), messages as ({messages}), calls as ({calls}){events}{remembered}{cache}
         select head{sound}{closed} from pointed"
    )
}

async fn write(
    server: &Server,
    client: &Client,
    (turn, parts, events): (&TurnEnd, &Parts, Option<&Tail>),
    sql: &str,
    head: &Option<String>,
    position: &Position,
) -> Result<Option<CommitReceipt>, Failure> {
    let to = position.moves.then(|| turn.turn_id.clone());
    let identity = Identity::of(&turn.header.session_label);
    let ends = turn.epoch.is_some();
    let (status, stop, role) =
        (turn.status.as_str(), turn.stop_reason.as_str(), turn.header.role.as_str());
    let count = i64::try_from(turn.tool_call_count).unwrap_or(i64::MAX);
    let usage = turn.usage;
    let usage = [
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_input_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
        usage.total_tokens,
    ]
    .map(integer);
    let mut params: Vec<Param<'_>> = vec![
        (&turn.header.session_label, Type::TEXT),
        (&to, Type::TEXT),
        (head, Type::TEXT),
        (&turn.epoch, Type::INT8),
        (&server.owner, Type::TEXT),
        (&turn.turn_id, Type::TEXT),
        (&turn.completed_at, Type::INT8),
        (&position.parent, Type::TEXT),
        (&identity.persona, Type::TEXT),
        (&identity.agent, Type::TEXT),
        (&ends, Type::BOOL),
        (&status, Type::TEXT),
        (&stop, Type::TEXT),
        (&turn.settings.provider, Type::TEXT),
        (&turn.settings.model, Type::TEXT),
        (&count, Type::INT8),
        (&turn.cost, Type::FLOAT8),
    ];
    for tokens in &usage {
        params.push((tokens, Type::INT8));
    }
    let metadata = turn.settings.metadata.as_ref().map(Metadata::as_str);
    let rest: [Param<'_>; 8] = [
        (&parts.outcome.bytes, Type::BYTEA),
        (&parts.checksum, Type::INT8),
        (&parts.header.bytes, Type::BYTEA),
        (&turn.header.run_id, Type::TEXT),
        (&turn.header.started_at, Type::INT8),
        (&role, Type::TEXT),
        (&turn.usage_estimated, Type::BOOL),
        (&metadata, Type::TEXT),
    ];
    params.extend(rest);
    params.extend(parts.messages.params());
    params.extend(parts.calls.params());
    if let Some(events) = events {
        params.extend(events.params());
    }
    if !parts.owners.is_empty() {
        params.push((&parts.owners, Type::TEXT_ARRAY));
    }
    if let Some(cache) = &parts.cache {
        params.extend(cache.params());
    }
    let rows = match client.query_typed(sql, &params).await {
        Err(error) if is_taken(&error, "turns_pkey") => {
            return Err(already_stored(&turn.turn_id).into());
        }
        Err(error) if is_taken(&error, "turns_are_runs") => {
            return Err(duplicate_run(&turn.header.run_id).into());
        }
        rows => rows?,
    };
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(CommitReceipt {
        turn_id: turn.turn_id.clone(),
        head: get(row, "head")?,
        stale_head: position.stale_head.clone(),
    }))
}

/// The receipt, if an earlier try has written the turn. Another process may have ended it in another way, after a take-over.
async fn committed(
    server: &Server,
    client: &Client,
    (turn, parts): (&TurnEnd, &Parts),
) -> Result<Option<CommitReceipt>, Failure> {
    let sql = server.sql(
        "select s.head, exists (select from @session_moves m where m.session_label = s.label and m.thread_id = t.id) as moved
         from @turns t join @sessions s on s.label = t.session_label
         where t.id = $1 and t.status <> 'streaming' and t.run_id = $2 and t.outcome = $3",
    );
    let params: [Param<'_>; 3] = [
        (&turn.turn_id, Type::TEXT),
        (&turn.header.run_id, Type::TEXT),
        (&parts.outcome.bytes, Type::BYTEA),
    ];
    let rows = client.query_typed(&sql, &params).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let head: Option<String> = get(row, "head")?;
    // A turn that should have moved the pointer and did not is a branch.
    let is_beside = turn.move_pointer && !get::<bool>(row, "moved")?;
    let stale_head = is_beside.then(|| stale(turn, head.as_deref(), BESIDE));
    Ok(Some(CommitReceipt { turn_id: turn.turn_id.clone(), head, stale_head }))
}

/// The session's head after a statement that wrote nothing, for which it was `expected`. Another head decides before a parent that
/// does not exist.
///
/// # Errors
/// `stale_writer` if the lease is lost, `unknown_turn` if the parent does not exist.
async fn look(
    server: &Server,
    client: &Client,
    turn: &TurnEnd,
    (position, expected): (&Position, Option<&str>),
) -> Result<Option<String>, Failure> {
    let sql = server.sql(
        "select s.head, $2::bigint is null or coalesce(s.epoch = $2 and s.owner = $3 and s.running = $4, false) as leased,
           $5::text is null or exists (select from @turns where id = $5 and status <> 'streaming') as parent
         from (select) as one left join @sessions s on s.label = $1",
    );
    let params: [Param<'_>; 5] = [
        (&turn.header.session_label, Type::TEXT),
        (&turn.epoch, Type::INT8),
        (&server.owner, Type::TEXT),
        (&turn.turn_id, Type::TEXT),
        (&position.parent, Type::TEXT),
    ];
    let rows = client.query_typed(&sql, &params).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    if !get::<bool>(row, "leased")? {
        return Err(stale_writer(&turn.header.session_label).into());
    }
    let head: Option<String> = get(row, "head")?;
    match &position.parent {
        Some(parent) if head.as_deref() == expected && !get::<bool>(row, "parent")? => {
            Err(unknown_turn(parent).into())
        }
        _ => Ok(head),
    }
}
