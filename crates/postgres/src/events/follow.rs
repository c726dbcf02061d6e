//! Reading stored events from any number on, page by page: of one run, or of the runs of a session.
//!
//! It must never report a run as under way after its process has ended.

use std::collections::BTreeMap;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::{Param, Server};
use crate::events::new_events::{Tail, read_piece};
use crate::events::waiting::lives;
use crate::journal::take_over::RUNS;
use crate::rows::turn_read::{self, TURN, get};
use model::{
    Cursor, EventPage, EventReference, EventRows, Follows, Message, RunEvent, SessionPage,
    StorageError, StorageErrorKind, StreamEvent, TurnEnd,
};

/// Pieces of a page.
const PIECES: usize = 64;
/// Runs of a page.
const RUNS_OF_PAGE: i64 = 64;

/// What is stored of a run.
pub(crate) struct Found {
    pub(crate) page: EventPage,
    /// The run has no stored end, and no process executes it.
    pub(crate) interrupted: bool,
}

/// The events of a run after number `after`.
///
/// # Errors
/// `unknown_run`, `events_expired`.
pub(crate) async fn events_after(server: &Server, of: &Follows, after: u64) -> Stored<Found> {
    let (of_turn, of_run, name) = match of {
        Follows::Run(run) => ("t.run_id = $1 and t.turn_type = 'normal'", "r.run_id = $1", run),
        Follows::Turn(turn) => ("t.id = $1", "r.turn_id = $1", turn),
    };
    let lives = lives("$2");
    // A run that waits for its session has no turn yet.
    let text = format!(
        "(select t.id, t.status, t.run_number is not null as stores, {RUNS} as runs,
            coalesce(s.parked = t.id, false) as parked
          from @turns t join @sessions s on s.label = t.session_label where {of_turn} order by t.id desc limit 1)
         union all
         (select r.turn_id, 'streaming', true, {lives}, false from @runs r where {of_run})
         order by id desc limit 1"
    );
    let params: [Param<'_>; 2] = [(name, Type::TEXT), (&server.owner, Type::TEXT)];
    let row = server.row("find a run", &text, &params).await?;
    let row = row.ok_or_else(|| unknown_run(name))?;
    let turn_id: String = get(&row, "id")?;
    let expired = || {
        let message =
            format!("the events of run `{name}` are not stored, or not any more; read its turn");
        StorageError::new(StorageErrorKind::EventsExpired, message)
    };
    if !get::<bool>(&row, "stores")? {
        return Err(expired());
    }
    let has_ended = get::<&str>(&row, "status")? != "streaming";
    let (events, whole) = read(server, &turn_id, after).await?;
    if has_ended && events.is_empty() && after == 0 {
        return Err(expired());
    }
    let is_here = server.live.entry(&turn_id).is_some();
    // A parked turn has given up its lease, and waits for a decision.
    let runs = is_here || get(&row, "runs")? || get(&row, "parked")?;
    let interrupted = whole && !has_ended && !runs;
    Ok(Found { page: EventPage::of(turn_id, after, &events, whole && has_ended), interrupted })
}

