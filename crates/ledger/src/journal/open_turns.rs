//! A turn under way: W0 opens it, W1 to W3 add to it, W4 writes its rows (docs/rules/sessions-and-ledger.md#commit-points).
//!
//! Until W4 it is only in the journal, so reads of `turns` do not find it. It must never write without checking the lease in
//! the same transaction.

use std::borrow::Cow;
use std::sync::LazyLock;

use rusqlite::Connection;
use xxhash_rust::xxh3::xxh3_128;

use crate::journal::message_ids::MessageIds;
use crate::journal::open_turn_reads::{self, not_open, open_turn};
use crate::journal::write::{
    Row, RowHeader, insert_message_row, insert_tool_call_row, insert_turn, json, with_message,
    with_tool_call,
};
use crate::journal_codec::{
    CallRecord, Damage, Entry, EntryKind, MessageRecord, OpeningRecord, Record, TurnState,
};
use crate::journal_rows::approval_rows;
use crate::journal_rows::entry_rows::{self, CommitPoints};
use crate::journal_rows::run_rows::{self, RunLease, RunRow};
use crate::journal_rows::running::{Entrance, enter, running_turn};
use crate::lease::claim::Claim;
use crate::lease::owner::Owner;
use crate::rows::context_layers;
use crate::rows::narrow::shared_values::SharedValues;
use crate::rows::turn_parents::{Parent, parent_of};
use crate::rows::turn_rows;
use crate::sessions::{moved, pointers};
use crate::sqlite::checksum::{insert, numbered};
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use base::clock::Clock;
use model::{
    MessageLayers, OpenTurn, Opened, RunNames, StorageError, StorageErrorKind, TurnEnd,
    TurnOpening, TurnStep, query_message_ids,
};

/// The number of newest contexts that stay stored without an open turn: the next runs are likely to use them again.
const SPARE_CONTEXTS: i64 = 32;

static ADD_CONTEXT: LazyLock<String> = LazyLock::new(|| {
    insert("run_contexts", &numbered("hash, context_json"))
        + " ON CONFLICT (hash) DO UPDATE SET context_json = excluded.context_json, \
           row_checksum = excluded.row_checksum RETURNING id"
});

/// W0. With `owner`, the events of the run are stored. Returns the run's row.
///
/// # Errors
/// `unknown_turn` for a parent that does not exist, `storage_constraint` for an id that exists.
pub(crate) fn begin(
    connection: &Connection,
    opening: &TurnOpening,
    claim: &Claim,
    owner: Option<&Owner>,
) -> Stored<Opened<RunRow>> {
    let TurnOpening { turn_id, header, settings, messages, .. } = opening;
    let label = &header.session_label;
    moved::refuse(connection)?;
    // First of all, because a process that must read the session again remains in the queue.
    let free = match enter(connection, claim, label)? {
        Entrance::Free(free) => free,
        Entrance::Busy => return Ok(Opened::Busy),
        Entrance::Parked(turn) => return Ok(Opened::Parked(turn)),
    };
    let session = pointers::head(connection, label)?;
    if session.clone().flatten() != header.expected_head {
        return Ok(Opened::Moved);
    }
    let parent_id = header.parent_turn_id.as_deref();
    parent_id.map(|id| parent_of(connection, id)).transpose()?;
    let known = run_rows::of_turn(connection, turn_id)?;
    if known.as_ref().is_some_and(|run| run.has_ended() || run.is_open())
        || turn_rows::exists(connection, turn_id)?
    {
        return Err(already_stored(turn_id));
    }
    if session.is_none() {
        pointers::create(connection, label, parent_id, header.started_at, true)?;
    }
    let epoch = free.lease(connection, claim, label)?;
    let (context_id, context_hash) = context(connection, &opening.context)?;
    let lease = RunLease { epoch, context_id };
    let (tools, queries) = (json(&settings.tools_available), json(&query_message_ids(messages)));
    let mut entry = Entry::default();
    entry.add(&Record::Opening(OpeningRecord {
        turn_id,
        run_id: &header.run_id,
        session_label: label,
        parent_turn_id: parent_id,
        expected_head: header.expected_head.as_deref(),
        started_at: header.started_at,
        provider: &settings.provider,
        model: &settings.model,
        role: header.role.as_str(),
        toolset_name: Some(&header.toolset_name),
        tools_available: &tools,
        permissions_granted: &settings.permissions_granted,
        query_message_ids: &queries,
        source_event_id: header.source_event_id.as_deref(),
        workspace_path: Some(&header.workspace_path),
        context_hash: &context_hash,
        target_json: opening.target.as_deref(),
    }));
    if let Some(metadata) = &settings.metadata {
        entry.add(&Record::Metadata(metadata.as_str()));
    }
    for message in messages {
        with_message(connection, message, |record| entry.add(&Record::Message(*record)))?;
    }
    if let Some(MessageLayers { message_id, json }) = &settings.layers {
        entry.add(&Record::Layers(message_id, json));
    }
    let run = match known {
        Some(run) => {
            entry_rows::record(connection, run.n, &entry)?;
            run_rows::leased(connection, run, lease)?
        }
        None => {
            let n = run_rows::next(connection)?;
            let names = RunNames {
                turn_id: turn_id.clone(),
                run_id: header.run_id.clone(),
                session_label: label.clone(),
                resumes: false,
            };
            let now = claim.clock.now_ms();
            let run =
                run_rows::add(connection, n, &names, now, Some(lease), (owner, &claim.owner))?;
            entry_rows::append(connection, n, EntryKind::CommitPoint, entry.content(), true)?;
            run
        }
    };
    Ok(Opened::Leased(run))
}

