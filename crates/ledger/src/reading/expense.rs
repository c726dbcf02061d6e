//! The tokens and the cost of turns, for budgets over more than one run.
//!
//! It must never count a turn twice: a compaction is a separate turn, and the turns before a fork count for the session that
//! ran them.

use rusqlite::{Connection, ToSql};

use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{Expense, SpentBy};

/// The turns that were started in a time, among the blocks of its days.
const BETWEEN: &str = "(SELECT min(block) AS first, max(block) AS last FROM turns_of_days
     WHERE day BETWEEN ?1 / 86400000 AND ?2 / 86400000) CROSS JOIN turns
   ON n BETWEEN first << 6 AND last << 6 | 63 WHERE started_at >= ?1 AND started_at < ?2";

const DOING: &str = "add up expenses";

/// The sum, with the recorded usage of open turns, and of the calls of the memory, which belong to no turn.
pub(crate) fn spent(connection: &Connection, by: &SpentBy) -> Stored<Expense> {
    let (from, values): (&str, &[&dyn ToSql]) = match by {
        SpentBy::Turn(id) => ("turns WHERE id = ?1", &[id]),
        SpentBy::Session(label) => ("turns WHERE session_label = ?1", &[label]),
        SpentBy::Agent(id) => {
            ("sessions JOIN turns ON session_label = label WHERE agent_id = ?1", &[id])
        }
        SpentBy::Between(from, until) => (BETWEEN, &[from, until]),
    };
    let select = format!("SELECT coalesce(sum(total_tokens), 0), total(cost) FROM {from}");
    let (tokens, cost): (i64, f64) = sql::one(connection, &select, values, DOING)?;
    let memory = match by {
        SpentBy::Turn(_) => return Ok(Expense { tokens: count(tokens), cost }),
        SpentBy::Session(_) => "memory_usage WHERE session_label = ?1",
        SpentBy::Agent(_) => {
            "sessions JOIN memory_usage ON session_label = label WHERE agent_id = ?1"
        }
        SpentBy::Between(_, _) => {
            "memory_usage WHERE day BETWEEN ?1 / 86400000 AND (?2 - 1) / 86400000"
        }
    };
    let select = format!("SELECT coalesce(sum(total_tokens), 0), total(nanos) / 1e9 FROM {memory}");
    let (more, of_memory): (i64, f64) = sql::one(connection, &select, values, DOING)?;
    Ok(Expense { tokens: count(tokens.saturating_add(more)), cost: cost + of_memory })
}

fn count(tokens: i64) -> u64 {
    u64::try_from(tokens).unwrap_or_default()
}
