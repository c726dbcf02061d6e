//! What a deletion deletes, from one snapshot: sessions, and turns in the order in which they can go.
//!
//! It must never write. What changes after the snapshot is checked again by each batch.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use rusqlite::Connection;

use crate::deletion::candidates::{Candidates, read};
use crate::deletion::sessions::{self, PlannedSession};
use crate::reading::turn_lists;
use crate::rows::session_rows::IS_SESSION;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{Deletion, PruneOptions, TurnFilter, TurnSelection};
use turn::removal::removable;

const DOING: &str = "find what to delete";

/// What is deleted.
#[derive(Default)]
pub(crate) struct Plan {
    /// The sessions, which are hidden first.
    pub(crate) sessions: Vec<PlannedSession>,
    /// The numbers of the turns, those that follow others first.
    pub(crate) turns: Vec<i64>,
    /// How many selected turns stay.
    pub(crate) retained: u64,
    /// Whether a session may point at a deleted turn: its pointer moves back then.
    pub(crate) moves_heads: bool,
    /// The pointer moves of each turn, by its number.
    pub(crate) moves: HashMap<i64, Vec<i64>>,
    /// The newest pointer move of the snapshot.
    pub(crate) last_move: i64,
}

/// Plans a deletion. The labels in it are resolved.
///
/// # Errors
/// `unknown_session`; `storage_locked` for a session in which a turn is open.
pub(crate) fn plan(connection: &Connection, deletion: &Deletion) -> Stored<Plan> {
    let mut plan = match deletion {
        Deletion::Session(label, options) => session(connection, label, options.turns)?,
        Deletion::Turns(selection, options) => turns(connection, selection, options.followers)?,
        Deletion::Prune(options) => prune(connection, options)?,
    };
    plan.last_move =
        sql::one(connection, "SELECT coalesce(max(id), 0) FROM session_history", (), DOING)?;
    if plan.moves_heads {
        let gone: HashSet<i64> = plan.turns.iter().copied().collect();
        let select =
            "SELECT h.id, t.n FROM session_history h CROSS JOIN turn_rows t ON t.id = h.thread_id";
        let moves: Vec<(i64, i64)> = sql::all(connection, select, (), DOING)?;
        for (id, n) in moves {
            if gone.contains(&n) {
                plan.moves.entry(n).or_default().push(id);
            }
        }
    }
    Ok(plan)
}

fn session(connection: &Connection, label: &str, with_turns: bool) -> Stored<Plan> {
    let pending = sessions::pending(connection, label)?;
    if pending.is_none() {
        sessions::refuse(connection, label)?;
    }
    let with_turns = with_turns || pending.is_some();
    let runs = runs_without_turn(connection, &HashSet::from([label.to_owned()]))?;
    let runs = runs.into_iter().map(|(_, n)| n).collect();
    if !with_turns {
        let sessions = vec![PlannedSession { label: label.to_owned(), threads: None, runs }];
        return Ok(Plan { sessions, ..Plan::default() });
    }
    let mut candidates = Candidates::default();
    let until = pending.as_ref().map_or(i64::MAX, |pending| pending.hidden_at);
    let own = "SELECT n FROM turn_rows WHERE session_label = ?1 AND completed_at <= ?2";
    for n in sql::all::<i64>(connection, own, (label, until), DOING)? {
        candidates.add(connection, n)?;
    }
    let selected: Vec<i64> = candidates.0.keys().copied().collect();
    let mut threads: Vec<i64> = Vec::new();
    match &pending {
        None => threads = sql::all(connection, THREADS, (label,), DOING)?,
        Some(pending) => {
            for id in &pending.threads {
                threads.extend(number(connection, id)?);
            }
        }
    }
    threads.retain(|n| !candidates.0.contains_key(n));
    // The turns of deleted sessions belong to whoever continued them.
    let mut waiting: Vec<i64> = candidates.0.values().filter_map(|turn| turn.parent).collect();
    waiting.extend(&threads);
    while let Some(n) = waiting.pop() {
        if let Some(turn) = read(connection, n)?
            && (turn.session_label == label
                || sessions::is_hidden(connection, &turn.session_label)?)
            && candidates.add(connection, n)?
        {
            waiting.extend(turn.parent);
        }
    }
    // A session that has the label again is another one.
    let needed = pointed(connection, |other| pending.is_some() || other != label)?;
    let requested = candidates.requested(connection, |n, _| needed.contains(&n))?;
    let turns = removable(&requested);
    let mut ids = Vec::new();
    for n in threads {
        ids.extend(read(connection, n)?.map(|turn| turn.id));
    }
    let sessions = vec![PlannedSession { label: label.to_owned(), threads: Some(ids), runs }];
    let retained = remaining(&selected, &turns);
    Ok(Plan { sessions, turns, retained, ..Plan::default() })
}