/// Refuses an id whose turn is open: an open turn is ended under its lease, and its id is not used a second time.
pub(crate) fn refuse_open(connection: &Connection, turn_id: &str) -> Stored<()> {
    match run_rows::of_turn(connection, turn_id)?.filter(RunRow::is_open) {
        Some(_) => Err(already_stored(turn_id)),
        None => Ok(()),
    }
}

fn already_stored(turn_id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::Constraint,
        format!("turn `{turn_id}` is in the ledger already; use a new id for each turn"),
    )
}

/// The row of a context. Runs with the same context share it.
fn context(connection: &Connection, json: &str) -> Stored<(i64, String)> {
    let doing = "store the context of a run";
    let hash = format!("{:032x}", xxh3_128(json.as_bytes()));
    let select = "SELECT id FROM run_contexts WHERE hash = ?1 AND context_json = ?2";
    if let Some(id) = sql::optional(connection, select, (&hash, json), doing)? {
        return Ok((id, hash));
    }
    let old = "DELETE FROM run_contexts WHERE id <= (SELECT max(id) - ?1 FROM run_contexts)
       AND id NOT IN (SELECT context_id FROM runs INDEXED BY runs_in_journal
         WHERE in_journal = 1 AND ended_at IS NULL AND context_id IS NOT NULL)";
    sql::exec(connection, old, (SPARE_CONTEXTS,), doing)?;
    // A row with this hash and another text was altered from outside; the original text replaces it.
    let id = sql::one(connection, &ADD_CONTEXT, (&hash, json), doing)?;
    Ok((id, hash))
}

/// W1 to W3, of a run whose lease was checked.
pub(crate) fn record(
    connection: &Connection,
    run: &RunRow,
    step: &TurnStep,
    clock: &Clock,
) -> Stored<()> {
    let mut entry = Entry::default();
    for message in &step.messages {
        with_message(connection, message, |record| entry.add(&Record::Message(*record)))?;
        record_long(connection, run, &mut entry)?;
    }
    for call in &step.calls {
        let call = (&call.row, call.replay, call.arguments_hash.as_deref());
        with_tool_call(connection, call, clock, |record| entry.add(&Record::Call(*record)))?;
        record_long(connection, run, &mut entry)?;
    }
    for MessageLayers { message_id, json } in &step.layers {
        entry.add(&Record::Layers(message_id, json));
    }
    if let Some(progress) = &step.progress {
        entry.add(&Record::Progress(progress));
    }
    if entry.is_empty() {
        return Ok(());
    }
    entry_rows::record(connection, run.n, &entry)
}

/// Writes an entry that is too long to grow, and continues with an empty one: the fold of a turn does not depend on how its
/// records are split into entries.
fn record_long(connection: &Connection, run: &RunRow, entry: &mut Entry) -> Stored<()> {
    if entry.content().len() < entry_rows::LONG {
        return Ok(());
    }
    entry_rows::record(connection, run.n, &std::mem::take(entry))
}

/// Makes the compaction the parent of the open turn, also for a process that resumes it.
pub(crate) fn follow(connection: &Connection, run: &RunRow, compaction: &str) -> Stored<()> {
    let mut entry = Entry::default();
    entry.add(&Record::Follows(compaction));
    entry_rows::record(connection, run.n, &entry)
}

