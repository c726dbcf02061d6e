//! Abort and steering of a run in another process: a row that the run's process reads and answers.
//!
//! A command is addressed to one turn under one lease. It must never reach a later run than that one, nor reach a run twice.

use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::{Param, Server};
use crate::events::announce::commands_to;
use crate::rows::turn_read::get;
use model::{SessionCommand, StorageError, StorageErrorKind};

/// The time between two looks for commands, while turns run here.
const LOOK: Duration = Duration::from_secs(1);

/// Writes a command for the turn that runs in the session, and returns its id.
///
/// # Errors
/// `not_running`.
pub(crate) async fn add(server: &Server, label: &str, command: &SessionCommand) -> Stored<i64> {
    // A command whose sender has ended is never deleted by it.
    let text = "with gone as (delete from @commands where created_at not between @now_ms() - 600000 and @now_ms() + 600000)
        insert into @commands (session_label, turn_id, epoch, owner, message, created_at)
        select label, running, epoch, owner, $2, @now_ms() from @sessions
        where label = $1 and running is not null and owner is not null and expires_at > @now_ms()
        returning id, owner";
    let message = match command {
        SessionCommand::Abort => None,
        SessionCommand::Steer(message) => Some(message),
    };
    let params: [Param<'_>; 2] = [(&label, Type::TEXT), (&message, Type::TEXT)];
    let doing = "command the run of a session";
    let sql = server.sql(text);
    // Sent once: a second row would reach the run twice.
    let added = server.run_soon(doing, async |client, may_be_done| {
        if may_be_done {
            let message = "the command may have reached the run; read its session".to_owned();
            return Err(StorageError::new(StorageErrorKind::Io, message).into());
        }
        Ok(client.query_typed(&sql, &params).await?)
    });
    let rows = added.await?;
    let row = rows.first().ok_or_else(|| not_running(label))?;
    server.announce(&[&commands_to(get(row, "owner")?)]);
    get(row, "id")
}

/// The answer to a command; `None` while the run can still give one.
///
/// # Errors
/// `not_running` where it runs no more.
pub(crate) async fn answer(server: &Server, label: &str, id: i64) -> Stored<Option<bool>> {
    let text =
        "select c.taken, coalesce(s.running = c.turn_id and s.epoch = c.epoch and s.owner = c.owner
          and s.expires_at > @now_ms(), false) as runs
        from @commands c left join @sessions s on s.label = c.session_label where c.id = $1";
    let row = server.row("read the answer to a command", text, &[(&id, Type::INT8)]).await?;
    let row = row.ok_or_else(|| not_running(label))?;
    match (get::<Option<bool>>(&row, "taken")?, get::<bool>(&row, "runs")?) {
        (None, false) => Err(not_running(label)),
        (taken, _) => Ok(taken),
    }
}

/// Deletes a command.
pub(crate) async fn delete(server: &Server, id: i64) -> Stored<()> {
    server
        .exec("delete a command", "delete from @commands where id = $1", &[(&id, Type::INT8)])
        .await
}

/// Carries out the commands to runs of this process, until the ledger is closed.
pub(crate) async fn run(server: Rc<Server>) {
    loop {
        while server.held.is_empty() {
            server.live.leases.notified().await;
        }
        // A turn that ends before the first look costs no statement.
        let _ = tokio::time::timeout(LOOK, server.live.commands.notified()).await;
        if server.held.is_empty() {
            continue;
        }
        let text = "select id, session_label, turn_id, epoch, message from @commands
            where owner = $1 and taken is null order by id";
        let params: [Param<'_>; 1] = [(&server.owner, Type::TEXT)];
        // The next look reads them.
        let rows = server.rows("read the commands of other processes", text, &params).await;
        for row in rows.unwrap_or_default() {
            drop(carry_out(&server, &row).await);
        }
    }
}

/// Passes a command to its run, if that is here, and answers it. Nothing else writes for the run meanwhile, so that the answer
/// is never written after its end.
async fn carry_out(server: &Server, row: &Row) -> Stored<()> {
    let (turn_id, label): (&str, &str) = (get(row, "turn_id")?, get(row, "session_label")?);
    let (id, epoch): (i64, i64) = (get(row, "id")?, get(row, "epoch")?);
    let Some(entry) = server.live.entry(turn_id) else { return Ok(()) };
    let _guard = entry.stored.lock().await;
    let runs =
        server.held.running(label).is_some_and(|it| it.turn_id == turn_id && it.epoch == epoch);
    let Some(run) = entry.run.upgrade().filter(|_| runs && !entry.over.load(Ordering::Acquire))
    else {
        return Ok(());
    };
    let taken = match get::<Option<&str>>(row, "message")? {
        None => {
            run.abort();
            true
        }
        Some(message) => run.steer(message),
    };
    let text = "update @commands set taken = $2, message = null where id = $1";
    let params: [Param<'_>; 2] = [(&id, Type::INT8), (&taken, Type::BOOL)];
    server.exec("answer a command", text, &params).await?;
    server.announce(&[&answer_to(id)]);
    Ok(())
}

/// The name under which the answer to a command is announced.
pub(crate) fn answer_to(id: i64) -> String {
    format!("answer {id}")
}

pub(crate) fn not_running(label: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::NotRunning,
        format!("no run is under way in session `{label}`; start one"),
    )
}
