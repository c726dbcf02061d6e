//! The rows that belong to a turn or a session, in every table: the one list that a deletion goes through.
//!
//! A module whose rows belong to one of them adds its table here; `tests/deletion.rs` compares it with the schema. It must never leave
//! out a table.

use tokio_postgres::types::Type;

use crate::connect::error::Failure;
use crate::connect::server::Param;
use crate::queue::transaction::Transaction;
use crate::rows::turn_read::get;
use model::LedgerDeletion;

/// The tables with rows of a turn, by its `turn_id`.
pub(crate) const OF_TURN: &[&str] = &[
    "messages",
    "tool_calls",
    "compactions",
    "events",
    "message_words",
    "approvals",
    "deliveries",
    "memory_pending",
    "memory_turns",
    "memory_extractions",
    "cache_breaks",
];
/// The tables with rows of a session, by its `session_label`.
pub(crate) const OF_SESSION: &[&str] = &[
    "session_moves",
    "session_aliases",
    "waits",
    "runs",
    "commands",
    "queue_items",
    "queue_suspensions",
    "deliveries",
    "session_prompts",
    "memory_turns",
    "memory_extractions",
    "memory_usage",
    "cache_chains",
    "cache_links",
];
/// Deleted by statements of their own.
#[cfg(all(test, feature = "server"))]
pub(crate) const BY_ITSELF: &[&str] = &[
    "turns",
    "sessions",
    "dispatches",
    "memory_facts",
    "memory_chunks",
    "memory_vectors",
    "memory_skipped",
    "pending_deletions",
];

/// The parts of a statement that deletes the rows of `tables` which name a row of `of`.
fn parts(tables: &[&str], column: &str, (of, key): (&str, &str)) -> String {
    let part = |table: &&str| {
        format!(
            "gone_{table} as (delete from @{table} o using {of} where o.{column} = {of}.{key} returning 1),\n"
        )
    };
    tables.iter().map(part).collect()
}

/// Chunks are deleted with their vectors: processes drop those that they hold.
async fn forget(transaction: &Transaction<'_>, chunks: i64) -> Result<(), Failure> {
    if chunks > 0 {
        crate::memory::chunks::deleted(transaction).await?;
    }
    Ok(())
}

/// Deletes everything that belongs to a session but its row and its turns.
pub(crate) async fn of_session(transaction: &Transaction<'_>, label: &str) -> Result<(), Failure> {
    // The tasks that nobody has answered are their givers'.
    let text = format!(
        "with hidden as (select $1::text as label),
         {}
         given as (delete from @dispatches where parent_session = $1),
         answered as (delete from @dispatches where session_label = $1 and parent_session <> $1 and (body::jsonb ->> 'turnId') is not null),
         facts as (
           delete from @memory_facts f using @memory_scopes s where s.kind = 'session' and s.id = $1 and f.scope = s.n returning f.id),
         of_facts as (delete from @memory_chunks c using facts where c.fact_id = facts.id returning 1),
         chunks as (delete from @memory_chunks where session_label = $1 and fact_id is null returning 1)
         select (select count(*) from chunks) + (select count(*) from of_facts) as chunks",
        parts(OF_SESSION, "session_label", ("hidden", "label"))
    );
    let row = transaction.row(&text, &[(&label, Type::TEXT)]).await?;
    forget(transaction, row.map_or(Ok(0), |row| get(&row, "chunks"))?).await
}

/// Deletes those of the turns with the numbers `turns` that nothing follows and no session points at, with everything that belongs to
/// them, and counts it. The turns that the others follow stay as well, and are counted as retained. Nobody else may write turns and
/// sessions meanwhile.
pub(crate) async fn of_turns(
    transaction: &Transaction<'_>,
    turns: &[i64],
) -> Result<LedgerDeletion, Failure> {
    let text = format!(
        "with recursive stays as (
           select t.n, t.parent_turn_id from @turns t where t.n = any($1) and (
             exists (select from @turns c where c.parent_turn_id = t.id and (c.n is null or c.n <> all($1)))
             or t.id in (select m.thread_id from @turns g join @session_moves m on m.thread_id = g.id
               join @sessions s on s.label = m.session_label and s.head = m.thread_id where g.n = any($1)))
           union
           select p.n, p.parent_turn_id from stays join @turns p on p.id = stays.parent_turn_id where p.n = any($1)),
         gone as (select id, n, run_number, session_label from @turns where n = any($1) and n not in (select n from stays)),
         {}
         gone_items as (delete from @queue_items q using gone where q.turn_id = gone.id returning q.id),
         answered as (delete from @dispatches d using gone_items i where d.id = i.id),
         given as (delete from @dispatches d using gone where d.parent_turn_id = gone.id and d.status <> 'active'),
         facts as (delete from @memory_facts f using gone where f.turn_id = gone.id returning f.id),
         of_facts as (delete from @memory_chunks c using facts where c.fact_id = facts.id returning 1),
         chunks as (delete from @memory_chunks c using gone where c.turn_id = gone.id and c.fact_id is null returning 1),
         spawned as (
           update @sessions s set parent_turn_id = null, spawn_tool_call_id = null from gone where s.parent_turn_id = gone.id),
         deleted as (delete from @turns t using gone where t.n = gone.n)
         select (select count(*) from gone) as turns, (select count(run_number) from gone) as runs,
           (select count(*) from @turns where n = any($1) and n not in (select n from gone)) as stay,
           (select count(*) from gone_messages) as messages, (select count(*) from gone_tool_calls) as calls,
           (select count(*) from chunks) + (select count(*) from of_facts) as chunks,
           array(select distinct session_label from gone) as labels",
        parts(OF_TURN, "turn_id", ("gone", "id"))
    );
    let row = transaction.row(&text, &[(&turns, Type::INT8_ARRAY)]).await?;
    let Some(row) = row else { return Ok(LedgerDeletion::default()) };
    forget(transaction, get(&row, "chunks")?).await?;
    let labels: Vec<String> = get(&row, "labels")?;
    remove_sessions(transaction, &labels).await?;
    let count = |name: &str| get::<i64>(&row, name).map(i64::cast_unsigned);
    Ok(LedgerDeletion {
        turns: count("turns")?,
        retained_turns: count("stay")?,
        messages: count("messages")?,
        tool_calls: count("calls")?,
        runs: count("runs")?,
        ..LedgerDeletion::default()
    })
}

/// Removes the rows of hidden sessions that no turn names any more.
pub(crate) async fn remove_sessions(
    transaction: &Transaction<'_>,
    labels: &[String],
) -> Result<(), Failure> {
    let text = "delete from @sessions s where s.label = any($1) and s.opening and s.head is null and s.running is null
         and s.parked is null and not exists (select from @turns t where t.session_label = s.label)";
    let labels: [Param<'_>; 1] = [(&labels, Type::TEXT_ARRAY)];
    transaction.exec(text, &labels).await.map(drop)
}
