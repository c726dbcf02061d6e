//! The rows of `runs`: one for each run whose turn is open, or whose events are stored.
//!
//! A run's number is the id of its first entry. It must never be used twice: the transaction that adds a run also writes
//! that entry.

use std::sync::LazyLock;

use rusqlite::{Connection, Params, params};

use crate::lease::claim::LeaseRow;
use crate::lease::held::RunningTurn;
use crate::lease::owner::Owner;
use crate::sqlite::checksum::{checked, insert_all, set};
use crate::sqlite::columns::{columns, list, list_of};
use crate::sqlite::error::Stored;
use crate::sqlite::fields::{Fields, FromFields};
use crate::sqlite::sql;
use model::{RunNames, StorageError, StorageErrorKind};

/// A run.
#[derive(Debug, Clone)]
pub(crate) struct RunRow {
    /// Its number.
    pub(crate) n: i64,
    pub(crate) turn_id: String,
    pub(crate) run_id: String,
    pub(crate) session_label: String,
    pub(crate) created_at: i64,
    ended_at: Option<i64>,
    /// The epoch of its lease; `None` before its turn is opened.
    pub(crate) epoch: Option<i64>,
    /// Its context; `None` before its turn is opened.
    pub(crate) context_id: Option<i64>,
    pub(crate) keeps_events: bool,
    last_entry: Option<i64>,
    /// Whether a part of it is only in the journal.
    in_journal: bool,
    /// The process that runs it while it has no lease.
    pub(crate) owner: Option<Owner>,
}

columns!(RunRow {
    n,
    turn_id,
    run_id,
    session_label,
    created_at,
    ended_at,
    epoch,
    context_id,
    keeps_events,
    last_entry,
    in_journal,
    owner: Option<Owner>,
});

impl RunRow {
    pub(crate) fn has_ended(&self) -> bool {
        self.ended_at.is_some()
    }

    /// Whether the turn was opened and has not ended.
    pub(crate) fn is_open(&self) -> bool {
        !self.has_ended() && self.epoch.is_some()
    }

    /// Whether its events are archived, all of them.
    pub(crate) fn is_archived(&self) -> bool {
        !self.in_journal
    }

    /// The largest possible id of its entries.
    pub(crate) fn last_entry(&self) -> i64 {
        match self.last_entry {
            Some(last) => last.saturating_abs(),
            None => i64::MAX,
        }
    }
}

static COLUMNS: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM runs r WHERE", checked::<RunRow>("runs", "r")));
/// Only the runs with entries in the journal.
static IN_JOURNAL: LazyLock<String> = LazyLock::new(|| {
    let columns = checked::<RunRow>("runs", "r");
    format!("SELECT {columns} FROM runs r INDEXED BY runs_in_journal WHERE in_journal = 1")
});
pub(crate) static OF_TURN: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM runs WHERE turn_id = ?1", list::<RunRow>()));
pub(crate) static CHECKED_OF_TURN: LazyLock<String> =
    LazyLock::new(|| format!("{} turn_id = ?1", *COLUMNS));
pub(crate) static WITH_LEASE: LazyLock<String> = LazyLock::new(|| {
    let (run, lease) = (list_of::<RunRow>("r"), list_of::<LeaseRow>("l"));
    format!(
        "SELECT {run}, {lease} FROM runs r CROSS JOIN session_leases l ON l.session_label = r.session_label
         WHERE r.turn_id = ?1"
    )
});
pub(crate) static OF_RUN: LazyLock<String> =
    LazyLock::new(|| format!("{} run_id = ?1 ORDER BY n DESC LIMIT 1", *COLUMNS));
pub(crate) static OF_SESSION: LazyLock<String> =
    LazyLock::new(|| format!("{} n >= ?2 AND session_label = ?1 ORDER BY n", *COLUMNS));
