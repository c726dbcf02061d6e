//! The tree of turns: a turn's ancestry and its children, page by page.
//!
//! It must never walk further than the requested page.

use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::{Param, Server};
use crate::journal::pointer::unknown_turn;
use crate::reading::turns::summary;
use crate::rows::turn_read::{self, TURN};
use model::{Page, PageOptions, TurnSummary};

/// The turn and its ancestors, the turn first and the root last.
///
/// # Errors
/// `unknown_turn`, also for `after`.
pub(crate) async fn ancestry(
    server: &Server,
    turn_id: &str,
    page: &PageOptions,
) -> Stored<Page<TurnSummary>> {
    let first = summary(server, turn_id).await?.ok_or_else(|| unknown_turn(turn_id))?;
    let from = match &page.after {
        None => Some(first.id),
        Some(after) => {
            let last = summary(server, after).await?;
            last.ok_or_else(|| unknown_turn(after).at("page.after"))?.parent_turn_id
        }
    };
    let text = format!(
        "with recursive chain as (
           select id, parent_turn_id, 1 as i from @turns where id = $1
           union all
           select t.id, t.parent_turn_id, i + 1 from chain c join @turns t on t.id = c.parent_turn_id where i < $2)
         select {TURN} from chain join @turns t on t.id = chain.id order by i"
    );
    let limit = page.limit.and_one();
    let params: [Param<'_>; 2] = [(&from, Type::TEXT), (&limit, Type::INT8)];
    let rows = server.rows("read the ancestry of a turn", &text, &params).await?;
    let found: Vec<TurnSummary> = rows.iter().map(turn_read::summary).collect::<Stored<_>>()?;
    Ok(Page::cut(found.into_iter().map(|turn| (turn.id.clone(), turn)).collect(), page.limit))
}

/// The children of a turn, by their ids.
///
/// # Errors
/// `unknown_turn`.
pub(crate) async fn children(
    server: &Server,
    turn_id: &str,
    page: &PageOptions,
) -> Stored<Page<TurnSummary>> {
    summary(server, turn_id).await?.ok_or_else(|| unknown_turn(turn_id))?;
    let text = format!(
        "select {TURN} from @turns t where t.parent_turn_id = $1 and t.id > $2 and t.status <> 'streaming'
         order by t.id limit $3"
    );
    let after = page.after.as_deref().unwrap_or_default();
    let limit = page.limit.and_one();
    let params: [Param<'_>; 3] =
        [(&turn_id, Type::TEXT), (&after, Type::TEXT), (&limit, Type::INT8)];
    let rows = server.rows("read the children of a turn", &text, &params).await?;
    let found: Vec<TurnSummary> = rows.iter().map(turn_read::summary).collect::<Stored<_>>()?;
    Ok(Page::cut(found.into_iter().map(|turn| (turn.id.clone(), turn)).collect(), page.limit))
}
