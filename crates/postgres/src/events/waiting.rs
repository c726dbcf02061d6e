//! Runs that wait for their session: a row with the run's id, so that every process finds it, and refuses another run of that id.
//!
//! W0 puts the turn in the place of the row. It must never list a run whose turn is open, nor remove a row of a process that lives.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use tokio_postgres::types::Type;

use crate::connect::error::{Stored, damaged};
use crate::connect::server::{Param, Server};
use crate::events::new_events::{NewEvents, insert_events};
use crate::journal::pointer::{duplicate_run, stale_writer};
use crate::rows::turn_read::get;
use crate::sessions::aliases;

/// Whether the run `r`, which waits, is one of the process `owner`, or of another one that lives.
pub(crate) fn lives(owner: &str) -> String {
    format!("(r.owner = {owner} or r.expires_at > @now_ms())")
}

/// The parts of a statement that puts the turn `$n` in the place of the row of its run, for each row of `of`: `waited` has its
/// number. What a process has left under that id, which has ended, is removed.
pub(crate) fn take_place((run, turn, owner): (&str, &str, &str), of: &str) -> String {
    let lives = lives(owner);
    format!(
        ", gone_runs as (delete from @runs r using {of} where r.run_id = {run} and (r.turn_id = {turn} or not {lives})
           returning r.turn_id, r.run_number),
         waited as (select run_number from gone_runs where turn_id = {turn}),
         gone_events as (delete from @events e using gone_runs g where e.turn_id = g.turn_id and g.turn_id <> {turn})"
    )
}

/// The number of a run whose row was replaced by its turn, or a new one.
pub(crate) const NUMBER: &str =
    "coalesce((select run_number from waited), nextval('@run_numbers'))";

/// Writes the row of a run that waits, and its new events; a run whose id another one has is refused.
pub(crate) async fn write(server: &Server, events: NewEvents) {
    match add(server, &events).await {
        Ok(Added::Waits) => {
            events.entry.listed.store(true, Ordering::Release);
            events.done(server, false);
        }
        Ok(Added::IsOpen) => {
            let error = stale_writer(events.entry.label());
            events.failed(server, &error);
        }
        Ok(Added::Duplicate) => {
            let error = duplicate_run(&events.entry.names.run_id);
            events.failed(server, &error);
        }
        Err(error) => events.failed(server, &error),
    }
}

enum Added {
    Waits,
    /// Its turn is open, by a W0 whose answer was lost until it gave up: the run goes on without the ledger.
    IsOpen,
    /// Another run has its id.
    Duplicate,
}

/// Writes the rows of the runs of this process that wait, before runs are read.
pub(crate) async fn list(server: &Server) {
    for entry in server.live.unlisted() {
        let Some(mut events) = NewEvents::of(server, &entry.names.turn_id).await else { continue };
        // It may have got its session, or its row, meanwhile.
        let waits = entry.epoch.load(Ordering::Acquire) == 0 && !events.is_known();
        match events.tail.encode(&[]) {
            Ok(()) if waits && !server.live.follows_same(&entry) => write(server, events).await,
            Ok(()) => events.put_back(server, false),
            Err(error) => events.failed(server, &error),
        }
    }
}

async fn add(server: &Server, events: &NewEvents) -> Stored<Added> {
    let entry = &events.entry;
    let label = match entry.resolved() {
        Some(label) => label,
        None => entry.resolve(&aliases::resolve(server, &entry.names.session_label).await?),
    };
    let insert = insert_events("$2", "waits", FIRST);
    let lives = lives("$5");
    // The session is locked as by W0, so that its runs become visible in the order of their numbers.
    let text = format!(
        "with locked as (select from @sessions where label = $3 for no key update),
         in_order as (select count(*) as n from locked),
         own as (select from @turns where id = $2),
         known as (select from @turns where run_id = $1 and is_run),
         old as (select r.turn_id from @runs r where r.run_id = $1 and r.turn_id <> $2 and not {lives}),
         gone as (delete from @events e using old where e.turn_id = old.turn_id),
         waits as (
           insert into @runs as r (run_id, turn_id, session_label, run_number, started_at, owner, expires_at)
           select $1, $2, $3, nextval('@run_numbers'), $4, $5, @now_ms() + $6
           from in_order where not exists (select from known)
             and set_config('synchronous_commit', 'off', true) is not null
           on conflict (run_id) do update set turn_id = excluded.turn_id, session_label = excluded.session_label,
             run_number = case when r.turn_id = $2 then r.run_number else excluded.run_number end,
             started_at = excluded.started_at, owner = excluded.owner, expires_at = excluded.expires_at
           where r.turn_id = $2 or not {lives}
           returning r.turn_id){insert}
         select exists (select from waits) as waits, exists (select from own) as is_open,
           exists (select from @listeners where owner <> $5 and expires_at > @now_ms()) as listened"
    );
    let begun_at = entry.begun_at();
    let mut params: Vec<Param<'_>> = vec![
        (&entry.names.run_id, Type::TEXT),
        (&entry.names.turn_id, Type::TEXT),
        (&label, Type::TEXT),
        (&begun_at, Type::INT8),
        (&server.owner, Type::TEXT),
        (&server.lease_ms, Type::INT8),
    ];
    params.extend(events.tail.params());
    let row = server.row("store a run that waits", &text, &params).await?;
    let row = row.ok_or_else(|| damaged("a run that waits has no answer"))?;
    if !get::<bool>(&row, "waits")? {
        return Ok(if get(&row, "is_open")? { Added::IsOpen } else { Added::Duplicate });
    }
    server.live.has_listeners.store(get(&row, "listened")?, Ordering::Release);
    Ok(Added::Waits)
}

/// The first parameter of the events.
const FIRST: usize = 7;

/// Removes the rows of runs that have ended without a turn.
pub(crate) async fn remove_left(server: &Server) {
    let left =
        std::mem::take(&mut *server.live.left.lock().unwrap_or_else(PoisonError::into_inner));
    if left.is_empty() {
        return;
    }
    let text = "with gone as (delete from @runs where turn_id = any($1) returning turn_id)
        delete from @events e using gone where e.turn_id = gone.turn_id";
    // Where it cannot be written, the row expires.
    drop(server.exec("remove runs that have ended", text, &[(&left, Type::TEXT_ARRAY)]).await);
}

/// Renews the rows of this process.
pub(crate) async fn renew(server: &Server) -> Stored<()> {
    if !server.live.has_waiting() {
        return Ok(());
    }
    let text = "update @runs set expires_at = @now_ms() + $2 where owner = $1";
    let params: [Param<'_>; 2] = [(&server.owner, Type::TEXT), (&server.lease_ms, Type::INT8)];
    server.exec("renew the runs that wait", text, &params).await
}