/// Some events of a turn, and whether these are all that are stored.
async fn read(server: &Server, turn_id: &str, after: u64) -> Stored<(Vec<RunEvent>, bool)> {
    let text = "select body, checksum from @events where turn_id = $1 and last > $2 order by last limit $3";
    let (after, most) = (after.cast_signed(), PIECES.cast_signed() as i64);
    let params: [Param<'_>; 3] =
        [(&turn_id, Type::TEXT), (&after, Type::INT8), (&most, Type::INT8)];
    let rows = server.rows("read the events of a run", text, &params).await?;
    let mut events = Vec::new();
    for row in &rows {
        events.extend(read_piece(get(row, "body")?, get(row, "checksum")?, turn_id)?);
    }
    events.retain(|event| event.seq > after.cast_unsigned());
    let references = EventRows::references(&events);
    if !references.is_empty() {
        let found = referenced(server, turn_id, &references).await?;
        found.complete(&mut events, &references);
    }
    Ok((events, rows.len() < PIECES))
}

/// The rows that events refer to. One that is gone or damaged is left out.
async fn referenced(
    server: &Server,
    turn_id: &str,
    references: &[(usize, EventReference)],
) -> Stored<EventRows> {
    let (mut calls, mut messages, mut ends) = (Vec::new(), Vec::new(), false);
    for (_, reference) in references {
        match reference {
            EventReference::Call { call_id, .. } => calls.push(call_id.as_str()),
            EventReference::Message(id) => messages.push(id.as_str()),
            EventReference::Outcome { .. } => ends = true,
        }
    }
    let sql = [
        "select id, body, checksum from @tool_calls where turn_id = $1 and id = any($2)",
        "select id, body, checksum from @messages where turn_id = $1 and id = any($2)",
        // Read after the events: the turn may have ended since the page was begun.
        &format!("select {TURN} from @turns t where t.id = $1 and t.status <> 'streaming'"),
    ]
    .map(|text| server.sql(text));
    let [of_calls, of_messages, of_turn] = &sql;
    let turn: Param<'_> = (&turn_id, Type::TEXT);
    let calls_of: [Param<'_>; 2] = [turn.clone(), (&calls, Type::TEXT_ARRAY)];
    let messages_of: [Param<'_>; 2] = [turn.clone(), (&messages, Type::TEXT_ARRAY)];
    let turn_of: [Param<'_>; 1] = [turn];
    let read = server.run("read what events refer to", async |client, _| {
        let one = async |wanted: bool, sql: &str, params: &[Param<'_>]| match wanted {
            true => client.query_typed(sql, params).await,
            false => Ok(Vec::new()),
        };
        // Over one connection, in one round trip.
        let (calls, messages, turns) = tokio::join!(
            one(!calls.is_empty(), of_calls, &calls_of),
            one(!messages.is_empty(), of_messages, &messages_of),
            one(ends, of_turn, &turn_of),
        );
        Ok((calls?, messages?, turns?))
    });
    let (calls, messages, turns) = read.await?;
    let mut found = EventRows::default();
    for row in &calls {
        if let Some(call) = sound(turn_read::call(row))? {
            found.calls.insert(call.call_id.clone(), call);
        }
    }
    for row in &messages {
        let message: Option<Message> = sound(turn_read::message(row))?;
        found.texts.extend(message.map(|it| (it.id.clone(), EventRows::text_of(&it))));
    }
    found.turn = turns.first().map(|row| sound(turn_read::turn(row))).transpose()?.flatten();
    Ok(found)
}

/// The value, or none where it is damaged: reading the row itself reports that.
fn sound<T>(read: Stored<T>) -> Stored<Option<T>> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind == StorageErrorKind::Corrupt => Ok(None),
        Err(error) => Err(error),
    }
}

/// The error for an id that no run has.
pub(crate) fn unknown_run(run_id: &str) -> StorageError {
    let message = format!("the ledger has no run `{run_id}`; pass the id of one that has begun");
    StorageError::new(StorageErrorKind::UnknownRun, message)
}

/// Whether the error means that no events of a run are stored.
pub(crate) fn has_no_events(error: &StorageError) -> bool {
    matches!(error.kind, StorageErrorKind::UnknownRun | StorageErrorKind::EventsExpired)
}

/// The number of the newest stored event of a turn; 0 for none.
pub(crate) async fn last_event(server: &Server, turn_id: &str) -> Stored<u64> {
    let text = "select last from @events where turn_id = $1 order by last desc limit 1";
    let row = server.row("read the events of a run", text, &[(&turn_id, Type::TEXT)]).await?;
    let last: Option<i64> = row.map(|row| get(&row, "last")).transpose()?;
    Ok(last.unwrap_or_default().cast_unsigned())
}

/// What the end of a turn follows that no process runs; `None` where its events are not stored. Its last event tells whether
/// a part of an answer was delivered.
pub(crate) async fn interrupted_tail(server: &Server, turn: &mut TurnEnd) -> Stored<Option<Tail>> {
    let Some(end) = &mut turn.last_event else { return Ok(None) };
    let text = "select 1 from @turns where id = $1 and run_number is not null";
    let stored = server.row("find a run", text, &[(&turn.turn_id, Type::TEXT)]).await?;
    if stored.is_none() {
        return Ok(None);
    }
    let (mut last, mut has_deltas) = (0, false);
    loop {
        let (events, whole) = match read(server, &turn.turn_id, last).await {
            // No reader receives an event after a damaged one.
            Err(error) if error.kind == StorageErrorKind::Corrupt => return Ok(None),
            read => read?,
        };
        last = events.last().map_or(last, |event| event.seq);
        has_deltas |= events.iter().any(|event| event.message_id.is_some());
        if whole {
            break;
        }
    }
    if let StreamEvent::StreamError { partial, .. } = end {
        *partial = has_deltas;
    }
    Ok(Some(Tail::after(last)))
}

/// The page of a session's runs after `cursor`; without one, of those under way and those whose turns have ids after `since`.
pub(crate) async fn session_after(
    server: &Server,
    (label, since): (&str, &str),
    cursor: Option<Cursor>,
) -> Stored<SessionPage> {
    let first = cursor.is_none();
    let Cursor(before, open) = cursor.unwrap_or_default();
    let seen: BTreeMap<i64, u64> = open.into_iter().collect();
    let numbers: Vec<i64> = seen.keys().copied().collect();
    let lives = lives("$6");
    let text = format!(
        "(select id, run_id, run_number, status <> 'streaming' as ended from @turns
          where session_label = $1 and (run_number > $2 or run_number = any($3))
            and (not $4 or status = 'streaming') order by run_number limit $5)
         union all
         (select id, run_id, run_number, true from @turns
          where $4 and id > $7 and session_label = $1 and status <> 'streaming' and run_number is not null order by id limit $5)
         union all
         (select r.turn_id, r.run_id, r.run_number, false from @runs r
          where r.session_label = $1 and (r.run_number > $2 or r.run_number = any($3)) and (not $4 or {lives}))
         order by run_number limit $5"
    );
    let params: [Param<'_>; 7] = [
        (&label, Type::TEXT),
        (&before, Type::INT8),
        (&numbers, Type::INT8_ARRAY),
        (&first, Type::BOOL),
        (&RUNS_OF_PAGE, Type::INT8),
        (&server.owner, Type::TEXT),
        (&since, Type::TEXT),
    ];
    let doing = "read the runs of a session";
    let newest = match first {
        false => before,
        true => {
            let text = "select greatest(
                (select max(run_number) from @turns where session_label = $1 and run_number is not null),
                (select max(run_number) from @runs where session_label = $1)) as newest";
            let row = server.row(doing, text, &[(&label, Type::TEXT)]).await?;
            row.map(|row| get(&row, "newest")).transpose()?.flatten().unwrap_or(before)
        }
    };
    let rows = server.rows(doing, &text, &params).await?;
    let mut page = SessionPage { cursor: Cursor(newest, Vec::new()), events: Vec::new() };
    let mut full = false;
    for row in &rows {
        let number: i64 = get(row, "run_number")?;
        page.cursor.0 = page.cursor.0.max(number);
        let last = seen.get(&number).copied().unwrap_or_default();
        match full {
            true => page.cursor.1.push((number, last)),
            // The next page continues here, before the later runs.
            false => full = !add_run(server, row, (number, last), &mut page).await?,
        }
    }
    Ok(page)
}

/// Adds the events of one run to a page; false where more of them are stored.
async fn add_run(
    server: &Server,
    row: &Row,
    (number, after): (i64, u64),
    page: &mut SessionPage,
) -> Stored<bool> {
    let (turn_id, run_id): (String, String) = (get(row, "id")?, get(row, "run_id")?);
    let ended: bool = get(row, "ended")?;
    let (events, whole) = read(server, &turn_id, after).await?;
    let last = events.last().map_or(after, |event| event.seq);
    let events = events.iter().map(|event| (run_id.clone(), turn_id.clone(), event.json()));
    page.events.extend(events);
    if !ended || !whole {
        page.cursor.1.push((number, last));
    }
    Ok(whole)
}
