//! A whole deletion: the sessions are hidden first, then the turns go a batch at a time, each in a transaction of its own.
//!
//! A batch deletes only turns that nothing follows and no session points at by now. It must never delete a part of a turn.

use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};
use crate::deletion::plan::{DOING, Plan, PlannedSession, heads, plan};
use crate::rows::turn_read::get;
use model::{DeleteSessionOptions, Deletion, LedgerDeletion, StorageError, StorageErrorKind};

/// The turns of a batch.
const TURNS: usize = 256;

/// The tables with rows of a turn, by its `turn_id`. A module whose rows belong to one adds its table.
const OF_TURN: &[&str] = &[
    "messages",
    "tool_calls",
    "compactions",
    "events",
    "message_words",
    "approvals",
    "deliveries",
    "queue_items",
    "memory_pending",
    "memory_turns",
    "memory_chunks",
];
/// The tables with rows of a session, by its `session_label`.
const OF_SESSION: &[&str] = &[
    "session_moves",
    "session_aliases",
    "waits",
    "commands",
    "queue_items",
    "queue_suspensions",
    "session_prompts",
];

/// Deletes, or counts what would be deleted.
pub(crate) async fn delete(server: &Server, deletion: &Deletion) -> Stored<LedgerDeletion> {
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
        let done = carry_out(server, &Deletion::Session(label.clone(), options)).await?;
        if matches!(deletion, Deletion::Session(wanted, _) if *wanted == label) {
            finished = Some(done);
        }
    }
    match (carry_out(server, deletion).await, finished) {
        (Err(error), Some(done)) if error.kind == StorageErrorKind::UnknownSession => Ok(done),
        (done, _) => done,
    }
}

async fn carry_out(server: &Server, deletion: &Deletion) -> Stored<LedgerDeletion> {
    let plan = plan(server, deletion).await?;
    let mut done = count(server, &plan).await?;
    for session in &plan.sessions {
        hide(server, session).await?;
    }
    if plan.moves_heads {
        move_heads(server, &plan.turns).await?;
    }
    for turns in plan.turns.chunks(TURNS) {
        let missed = batch(server, turns).await?;
        done.turns -= missed;
        done.retained_turns += missed;
    }
    let labels: Vec<&str> = plan.sessions.iter().map(|session| session.label.as_str()).collect();
    // A row that no turn names any more goes.
    let finish = "with done as (delete from @pending_deletions where session_label = any($1))
        delete from @sessions s where s.opening and s.head is null and s.running is null
          and not exists (select from @turns t where t.session_label = s.label)";
    server.exec("delete sessions", finish, &[(&labels, Type::TEXT_ARRAY)]).await?;
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

/// Hides a session, with everything that only it has: it is as one that its first turn has not created yet.
///
/// # Errors
/// `storage_locked` for one that is in use by now.
async fn hide(server: &Server, session: &PlannedSession) -> Stored<()> {
    let PlannedSession { label, threads } = session;
    let rows: String = OF_SESSION
        .iter()
        .map(|table| {
            format!("gone_{table} as (delete from @{table} o using hidden where o.session_label = hidden.label),\n")
        })
        .collect();
    let text = format!(
        "with hidden as (
           update @sessions s set head = null, opening = true, status = 'active', metadata = null, metadata_values = null
           where label = $1 and running is null and not exists (
             select from @turns o where o.session_label = $1 and o.status = 'streaming')
           returning label),
         {rows}
         pending as (
           insert into @pending_deletions (session_label, threads, hidden_at)
           select label, $2, @now_ms() from hidden where $2::text[] is not null on conflict do nothing)
         select 1 from hidden"
    );
    let params: [Param<'_>; 2] = [(label, Type::TEXT), (threads, Type::TEXT_ARRAY)];
    if server.row("delete a session", &text, &params).await?.is_none() {
        let message = format!("session `{label}` is in use by now; try again");
        return Err(StorageError::new(StorageErrorKind::Locked, message));
    }
    Ok(())
}

/// Moves the pointers that are at a turn which goes back to the nearest one that stays, where their log ends then.
async fn move_heads(server: &Server, gone: &Vec<i64>) -> Stored<()> {
    let doing = "move the pointer of a session";
    for (label, (head, stays)) in heads(server, gone).await? {
        let text = "with moved as (
               update @sessions set head = $3, updated_at = @now_ms() where label = $1 and head = $2 and running is null
               returning label),
             logged as (
               insert into @session_moves (session_label, thread_id, changed_at)
               select label, $3, @now_ms() from moved where $3::text is not null)
             select 1 from moved";
        let params: [Param<'_>; 3] =
            [(&label, Type::TEXT), (&head, Type::TEXT), (&stays, Type::TEXT)];
        server.exec(doing, text, &params).await?;
    }
    let text =
        "delete from @session_moves m using @turns t where t.id = m.thread_id and t.n = any($1)
        and not exists (select from @sessions s where s.head = t.id and s.label = m.session_label)";
    server.exec(doing, text, &[(gone, Type::INT8_ARRAY)]).await
}

/// Deletes the turns of a batch, and returns how many stay: those that are followed or pointed at by now, with every turn
/// that these follow.
async fn batch(server: &Server, turns: &[i64]) -> Stored<u64> {
    let lock = server.sql("lock table @turns, @sessions in share row exclusive mode");
    let rows: String = OF_TURN
        .iter()
        .map(|table| {
            format!(
                "gone_{table} as (delete from @{table} o using gone where o.turn_id = gone.id),\n"
            )
        })
        .collect();
    let text = server.sql(&format!(
        "with recursive stays as (
           select t.n, t.parent_turn_id from @turns t where t.n = any($1) and (
             exists (select from @turns c where c.parent_turn_id = t.id and (c.n is null or c.n <> all($1)))
             or exists (select from @sessions s where s.head = t.id))
           union
           select p.n, p.parent_turn_id from stays join @turns p on p.id = stays.parent_turn_id where p.n = any($1)),
         gone as (select id, n from @turns where n = any($1) and n not in (select n from stays)),
         {rows}
         deleted as (delete from @turns t using gone where t.n = gone.n)
         select count(*) as stay from @turns where n = any($1) and n not in (select n from gone)"
    ));
    let deleted = server.run("delete turns", async |client, _| {
        let transaction = client.transaction().await?;
        transaction.batch_execute(&lock).await?;
        let row = transaction.query_typed_one(&text, &[(&turns, Type::INT8_ARRAY)]).await?;
        transaction.commit().await?;
        Ok::<u64, Failure>(get::<i64>(&row, "stay")?.cast_unsigned())
    });
    deleted.await
}
