//! Pair repair: every call directly followed by its result, in call order (docs/rules/projection.md#pair-repair).
//!
//! Call ids are scoped to their assistant message. It must never attach a result to a call of another message.

use std::collections::HashSet;

use super::clean::{fitted_name, has_content, tidy_end};
use super::ids::WireIds;
use super::piece::Piece;
use super::report::Dropped;
use super::target::Target;
use super::{provider_run, signature};
use model::{Api, Block, Message, Role};

/// The result that the model reads for a call without one.
const NO_RESULT: &str = "No result: the call was interrupted before the tool answered.";

/// The state between messages.
#[derive(Debug, Clone)]
pub(super) struct Pairs {
    ids: WireIds,
    /// Provider-run uses of the last answer whose results may be in the next one.
    waiting: HashSet<String>,
}

impl Pairs {
    pub(super) fn new(target: &Target) -> Self {
        Self { ids: WireIds::new(target.api, target.rules.ids), waiting: HashSet::new() }
    }

    /// Repairs cleaned messages and assigns the ids on the wire to the calls.
    pub(super) fn repair(
        &mut self,
        target: &Target,
        messages: Vec<Message>,
        piece: Piece,
        dropped: &mut Dropped,
    ) -> Vec<Message> {
        let mut out = Vec::with_capacity(messages.len());
        let reachable = match target.api {
            Api::AnthropicMessages => {
                provider_run::reachable(target, &messages, piece.is_open() && !piece.is_edited())
            }
            // There each answer has both halves.
            Api::BedrockConverse => vec![Some(HashSet::new()); messages.len()],
            Api::OpenaiChat | Api::OpenaiResponses | Api::GoogleGenerativeAi | Api::Scripted => {
                Vec::new()
            }
        };
        let mut rest = messages.into_iter().enumerate().peekable();
        while let Some((origin, message)) = rest.next() {
            match message.role {
                Role::User | Role::System => {
                    self.waiting.clear();
                    out.push(message);
                }
                // No earlier assistant message has a call for this result.
                Role::Tool => dropped.results += 1,
                Role::Assistant => {
                    // The messages up to the next assistant message: its results, and others between.
                    let mut results = Vec::new();
                    let mut others = Vec::new();
                    while let Some((_, next)) =
                        rest.next_if(|(_, next)| next.role != Role::Assistant)
                    {
                        if next.role == Role::Tool {
                            results.push(Some(next));
                        } else {
                            others.push(next);
                        }
                    }
                    let mut assistant = message;
                    if let Some(reachable) = reachable.get(origin) {
                        provider_run::retain_pairs(
                            &mut assistant.blocks,
                            &mut self.waiting,
                            |id| reachable.as_ref().is_none_or(|answered| answered.contains(id)),
                            dropped,
                        );
                    }
                    self.answered(target, assistant, &mut results, piece, dropped, &mut out);
                    dropped.results += results.iter().flatten().count();
                    if !others.is_empty() {
                        self.waiting.clear();
                    }
                    out.extend(others);
                }
            }
        }
        out
    }

    /// Emits an assistant message and one result per call.
    fn answered(
        &mut self,
        target: &Target,
        mut assistant: Message,
        results: &mut [Option<Message>],
        piece: Piece,
        dropped: &mut Dropped,
        out: &mut Vec<Message>,
    ) {
        let mut answers = Vec::new();
        let own = target.wrote(assistant.provenance.as_ref());
        let origin = (assistant.id.clone(), assistant.sequence, assistant.created_at);
        assistant.blocks.retain_mut(|block| {
            let Block::ToolCall { id, name, .. } = block else { return true };
            let given =
                results.iter_mut().find_map(|slot| slot.take_if(|result| answers_to(result, id)));
            if given.is_none() && piece.is_interrupted() {
                dropped.calls += 1;
                return false;
            }
            let wire = if own { self.ids.own(id) } else { self.ids.assign(id) };
            let (content, is_error) = match given.as_ref().and_then(|result| result.blocks.first())
            {
                Some(Block::ToolResult { content, is_error, .. }) => (content.clone(), *is_error),
                _ => (vec![Block::text(NO_RESULT)], true),
            };
            let result = Block::ToolResult {
                tool_call_id: wire.clone(),
                tool_name: fitted_name(target.api, name),
                content,
                is_error,
            };
            answers.push(match given {
                Some(message) => Message { blocks: vec![result], ..message },
                None => Message {
                    id: format!("{}:{wire}", origin.0),
                    role: Role::Tool,
                    blocks: vec![result],
                    sequence: origin.1,
                    created_at: origin.2,
                    provenance: None,
                    provider_stop_reason: None,
                },
            });
            *id = wire;
            true
        });
        // If calls were left out, another block is the last one now.
        tidy_end(target.api, &mut assistant.blocks, dropped);
        signature::fill(target, &mut assistant.blocks);
        if has_content(&assistant.blocks) {
            out.push(assistant);
            out.extend(answers);
        } else {
            for block in &assistant.blocks {
                dropped.count(block);
            }
        }
    }
}

fn answers_to(result: &Message, call_id: &str) -> bool {
    result.tool_result().is_some_and(|(id, _)| id == call_id)
}