/// Looks at the newest runs of the ledger only: `since` is the time of a call.
pub(crate) static ENDED_SINCE: LazyLock<String> = LazyLock::new(|| {
    format!(
        "{} n > (SELECT max(n) FROM runs) - 256 AND session_label = ?1 AND turn_id > ?2 AND ended_at IS NOT NULL ORDER BY n",
        *COLUMNS
    )
});
pub(crate) static OPEN_OF_SESSION: LazyLock<String> = LazyLock::new(|| {
    format!("{} AND session_label = ?1 AND ended_at IS NULL ORDER BY n", *IN_JOURNAL)
});
pub(crate) const OPEN_UNDER: &str = "SELECT turn_id FROM runs INDEXED BY runs_in_journal
   WHERE in_journal = 1 AND session_label = ?1 AND epoch = ?2 AND ended_at IS NULL ORDER BY n DESC LIMIT 1";
pub(crate) const NEWEST: &str = "SELECT coalesce(max(n), 0) FROM runs";
/// The runs whose turns are open.
pub(crate) static OPEN: LazyLock<String> = LazyLock::new(|| {
    format!("{} AND ended_at IS NULL AND epoch IS NOT NULL ORDER BY turn_id", *IN_JOURNAL)
});
/// The runs that have not ended.
pub(crate) static NOT_ENDED: LazyLock<String> =
    LazyLock::new(|| format!("{} AND ended_at IS NULL ORDER BY n", *IN_JOURNAL));
/// The runs that have ended and whose events are not archived.
pub(crate) static ENDED: LazyLock<String> =
    LazyLock::new(|| format!("{} AND last_entry > 0 ORDER BY n LIMIT ?1", *IN_JOURNAL));

const READING: &str = "read the runs of the ledger";
const WRITING: &str = "write the runs of the ledger";

/// A run, and whether its row is unaltered.
pub(crate) struct CheckedRun {
    pub(crate) run: RunRow,
    pub(crate) is_whole: bool,
}

impl<'r> FromFields<'r> for CheckedRun {
    fn from_fields(fields: &mut Fields<'r>) -> Stored<Self> {
        Ok(Self { run: fields.next()?, is_whole: fields.next()? })
    }
}

/// The run of a turn, for a writer, which does not depend on the row's checksum.
pub(crate) fn of_turn(connection: &Connection, turn_id: &str) -> Stored<Option<RunRow>> {
    sql::optional(connection, &OF_TURN, (turn_id,), READING)
}

/// The run of a turn, and the lease of its session.
pub(crate) fn with_lease(
    connection: &Connection,
    turn_id: &str,
) -> Stored<Option<(RunRow, LeaseRow)>> {
    sql::optional(connection, &WITH_LEASE, (turn_id,), READING)
}

/// The run of a turn, and whether its row is unaltered.
pub(crate) fn checked_of_turn(
    connection: &Connection,
    turn_id: &str,
) -> Stored<Option<CheckedRun>> {
    sql::optional(connection, &CHECKED_OF_TURN, (turn_id,), READING)
}

/// The newest run with the host's id.
pub(crate) fn of_run(connection: &Connection, run_id: &str) -> Stored<Option<RunRow>> {
    let found: Option<CheckedRun> = sql::optional(connection, &OF_RUN, (run_id,), READING)?;
    Ok(found.map(|found| found.run))
}

/// The runs of a session from a number on.
pub(crate) fn of_session(connection: &Connection, label: &str, from: i64) -> Stored<Vec<RunRow>> {
    let read = |fields: &mut Fields<'_>| Ok(fields.next::<CheckedRun>()?.run);
    sql::map(connection, &OF_SESSION, (label, from), READING, read)
}

/// The runs of a session that have ended, and whose turns have ids after `since`.
pub(crate) fn ended_since(
    connection: &Connection,
    label: &str,
    since: &str,
) -> Stored<Vec<RunRow>> {
    let read = |fields: &mut Fields<'_>| Ok(fields.next::<CheckedRun>()?.run);
    sql::map(connection, &ENDED_SINCE, (label, since), READING, read)
}

