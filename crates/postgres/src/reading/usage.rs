//! The tokens and the cost of turns, for budgets over more than one run.
//!
//! It must never count a turn twice: a compaction is a separate turn.

use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::{Param, Server};
use crate::rows::turn_read::get;
use model::{Expense, SpentBy};

/// The sum over turns, and over the calls of the memory, which belong to no turn.
pub(crate) async fn spent(server: &Server, by: &SpentBy) -> Stored<Expense> {
    let (from, of_memory, params): (&str, &str, Vec<Param<'_>>) = match by {
        SpentBy::Turn(id) => {
            ("@turns where id = $1", "@memory_usage where false", vec![(id, Type::TEXT)])
        }
        SpentBy::Session(label) => (
            "@turns where session_label = $1",
            "@memory_usage where session_label = $1",
            vec![(label, Type::TEXT)],
        ),
        SpentBy::Agent(id) => (
            "@sessions join @turns on session_label = label where agent_id = $1",
            "@sessions join @memory_usage on session_label = label where agent_id = $1",
            vec![(id, Type::TEXT)],
        ),
        SpentBy::Between(from, until) => (
            "@turns where started_at / 86400000 between $1 / 86400000 and $2 / 86400000 and started_at >= $1 and started_at < $2",
            "@memory_usage where day between $1 / 86400000 and ($2 - 1) / 86400000",
            vec![(from, Type::INT8), (until, Type::INT8)],
        ),
    };
    let text = format!(
        "select least(t.tokens + m.tokens, 9223372036854775807)::bigint as tokens, t.cost + m.cost as cost from
           (select coalesce(sum(total_tokens), 0) as tokens, coalesce(sum(cost), 0)::float8 as cost from {from}) t,
           (select coalesce(sum(total_tokens), 0) as tokens, coalesce(sum(nanos), 0)::float8 / 1e9 as cost from {of_memory}) m"
    );
    let row = server.row("add up expenses", &text, &params).await?;
    let Some(row) = row else { return Ok(Expense::default()) };
    let tokens = u64::try_from(get::<i64>(&row, "tokens")?).unwrap_or_default();
    Ok(Expense { tokens, cost: get(&row, "cost")? })
}
