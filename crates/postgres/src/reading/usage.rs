//! The tokens and the cost of turns, for budgets over more than one run.
//!
//! It must never count a turn twice: a compaction is a separate turn.

use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::{Param, Server};
use crate::rows::turn_read::get;
use model::{Expense, SpentBy};

/// The sum over turns that have ended.
pub(crate) async fn spent(server: &Server, by: &SpentBy) -> Stored<Expense> {
    let (from, params): (&str, Vec<Param<'_>>) = match by {
        SpentBy::Turn(id) => ("@turns where id = $1", vec![(id, Type::TEXT)]),
        SpentBy::Session(label) => ("@turns where session_label = $1", vec![(label, Type::TEXT)]),
        SpentBy::Agent(id) => (
            "@sessions join @turns on session_label = label where agent_id = $1",
            vec![(id, Type::TEXT)],
        ),
        SpentBy::Between(from, until) => (
            "@turns where started_at >= $1 and started_at < $2",
            vec![(from, Type::INT8), (until, Type::INT8)],
        ),
    };
    let text = format!(
        "select coalesce(sum(total_tokens), 0)::bigint as tokens, coalesce(sum(cost), 0)::float8 as cost from {from}"
    );
    let row = server.row("add up expenses", &text, &params).await?;
    let Some(row) = row else { return Ok(Expense::default()) };
    let tokens = u64::try_from(get::<i64>(&row, "tokens")?).unwrap_or_default();
    Ok(Expense { tokens, cost: get(&row, "cost")? })
}
