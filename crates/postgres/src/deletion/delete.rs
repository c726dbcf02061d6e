//! A whole deletion: the sessions are hidden first, then the turns go a batch at a time, each in a transaction of its own.
//!
//! A batch deletes only turns that nothing follows and no session points at by now. It must never delete a part of a turn.

use base::clock::Clock;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};
use crate::deletion::owned_rows;
use crate::deletion::plan::{DOING, Plan, PlannedSession, heads, plan};
use crate::queue::dispatch_changes;
use crate::queue::transaction::{Transaction, transact};
use crate::rows::turn_read::get;
use model::{DeleteSessionOptions, Deletion, LedgerDeletion, StorageError, StorageErrorKind};

/// The turns of a batch.
const TURNS: usize = 256;

/// Deletes, or counts what would be deleted.
pub(crate) async fn delete(
    server: &Server,
    clock: &Clock,
    deletion: &Deletion,
) -> Stored<LedgerDeletion> {
    if deletion.secure() {
        let message = "a ledger in PostgreSQL cannot overwrite what was deleted; encrypt the server's disk, and `vacuum full` the tables";
        return Err(StorageError::new(StorageErrorKind::Unsupported, message));
    }
    if deletion.dry_run() {
        return count(server, &plan(server, deletion).await?).await;
    }
    // What a killed process has left comes first.
    let left = "select session_label from @pending_deletions order by session_label";
    let mut finished = None;
    for row in &server.rows(DOING, left, &[]).await? {
        let label: String = get(row, "session_label")?;
        let options = DeleteSessionOptions { turns: true, ..DeleteSessionOptions::default() };
        let done = carry_out((server, clock), &Deletion::Session(label.clone(), options)).await?;
        if matches!(deletion, Deletion::Session(wanted, _) if *wanted == label) {
            finished = Some(done);
        }
    }
    match (carry_out((server, clock), deletion).await, finished) {
        (Err(error), Some(done)) if error.kind == StorageErrorKind::UnknownSession => Ok(done),
        (done, _) => done,
    }
}

async fn carry_out(at: (&Server, &Clock), deletion: &Deletion) -> Stored<LedgerDeletion> {
    let plan = plan(at.0, deletion).await?;
    let mut done = LedgerDeletion {
        sessions: plan.sessions.len() as u64,
        retained_turns: plan.retained,
        ..LedgerDeletion::default()
    };
    for session in &plan.sessions {
        let work = async |transaction: &Transaction<'_>| hide(transaction, session).await;
        transact(at, "delete a session", work).await?;
    }
    for turns in plan.turns.chunks(TURNS) {
        let work = async |transaction: &Transaction<'_>| batch(transaction, &plan, turns).await;
        let batch = transact(at, "delete turns", work).await?;
        done.turns += batch.turns;
        done.retained_turns += batch.retained_turns;
        done.messages += batch.messages;
        done.tool_calls += batch.tool_calls;
        done.runs += batch.runs;
    }
    let labels: Vec<String> = plan.sessions.into_iter().map(|session| session.label).collect();
    let finish = async |transaction: &Transaction<'_>| {
        let text = "delete from @pending_deletions where session_label = any($1)";
        transaction.exec(text, &[(&labels, Type::TEXT_ARRAY)]).await?;
        owned_rows::remove_sessions(transaction, &labels).await
    };
    transact(at, "delete sessions", finish).await?;
    Ok(done)
}