fn turns(connection: &Connection, selection: &TurnSelection, followers: bool) -> Stored<Plan> {
    let TurnSelection { ids, session_label, status, since, until, metadata } = selection.clone();
    let only = match &ids {
        None => None,
        Some(ids) => {
            let mut numbers = HashSet::new();
            for id in ids {
                numbers.extend(number(connection, id)?);
            }
            Some(numbers)
        }
    };
    let filter =
        TurnFilter { session_label, status, since, until, metadata, ..TurnFilter::default() };
    let is_filtered = filter.session_label.is_some()
        || filter.status.is_some()
        || filter.since.is_some()
        || filter.until.is_some()
        || filter.metadata.is_some();
    let selected: Vec<i64> = match only {
        Some(numbers) if !is_filtered => numbers.into_iter().collect(),
        only => {
            let mut numbers = turn_lists::numbers(connection, &filter)?;
            numbers.retain(|n| only.as_ref().is_none_or(|only| only.contains(n)));
            numbers
        }
    };
    let mut candidates = Candidates::default();
    for n in &selected {
        candidates.add(connection, *n)?;
    }
    candidates.add_followers(connection, followers)?;
    // A run under way continues the head of its session.
    let open: HashSet<String> = open_labels(connection)?;
    let needed = pointed(connection, |label| open.contains(label))?;
    let requested = candidates.requested(connection, |n, _| needed.contains(&n))?;
    let turns = removable(&requested);
    let retained = remaining(&selected, &turns);
    Ok(Plan { turns, retained, moves_heads: true, ..Plan::default() })
}

fn prune(connection: &Connection, options: &PruneOptions) -> Stored<Plan> {
    let open = open_labels(connection)?;
    let listed = format!(
        "SELECT label, updated_at, {} FROM sessions WHERE opening = 0 ORDER BY updated_at DESC, label DESC",
        *IS_SESSION
    );
    let listed: Vec<(String, i64, bool)> = sql::all(connection, &listed, (), DOING)?;
    let mut newest = 0;
    let mut doomed = HashSet::new();
    for (label, updated_at, is_session) in listed {
        let is_kept = is_session && newest < options.keep;
        newest += u32::from(is_session);
        if !is_kept && updated_at < options.before && !open.contains(&label) {
            doomed.insert(label);
        }
    }
    let needed = pointed(connection, |label| !doomed.contains(label))?;
    let mut candidates = Candidates::default();
    let old = "SELECT n FROM turn_rows WHERE completed_at < ?1";
    for n in sql::all::<i64>(connection, old, (options.before,), DOING)? {
        candidates.add(connection, n)?;
    }
    let requested = candidates.requested(connection, |n, turn| {
        needed.contains(&n) || open.contains(&turn.session_label)
    })?;
    let turns = removable(&requested);
    let selected = candidates.0.iter().filter(|(_, turn)| doomed.contains(&turn.session_label));
    let selected: Vec<i64> = selected.map(|(n, _)| *n).collect();
    let mut runs: HashMap<String, Vec<i64>> = HashMap::new();
    for (label, n) in runs_without_turn(connection, &doomed)? {
        runs.entry(label).or_default().push(n);
    }
    let mut labels: Vec<String> = doomed.into_iter().collect();
    labels.sort_unstable();
    let sessions = labels.into_iter().map(|label| PlannedSession {
        runs: runs.remove(&label).unwrap_or_default(),
        threads: Some(Vec::new()),
        label,
    });
    let retained = remaining(&selected, &turns);
    Ok(Plan { sessions: sessions.collect(), turns, retained, ..Plan::default() })
}

fn remaining(selected: &[i64], turns: &[i64]) -> u64 {
    let gone: HashSet<i64> = turns.iter().copied().collect();
    selected.iter().filter(|n| !gone.contains(n)).count() as u64
}

/// The turns at which sessions point, or have pointed.
const POINTED: &str = "SELECT s.label, t.n FROM sessions s CROSS JOIN turn_rows t ON t.id = s.thread_id
     UNION ALL SELECT h.session_label, t.n FROM session_history h CROSS JOIN turn_rows t ON t.id = h.thread_id";
/// Those of one session.
const THREADS: &str = "SELECT t.n FROM sessions s CROSS JOIN turn_rows t ON t.id = s.thread_id WHERE s.label = ?1
     UNION SELECT t.n FROM session_history h CROSS JOIN turn_rows t ON t.id = h.thread_id WHERE h.session_label = ?1";

/// The turns at which the sessions with these labels point, or have pointed.
fn pointed(connection: &Connection, of: impl Fn(&str) -> bool) -> Stored<HashSet<i64>> {
    let mut found = HashSet::new();
    sql::each(connection, POINTED, (), DOING, |fields| {
        let label: &str = fields.next()?;
        if of(label) {
            found.insert(fields.next()?);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

fn number(connection: &Connection, id: &str) -> Stored<Option<i64>> {
    sql::optional(connection, "SELECT n FROM turn_rows WHERE id = ?1", (id,), DOING)
}

/// The sessions with a run that has not ended.
fn open_labels(connection: &Connection) -> Stored<HashSet<String>> {
    let select = "SELECT session_label FROM runs INDEXED BY runs_in_journal WHERE in_journal = 1 AND ended_at IS NULL";
    Ok(sql::all::<String>(connection, select, (), DOING)?.into_iter().collect())
}

/// The ended runs of these sessions whose turn is not in the ledger.
fn runs_without_turn(
    connection: &Connection,
    labels: &HashSet<String>,
) -> Stored<Vec<(String, i64)>> {
    let select = "SELECT r.session_label, r.n FROM runs r WHERE r.ended_at IS NOT NULL AND r.keeps_events = 1
         AND NOT EXISTS (SELECT 1 FROM turn_rows t WHERE t.id = r.turn_id)";
    let mut runs: Vec<(String, i64)> = sql::all(connection, select, (), DOING)?;
    runs.retain(|(label, _)| labels.contains(label));
    Ok(runs)
}