/// The open runs of a session.
pub(crate) fn open_of_session(connection: &Connection, label: &str) -> Stored<Vec<RunRow>> {
    let read = |fields: &mut Fields<'_>| Ok(fields.next::<CheckedRun>()?.run);
    sql::map(connection, &OPEN_OF_SESSION, (label,), READING, read)
}

/// The turn that is open under an epoch of the session's lease.
pub(crate) fn open_under(
    connection: &Connection,
    label: &str,
    epoch: i64,
) -> Stored<Option<RunningTurn>> {
    let found: Option<String> = sql::optional(connection, OPEN_UNDER, (label, epoch), READING)?;
    Ok(found.map(|turn_id| RunningTurn { turn_id, epoch }))
}

/// The number of the newest run; 0 for none.
pub(crate) fn newest(connection: &Connection) -> Stored<i64> {
    sql::one(connection, NEWEST, (), READING)
}

/// The runs whose turns are open, oldest first.
pub(crate) fn open(connection: &Connection) -> Stored<Vec<CheckedRun>> {
    sql::all(connection, &OPEN, (), READING)
}

/// The runs that have not ended, oldest first.
pub(crate) fn not_ended(connection: &Connection) -> Stored<Vec<RunRow>> {
    let read = |fields: &mut Fields<'_>| Ok(fields.next::<CheckedRun>()?.run);
    sql::map(connection, &NOT_ENDED, (), READING, read)
}

/// A few of the runs that have ended and whose events are not archived.
pub(crate) fn ended(connection: &Connection, most: i64) -> Stored<Vec<RunRow>> {
    let read = |fields: &mut Fields<'_>| Ok(fields.next::<CheckedRun>()?.run);
    sql::map(connection, &ENDED, (most,), READING, read)
}

const DELETE: &str = "DELETE FROM runs WHERE n = ?1";
static ADD: LazyLock<String> = LazyLock::new(|| insert_all::<RunRow>("runs"));
static LEASE: LazyLock<String> = LazyLock::new(|| {
    format!("UPDATE runs SET {} WHERE n = ?1", set(&[("epoch", "?2"), ("context_id", "?3")]))
});
static STORE_EVENTS: LazyLock<String> = LazyLock::new(|| {
    let change = set(&[
        ("keeps_events", "1"),
        ("owner", "?2"),
        ("pid", "?3"),
        ("pid_started", "?4"),
        ("pid_space", "?5"),
        ("boot_id", "?6"),
    ]);
    format!("UPDATE runs SET {change} WHERE n = ?1")
});
static END: LazyLock<String> = LazyLock::new(|| {
    let last = "(SELECT max(id) FROM journal)";
    let change = set(&[("ended_at", "?2"), ("last_entry", last)]);
    format!("UPDATE runs SET {change} WHERE n = ?1 AND ended_at IS NULL")
});
static ARCHIVED: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE runs SET {} WHERE n = ?1", set(&[("in_journal", "0")])));
static LAST_ENTRY: LazyLock<String> =
    LazyLock::new(|| format!("UPDATE runs SET {} WHERE n = ?1", set(&[("last_entry", "?2")])));

/// The number that the next run gets, and its first entry.
pub(crate) fn next(connection: &Connection) -> Stored<i64> {
    let select = "SELECT max(coalesce((SELECT max(id) FROM journal), 0), coalesce((SELECT max(n) FROM runs), 0)) + 1";
    sql::one(connection, select, (), READING)
}

/// The lease of a run's session, and its context.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunLease {
    pub(crate) epoch: i64,
    pub(crate) context_id: i64,
}