/// What the plan deletes, in numbers.
async fn count(server: &Server, plan: &Plan) -> Stored<LedgerDeletion> {
    let text = "select (select count(*) from @messages m where m.turn_id = any(g.ids)) as messages,
          (select count(*) from @tool_calls c where c.turn_id = any(g.ids)) as calls, runs
        from (select coalesce(array_agg(id), '{}') as ids, count(run_number) as runs from @turns where n = any($1)) as g";
    let params: [Param<'_>; 1] = [(&plan.turns, Type::INT8_ARRAY)];
    let row = server.row("count what would be deleted", text, &params).await?;
    let mut counts = LedgerDeletion {
        sessions: plan.sessions.len() as u64,
        turns: plan.turns.len() as u64,
        retained_turns: plan.retained,
        ..LedgerDeletion::default()
    };
    if let Some(row) = row {
        counts.messages = get::<i64>(&row, "messages")?.cast_unsigned();
        counts.tool_calls = get::<i64>(&row, "calls")?.cast_unsigned();
        counts.runs = get::<i64>(&row, "runs")?.cast_unsigned();
    }
    Ok(counts)
}

/// A session is as one that its first turn has not created yet.
const HIDE: &str = "update @sessions s set head = null, opening = true, status = 'active', metadata = null, metadata_values = null,
       is_subagent = false, parent_session_label = null, parent_turn_id = null, spawn_tool_call_id = null,
       task_description = null, task_status = null, origin = null, origin_session_id = null
     where label = $1 and not opening and running is null and parked is null and not exists (
       select from @turns o where o.session_label = $1 and o.status = 'streaming')
     returning label";

/// Hides a session, with everything that only it has; the tasks that wait there have ended.
///
/// # Errors
/// `storage_locked` for one that is in use by now.
async fn hide(transaction: &Transaction<'_>, session: &PlannedSession) -> Result<(), Failure> {
    let PlannedSession { label, threads } = session;
    let of: [Param<'_>; 1] = [(label, Type::TEXT)];
    // A session that has the label again is another one.
    let pending = "select from @pending_deletions where session_label = $1";
    if transaction.exists(pending, &of).await? {
        return Ok(());
    }
    if !transaction.exists(HIDE, &of).await? {
        let hidden = "select from @sessions where label = $1 and opening and head is null";
        if transaction.again && transaction.exists(hidden, &of).await? {
            return Ok(());
        }
        let message = format!("session `{label}` is in use by now; try again");
        return Err(StorageError::new(StorageErrorKind::Locked, message).into());
    }
    dispatch_changes::session_deleted(transaction, label).await?;
    owned_rows::of_session(transaction, label).await?;
    let orphan = "update @sessions set parent_session_label = null where parent_session_label = $1";
    transaction.exec(orphan, &of).await?;
    let pend = "insert into @pending_deletions (session_label, threads, hidden_at)
         select $1, $2, @now_ms() where $2::text[] is not null on conflict do nothing";
    transaction.exec(pend, &[(label, Type::TEXT), (threads, Type::TEXT_ARRAY)]).await.map(drop)
}

/// A batch: the pointers at its turns move back first, where the deletion may move them.
async fn batch(
    transaction: &Transaction<'_>,
    plan: &Plan,
    turns: &[i64],
) -> Result<LedgerDeletion, Failure> {
    let lock = "lock table @turns, @sessions in share row exclusive mode";
    transaction.client.batch_execute(&transaction.server.sql(lock)).await?;
    if plan.moves_heads {
        move_heads(transaction, plan, turns).await?;
    }
    let deleted = owned_rows::of_turns(transaction, turns).await?;
    if deleted.turns == 0 && transaction.again {
        // An earlier try has deleted them, and its answer was lost.
        let gone = turns.len() as u64 - deleted.retained_turns;
        return Ok(LedgerDeletion { turns: gone, ..deleted });
    }
    Ok(deleted)
}

/// Moves the pointers that are at a turn of the batch back to the nearest one that stays, where their log ends then. One that has moved
/// since the plan stays, and its turn with it.
async fn move_heads(
    transaction: &Transaction<'_>,
    plan: &Plan,
    turns: &[i64],
) -> Result<(), Failure> {
    for (label, (head, stays)) in heads(transaction, plan, turns).await? {
        let text = "with moved as (
               update @sessions set head = $3, updated_at = @now_ms() where label = $1 and head = $2 and running is null
               returning label),
             unchained as (delete from @cache_chains c using moved where c.session_label = moved.label)
             insert into @session_moves (session_label, thread_id, changed_at)
             select label, $3, @now_ms() from moved where $3::text is not null";
        let params: [Param<'_>; 3] =
            [(&label, Type::TEXT), (&head, Type::TEXT), (&stays, Type::TEXT)];
        transaction.exec(text, &params).await?;
    }
    let text =
        "delete from @session_moves m using @turns t where t.n = any($1) and m.thread_id = t.id
        and not exists (select from @sessions s where s.label = m.session_label and s.head = t.id)";
    transaction.exec(text, &[(&turns, Type::INT8_ARRAY)]).await.map(drop)
}
