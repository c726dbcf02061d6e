//! A session's history as the next call needs it: the context rule over the chain of parents, read in slices.
//!
//! Turns that have ended never change, so that their slices need no common snapshot. It must never repair a message.

use std::collections::HashMap;

use tokio_postgres::types::Type;

use crate::connect::error::{Stored, damaged};
use crate::connect::server::{Param, Server};
use crate::events::live::SessionHead;
use crate::journal::pointer::unknown_turn;
use crate::rows::turn_read::{MESSAGE, get, message};
use model::{HistoryBase, HistoryTurn, Message, SessionHistory, TurnStatus};
use turn::context_walk::{
    Context, ContextTurn, ContextWalk, Cut, TurnLink, Wanted, messages_before,
};

/// Turns of a slice of the chain.
const SLICE: i64 = 256;

/// The head of a session, which a run may have read with its label.
pub(crate) async fn head(server: &Server, label: &str) -> Stored<SessionHead> {
    if let Some(head) = server.live.take_head(label) {
        return Ok(head);
    }
    let text = "select head from @sessions where label = $1";
    let row = server.row("read a session", text, &[(&label, Type::TEXT)]).await?;
    row.map(|row| get(&row, "head")).transpose()
}

/// The history of `label`, or of the turn `at`; see [`model::Journal::history`].
pub(crate) async fn session_history(
    server: &Server,
    label: &str,
    at: Option<&str>,
    known: Option<&str>,
) -> Stored<SessionHistory> {
    let session = head(server, label).await?;
    let exists = session.is_some();
    let head = at.map(ToOwned::to_owned).or_else(|| session.flatten());
    let Some(head) = head else {
        return Ok(SessionHistory {
            exists,
            head: None,
            base: HistoryBase::Root,
            summarised: false,
            turns: Vec::new(),
        });
    };
    let Context { base, turns, left_out: _ } = walk(server, &head, known).await?.finish();
    let summarised = turns.first().is_some_and(|turn| turn.compaction);
    let mut messages = messages(server, &turns).await?;
    let turns = turns.into_iter().map(|turn| {
        let messages = messages.remove(&turn.id).unwrap_or_default();
        let follows = turn.follows.as_deref();
        let edited_messages =
            follows.map_or(0, |compaction| messages_before(&messages, compaction));
        let ContextTurn { id, status, edited, .. } = turn;
        HistoryTurn { id, status, edited, edited_messages, messages }
    });
    Ok(SessionHistory { exists, head: Some(head), base, summarised, turns: turns.collect() })
}

/// The turn before the last compaction among `head` and its ancestors; `None` without a compaction.
pub(crate) async fn before_compaction(server: &Server, head: &str) -> Stored<Option<String>> {
    Ok(walk(server, head, None).await?.before_compaction().map(ToOwned::to_owned))
}

/// The newest turn that the context of `head` leaves out; `None` where it has the whole thread.
pub(crate) async fn newest_left_out(server: &Server, head: &str) -> Stored<Option<String>> {
    Ok(walk(server, head, None).await?.finish().left_out)
}

/// A row of the chain, and the cut of a compaction.
type Link = (TurnLink, Option<Cut>);

async fn walk(server: &Server, head: &str, known: Option<&str>) -> Stored<ContextWalk> {
    let mut walk = ContextWalk::new(head, known);
    let mut links: HashMap<String, Link> = HashMap::new();
    while let Some(wanted) = walk.wanted() {
        match wanted {
            Wanted::Turn(id) => {
                if !links.contains_key(id) {
                    links.extend(slice(server, id, known).await?);
                }
                let (link, _) = links.get(id).ok_or_else(|| unknown_turn(id))?;
                walk.turn(link.clone());
            }
            Wanted::Cut(id) => {
                let cut = links.get(id).and_then(|(_, cut)| cut.clone());
                walk.cut(cut.ok_or_else(|| damaged(format_args!("compaction `{id}` is missing")))?);
            }
        }
    }
    Ok(walk)
}

/// The turn and its next ancestors, no further than the one that is known.
async fn slice(server: &Server, id: &str, known: Option<&str>) -> Stored<Vec<(String, Link)>> {
    let text = "with recursive chain as (
           select id, parent_turn_id, status, turn_type, 1 as i from @turns where id = $1 and status <> 'streaming'
           union all
           select t.id, t.parent_turn_id, t.status, t.turn_type, i + 1 from chain c join @turns t on t.id = c.parent_turn_id
           where i < $3 and t.id is distinct from $2)
         select chain.*, first_kept_turn_id, summarized_through_turn_id
         from chain left join @compactions on turn_id = id";
    let params: [Param<'_>; 3] = [(&id, Type::TEXT), (&known, Type::TEXT), (&SLICE, Type::INT8)];
    let rows = server.rows("read the chain of a turn", text, &params).await?;
    let links = rows.iter().map(|row| {
        let id: String = get(row, "id")?;
        let status = match get::<&str>(row, "status")? {
            "completed" => TurnStatus::Completed,
            "aborted" => TurnStatus::Aborted,
            "failed" => TurnStatus::Failed,
            _ => return Err(damaged(format_args!("turn `{id}` has no status"))),
        };
        let cut = match (get(row, "first_kept_turn_id")?, get(row, "summarized_through_turn_id")?) {
            (Some(first_kept), Some(summarized_through)) => {
                Some(Cut { first_kept, summarized_through })
            }
            _ => None,
        };
        let parent = get(row, "parent_turn_id")?;
        let compaction = get::<&str>(row, "turn_type")? == "compaction";
        Ok((id.clone(), (TurnLink { id, parent, status, compaction }, cut)))
    });
    links.collect()
}

/// The messages of turns, by turn.
async fn messages(server: &Server, turns: &[ContextTurn]) -> Stored<HashMap<String, Vec<Message>>> {
    let ids: Vec<&str> = turns.iter().map(|turn| turn.id.as_str()).collect();
    let mut found: HashMap<String, Vec<Message>> = HashMap::new();
    if ids.is_empty() {
        return Ok(found);
    }
    let text = format!(
        "select {MESSAGE} from @messages where turn_id = any($1) order by turn_id, sequence"
    );
    let rows =
        server.rows("read the messages of a session", &text, &[(&ids, Type::TEXT_ARRAY)]).await?;
    for row in &rows {
        found.entry(get(row, "turn_id")?).or_default().push(message(row)?);
    }
    Ok(found)
}