/// Writes an open turn at its end, under a lease that was checked: its row, its messages and its calls, from its journal and
/// from `turn`. The caller ends the run's row after writing its events.
///
/// # Errors
/// `ledger_corrupt` if a part of it cannot be read.
pub(crate) fn finish(
    connection: &Connection,
    run: &RunRow,
    turn: &TurnEnd,
    (parent_turn_id, parent): (Option<&str>, Option<&Parent>),
    clock: &Clock,
) -> Stored<()> {
    let points = CommitPoints::of(connection, run)?;
    let state = points.state();
    let is_left_out = match state.damage {
        Damage::None => false,
        // The process that took it over knows what is missing.
        Damage::Accepted => true,
        Damage::Lost => {
            return Err(damaged(&format!(
                "what turn `{}` has recorded is not as it was written; discard the turn",
                turn.turn_id
            )));
        }
    };
    if turn.has_approvals {
        approval_rows::cancel(connection, &turn.turn_id, clock.now_ms())?;
    }
    let mut row = Row::ended(turn, parent_turn_id);
    if let Some(opening) = &state.opening {
        row.header = header(opening);
        row.tools_available = Cow::Borrowed(opening.tools_available);
        row.permissions_granted = opening.permissions_granted;
        row.metadata = state.metadata;
    }
    let number = insert_turn(connection, &row, parent)?;
    // If something is missing, the remaining rows get new numbers without a gap.
    let mut numbers = Numbers { next: 0, renumbers: is_left_out };
    let (mut written, mut shared) = (MessageIds::default(), SharedValues::default());
    for message in &state.messages {
        let sequence = numbers.take(message.sequence);
        let message = MessageRecord { sequence, ..*message };
        written.insert_new(message.id)?;
        insert_message_row(connection, number, &message, &mut shared)?;
    }
    for message in &turn.messages {
        if written.insert(&message.id) {
            let sequence = numbers.take(message.sequence);
            with_message(connection, message, |record| {
                let message = MessageRecord { sequence, ..*record };
                insert_message_row(connection, number, &message, &mut shared)
            })??;
        }
    }
    let opening = turn.settings.layers.as_ref().filter(|_| state.layers.is_empty());
    let steered = turn.queue.iter().flat_map(|queue| &queue.layers);
    let given = opening.into_iter().chain(steered);
    let given = given.map(|it| (it.message_id.as_str(), it.json.as_str()));
    for (message, json) in state.layers.iter().copied().chain(given) {
        context_layers::set(connection, number, message, json)?;
    }
    let mut entry = Entry::default();
    for call in &turn.tool_calls {
        with_tool_call(connection, (call, None, None), clock, |record| {
            entry.add(&Record::Call(*record));
        })?;
    }
    numbers.next = 0;
    for call in calls(&state, &entry)? {
        let message_id = call.message_id.filter(|id| !is_left_out || written.contains(id));
        written.expect(message_id)?;
        let sequence = numbers.take(call.sequence);
        let call = CallRecord { message_id, sequence, ..call };
        insert_tool_call_row(connection, number, &call, &shared)?;
    }
    Ok(())
}

/// The sequence numbers of a turn's messages, or of its calls.
struct Numbers {
    next: u32,
    /// Whether new numbers replace the stored ones.
    renumbers: bool,
}

impl Numbers {
    fn take(&mut self, stored: u32) -> u32 {
        let next = self.next;
        self.next = next.saturating_add(1);
        if self.renumbers { next } else { stored }
    }
}

/// The calls of the turn with their newest states, some of them in `entry`.
fn calls<'a>(state: &TurnState<'a>, entry: &'a Entry) -> Stored<Vec<CallRecord<'a>>> {
    let unreadable = || damaged("a call of a turn cannot be read");
    let newest = Entry::records(entry.content()).ok_or_else(unreadable)?;
    Ok(state.clone().with(newest).calls)
}

fn header<'a>(opening: &OpeningRecord<'a>) -> RowHeader<'a> {
    RowHeader {
        run_id: opening.run_id,
        session_label: opening.session_label,
        started_at: opening.started_at,
        role: opening.role,
        toolset_name: opening.toolset_name,
        source_event_id: opening.source_event_id,
        workspace_path: opening.workspace_path,
    }
}

/// Takes over an interrupted turn: takes the session's lease under a new epoch and returns the turn's current state.
///
/// # Errors
/// `unknown_turn` for one that is not open.
pub(crate) fn reopen(
    connection: &Connection,
    turn_id: &str,
    claim: &Claim,
) -> Stored<Opened<Box<OpenTurn>>> {
    let found = open_turn_reads::open_run(connection, turn_id)?.ok_or_else(|| not_open(turn_id))?;
    let mut turn = open_turn(connection, &found)?;
    let run = found.run;
    if running_turn(connection, claim, &turn.session_label)?.is_some() {
        return Ok(Opened::Busy);
    }
    turn.epoch = claim.take(connection, &turn.session_label)?;
    if turn.parked {
        approval_rows::unpark(connection, &turn.turn_id)?;
    }
    let lease = RunLease { epoch: turn.epoch, context_id: run.context_id.unwrap_or_default() };
    let run = run_rows::leased(connection, run, lease)?;
    let mut entry = Entry::default();
    entry.add(&Record::TakenOver);
    entry_rows::record(connection, run.n, &entry)?;
    Ok(Opened::Leased(Box::new(turn)))
}
