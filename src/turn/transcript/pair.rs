//! Pair repair: every call directly followed by its result, in call order (RULES §4).
//!
//! Call ids are scoped to their assistant message. It must never attach a result to a call of another message.

use super::Piece;
use super::clean::{says_something, tidy_end};
use super::ids::WireIds;
use crate::model::{Block, Message, Role};

/// Told to the model for a call that has no result.
const NO_RESULT: &str = "No result: the call was interrupted before the tool answered.";

/// Repairs cleaned messages and gives the calls their ids on the wire.
pub(super) fn repair(messages: Vec<Message>, piece: Piece, ids: &mut WireIds) -> Vec<Message> {
    let mut out = Vec::with_capacity(messages.len());
    let mut rest = messages.into_iter().peekable();
    while let Some(message) = rest.next() {
        match message.role {
            Role::User | Role::System => out.push(message),
            // No assistant message before it asks for this.
            Role::Tool => {}
            Role::Assistant => {
                // What follows up to the next assistant message: its results, and what was said meanwhile.
                let mut results = Vec::new();
                let mut said = Vec::new();
                while let Some(next) = rest.next_if(|next| next.role != Role::Assistant) {
                    if next.role == Role::Tool {
                        results.push(Some(next));
                    } else {
                        said.push(next);
                    }
                }
                answered(message, &mut results, piece, ids, &mut out);
                out.extend(said);
            }
        }
    }
    out
}

/// Emits an assistant message and one result per call.
fn answered(
    mut assistant: Message,
    results: &mut [Option<Message>],
    piece: Piece,
    ids: &mut WireIds,
    out: &mut Vec<Message>,
) {
    let mut answers = Vec::new();
    let place = (assistant.id.clone(), assistant.sequence, assistant.created_at);
    assistant.blocks.retain_mut(|block| {
        let Block::ToolCall { id, name, .. } = block else { return true };
        let given =
            results.iter_mut().find_map(|slot| slot.take_if(|result| answers_to(result, id)));
        if given.is_none() && piece == Piece::Interrupted {
            return false;
        }
        let wire = ids.assign(id);
        let (content, is_error) = match given.as_ref().and_then(|result| result.blocks.first()) {
            Some(Block::ToolResult { content, is_error, .. }) => (content.clone(), *is_error),
            _ => (vec![Block::text(NO_RESULT)], true),
        };
        let result = Block::ToolResult {
            tool_call_id: wire.clone(),
            tool_name: name.clone(),
            content,
            is_error,
        };
        answers.push(match given {
            Some(message) => Message { blocks: vec![result], ..message },
            None => Message {
                id: format!("{}:{wire}", place.0),
                role: Role::Tool,
                blocks: vec![result],
                sequence: place.1,
                created_at: place.2,
                provenance: None,
                provider_stop_reason: None,
            },
        });
        *id = wire;
        true
    });
    // Where calls were left out, another block is the last one now.
    tidy_end(ids.api(), &mut assistant.blocks);
    if says_something(&assistant.blocks) {
        out.push(assistant);
        out.extend(answers);
    }
}

fn answers_to(result: &Message, call_id: &str) -> bool {
    result.tool_result().is_some_and(|(id, _)| id == call_id)
}
