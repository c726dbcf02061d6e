//! Sessions that begin at a tool call of a turn: with a copy of the turn up to the results of the call.
//!
//! It must never write to the forked turn, and never leave a call without its result.

use std::collections::HashMap;

use base::clock::Clock;
use model::{Role, SessionRow, StorageError, StorageErrorKind, TokenUsage};
use portable::{Rows, TurnRecord};

use crate::connect::error::Stored;
use crate::connect::server::Server;
use crate::reading::sessions;
use crate::transfer::rows::{self, ServerRows};

/// A new session that begins after the results of the call and of the other calls of the same answer.
///
/// # Errors
/// `unknown_turn`, also for one that still runs; `unknown_tool_call`; `storage_constraint` when the label is taken.
pub(crate) async fn fork_at(
    server: &Server,
    clock: &Clock,
    (turn_id, call): (&str, &str),
    label: &str,
) -> Stored<SessionRow> {
    let id = clock.new_id();
    let forked = rows::writing(server, "fork a turn at a tool call", async |client| {
        let made = sessions::insert_fork(server, client, (turn_id, &id), label, true).await?;
        let rows = ServerRows::new(server, client, clock, &[]);
        let copied = async {
            if rows.exists(&id).await? {
                // An earlier try has taken effect.
                return Ok(());
            }
            let copy = copy(rows.read_turn(turn_id).await?, call, (&id, label), clock)?;
            let parent = match &copy.parent_turn_id {
                Some(parent) => rows.parent(parent).await?,
                None => None,
            };
            rows.write_turn(&copy, parent.as_ref()).await
        };
        let done = copied.await;
        rows.outcome(done)?;
        Ok(made)
    });
    forked.await
}

/// The copy of the turn. It has no usage and no cost: they count for the original.
fn copy(
    mut turn: TurnRecord,
    call: &str,
    (id, label): (&str, &str),
    clock: &Clock,
) -> Stored<TurnRecord> {
    let at: HashMap<&str, usize> =
        turn.messages.iter().enumerate().map(|(at, it)| (it.message.id.as_str(), at)).collect();
    let called = turn.tool_calls.iter().find(|it| it.call_id == call);
    let called = called.and_then(|it| at.get(it.message_id.as_str()).copied());
    let called = called.ok_or_else(|| unknown_call(&turn.id, call))?;
    let after = turn.messages.iter().skip(called + 1);
    let last = called + after.take_while(|it| it.message.role == Role::Tool).count();
    let mut calls = turn.tool_calls.clone();
    calls.retain(|it| at.get(it.message_id.as_str()).is_some_and(|at| *at <= last));
    for call in &mut calls {
        // A call's id is its tool's idempotency key, so the copy gets another.
        call.call_id = clock.new_id();
    }
    turn.tool_calls = calls;
    turn.messages.truncate(last + 1);
    let of_role = |role: Role| {
        let messages = turn.messages.iter().filter(move |it| it.message.role == role);
        messages.map(|it| it.message.id.clone())
    };
    let now = clock.now_ms();
    Ok(TurnRecord {
        query_message_ids: of_role(Role::User).collect(),
        response_message_id: of_role(Role::Assistant).next_back(),
        run_id: format!("fork-{}", turn.id),
        id: id.to_owned(),
        turn_type: "normal".to_owned(),
        status: "completed".to_owned(),
        stop_reason: Some("tool_use".to_owned()),
        session_label: label.to_owned(),
        started_at: now,
        completed_at: Some(now),
        usage: TokenUsage::default(),
        usage_estimated: false,
        context_tokens: None,
        cost: Some(0.0),
        source_event_id: None,
        error: None,
        attempts: Vec::new(),
        compaction: None,
        approvals: Vec::new(),
        ..turn
    })
}

fn unknown_call(turn_id: &str, call: &str) -> StorageError {
    let message = format!("turn `{turn_id}` has no tool call `{call}`; pass the `callId` of one");
    StorageError::new(StorageErrorKind::UnknownToolCall, message).at("options.atToolCall")
}