/// Adds the run `n`; with `owner`, its events are stored. `this` is the process that adds it.
///
/// # Errors
/// `duplicate_run` if another run has its id.
pub(crate) fn add(
    connection: &Connection,
    n: i64,
    names: &RunNames,
    now: i64,
    lease: Option<RunLease>,
    (owner, this): (Option<&Owner>, &Owner),
) -> Stored<RunRow> {
    let row = RunRow {
        n,
        turn_id: names.turn_id.clone(),
        run_id: names.run_id.clone(),
        session_label: names.session_label.clone(),
        created_at: now,
        ended_at: None,
        epoch: lease.map(|lease| lease.epoch),
        context_id: lease.map(|lease| lease.context_id),
        keeps_events: owner.is_some(),
        last_entry: None,
        in_journal: true,
        owner: owner.cloned(),
    };
    let doing = format_args!("write the run of turn `{}`", names.turn_id);
    match sql::insert(connection, &ADD, &row, doing) {
        Err(error) if error.kind == StorageErrorKind::DuplicateRun => {
            if !remove_abandoned(connection, &row.run_id, this)? {
                return Err(duplicate(&row.run_id));
            }
            sql::insert(connection, &ADD, &row, doing)?;
        }
        written => written?,
    }
    Ok(row)
}

/// Removes the run with that id if its process ended before its turn was opened: its id may be used again. False otherwise.
fn remove_abandoned(connection: &Connection, run_id: &str, this: &Owner) -> Stored<bool> {
    let Some(run) = of_run(connection, run_id)? else { return Ok(false) };
    let is_abandoned = run.epoch.is_none()
        && !run.has_ended()
        && run.owner.as_ref().is_some_and(|owner| owner.id != this.id && this.knows_dead(owner));
    if is_abandoned {
        change(connection, DELETE, params![run.n])?;
    }
    Ok(is_abandoned)
}

fn duplicate(run_id: &str) -> StorageError {
    let why = "the ledger has a run with this id; pass a new one, or `onDuplicateRun: 'attach'` for the result of that run";
    StorageError::new(StorageErrorKind::DuplicateRun, format!("`{run_id}`: {why}")).at("runId")
}

/// Stores the lease of the run's session. Returns the run as it is now.
pub(crate) fn leased(connection: &Connection, run: RunRow, lease: RunLease) -> Stored<RunRow> {
    let RunLease { epoch, context_id } = lease;
    change(connection, &LEASE, params![run.n, epoch, context_id])?;
    Ok(RunRow { epoch: Some(epoch), context_id: Some(context_id), ..run })
}

/// Marks the run's events as stored by this process.
pub(crate) fn store_events(connection: &Connection, n: i64, owner: &Owner) -> Stored<()> {
    let Owner { id, pid, pid_started, pid_space, boot_id } = owner;
    change(connection, &STORE_EVENTS, params![n, id, pid, pid_started, pid_space, boot_id])
}

/// Ends a run. Its journal is complete at this point.
pub(crate) fn end(connection: &Connection, n: i64, now: i64) -> Stored<()> {
    change(connection, &END, params![n, now])
}

/// Marks the run's events as archived.
pub(crate) fn archived(connection: &Connection, n: i64) -> Stored<()> {
    change(connection, &ARCHIVED, params![n])
}

/// Marks a run whose events cannot be archived because some are unreadable: its entries stay in the journal.
pub(crate) fn mark_unarchivable(connection: &Connection, run: &RunRow) -> Stored<()> {
    change(connection, &LAST_ENTRY, params![run.n, -run.last_entry()])
}

/// Removes a run that has ended: its turn has its id.
pub(crate) fn remove(connection: &Connection, n: i64) -> Stored<()> {
    change(connection, DELETE, params![n])
}

/// The error for an id that no run has.
pub(crate) fn unknown_run(run_id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownRun,
        format!("the ledger has no run `{run_id}`; pass the id of a run that has begun"),
    )
}

fn change(connection: &Connection, statement: &str, values: impl Params) -> Stored<()> {
    sql::exec(connection, statement, values, WRITING).map(drop)
}
