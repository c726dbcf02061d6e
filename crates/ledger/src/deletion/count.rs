//! What a plan would delete, counted in the snapshot of the plan. It must never count otherwise than the batches do.

use std::collections::{HashMap, HashSet};

use rusqlite::Connection;

use crate::deletion::candidates;
use crate::deletion::plan::Plan;
use crate::journal_rows::run_rows;
use crate::maintenance::open_blobs;
use crate::rows::blobs;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::LedgerDeletion;

const DOING: &str = "count what would be deleted";

/// The counts of a plan.
pub(crate) fn count(connection: &Connection, plan: &Plan) -> Stored<LedgerDeletion> {
    let mut counts = LedgerDeletion {
        sessions: plan.sessions.len() as u64,
        turns: plan.turns.len() as u64,
        retained_turns: plan.retained,
        runs: plan.sessions.iter().map(|session| session.runs.len() as u64).sum(),
        ..LedgerDeletion::default()
    };
    let gone: HashSet<i64> = plan.turns.iter().copied().collect();
    for n in &plan.turns {
        let of = |table: &str| {
            let select = format!(
                "SELECT count(*) FROM {table} WHERE key BETWEEN ?1 << 20 AND ?1 << 20 | 1048575"
            );
            sql::one::<u32>(connection, &select, (n,), DOING).map(u64::from)
        };
        counts.messages += of("message_rows")?;
        counts.tool_calls += of("call_rows")?;
        if let Some(turn) = candidates::read(connection, *n)? {
            let run = run_rows::of_turn(connection, &turn.id)?;
            counts.runs += u64::from(run.is_some_and(|run| run.keeps_events));
        }
    }
    // The turns that name each blob.
    let names = "SELECT key >> 20, blobs_json FROM message_rows WHERE blobs_json IS NOT NULL
         UNION ALL SELECT key >> 20, blobs_json FROM call_rows WHERE blobs_json IS NOT NULL
         UNION ALL SELECT coalesce(t.n, -1), q.blobs_json FROM queue_items q LEFT JOIN turn_rows t ON t.id = q.turn_id
           WHERE q.blobs_json IS NOT NULL";
    let mut only_gone: HashMap<String, bool> = HashMap::new();
    for (n, names) in sql::all::<(i64, String)>(connection, names, (), DOING)? {
        for hash in blobs::named(&names) {
            let goes = only_gone.entry(hash).or_insert(true);
            *goes = *goes && gone.contains(&n);
        }
    }
    let open = open_blobs(connection)?;
    let unused = only_gone.iter().filter(|(hash, goes)| **goes && !open.contains(*hash));
    counts.blobs = unused.count() as u64;
    Ok(counts)
}
