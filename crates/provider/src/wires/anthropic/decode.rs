//! Decodes Anthropic's stream, event by event, and its whole messages.
//!
//! Owns the message's envelope: start, usage, stop, end, errors. It must never end a response before its
//! `message_stop`, nor join two.

use serde_json::value::RawValue;

use super::blocks::Blocks;
use super::failure;
use super::wire::{DeltaBody, Event, Kind, Kinds, MessageBody, WireUsage, canonical_delta};
use crate::json::{Text, repair};
use crate::wire::{MALFORMED_EVENT, malformed};
use crate::{
    Completion, Decoder, Delta, DeltaSink, Failure, Flow, OfferedTools, ReportedUsage, Stop,
};

/// The state of one response.
#[derive(Debug, Default)]
pub(super) struct AnthropicDecoder {
    /// The id of the first `message_start`.
    response_id: Option<String>,
    blocks: Blocks,
    usage: ReportedUsage,
    stop_reason: String,
    stop_seen: bool,
}

impl AnthropicDecoder {
    /// A decoder of the response to a request that offered these tools.
    pub(super) fn new(offered: OfferedTools) -> Self {
        Self { blocks: Blocks::new(offered), ..Self::default() }
    }
}

impl Decoder for AnthropicDecoder {
    fn event(
        &mut self,
        name: &str,
        data: &[u8],
        sink: &mut dyn DeltaSink,
    ) -> Result<Flow, Failure> {
        if let Some((index, delta)) = canonical_delta(data) {
            self.blocks.delta(index, &delta, sink);
            return Ok(Flow::More);
        }
        let applied = match serde_json::from_slice::<Event<'_>>(data) {
            Ok(event) => self.apply(name, &event, sink),
            Err(_) => return self.repaired_event(name, data, sink),
        };
        match applied {
            // The raw part of the event did not parse; nothing was applied yet.
            Err(failure) if failure.code.as_deref() == Some(MALFORMED_EVENT) => {
                self.repaired_event(name, data, sink)
            }
            applied => applied,
        }
    }

    fn end(&mut self, sink: &mut dyn DeltaSink) -> Result<Completion, Failure> {
        if !self.is_complete() {
            return Err(failure::truncated());
        }
        self.blocks.decide(sink);
        Ok(Completion {
            stop: stop_of(&self.stop_reason),
            stop_raw: std::mem::take(&mut self.stop_reason),
            status: 200,
        })
    }

    fn unary(&mut self, body: &[u8], sink: &mut dyn DeltaSink) -> Result<Completion, Failure> {
        let body = repair(body);
        let message =
            serde_json::from_str::<MessageBody<'_>>(&body).map_err(|_| failure::not_a_message())?;
        if let Some(error) = message.error {
            return Err(failure::from_error(error));
        }
        let Some(content) = message.content.as_ref().filter(|_| !message.stop_reason.0.is_empty())
        else {
            return Err(failure::not_a_message());
        };
        self.started(&message, sink)?;
        for (index, block) in (0..).zip(content) {
            self.blocks.start(index, block, sink)?;
            self.blocks.stop(index, sink);
        }
        self.stop(&message.stop_reason);
        self.stop_seen = true;
        self.end(sink)
    }
}

impl AnthropicDecoder {
    fn apply(
        &mut self,
        name: &str,
        event: &Event<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Flow, Failure> {
        let index = event.index.unwrap_or(0);
        match event.kind.as_str() {
            "content_block_delta" => {
                if let Some(delta) = &event.delta {
                    self.blocks.delta(index, delta, sink);
                }
            }
            "content_block_start" => {
                let block = event.content_block.ok_or_else(|| malformed("a block start"))?;
                self.blocks.start(index, block, sink)?;
            }
            "content_block_stop" => self.blocks.stop(index, sink),
            "message_start" => {
                let body = event.message.map_or("{}", RawValue::get);
                let message = serde_json::from_str::<MessageBody<'_>>(body)
                    .map_err(|_| malformed("a `message_start`"))?;
                self.started(&message, sink)?;
            }
            "message_delta" => self.message_delta(event.delta.as_ref(), event.usage, sink),
            "message_stop" => self.stop_seen = true,
            "error" => return Err(error_of(event)),
            // A gateway's own error form, without a type; any other unknown event is skipped, as documented.
            "" if event.error.is_some() || name == "error" => return Err(error_of(event)),
            _ => {}
        }
        Ok(if self.is_complete() { Flow::End } else { Flow::More })
    }

    /// Decodes an event that strict JSON refuses: lone surrogates and invalid UTF-8 are repaired. If it is still invalid, it is
    /// skipped if its type is unknown, and fails the response if it is known.
    fn repaired_event(
        &mut self,
        name: &str,
        data: &[u8],
        sink: &mut dyn DeltaSink,
    ) -> Result<Flow, Failure> {
        let repaired = repair(data);
        if let Ok(event) = serde_json::from_str::<Event<'_>>(&repaired) {
            return self.apply(name, &event, sink);
        }
        let known = match serde_json::from_str::<Kinds<'_>>(&repaired) {
            Ok(kinds) => match kinds.kind.as_str() {
                "content_block_delta" => {
                    match kinds.delta.map(|it| serde_json::from_str::<Kind<'_>>(it.get())) {
                        Some(Ok(delta)) => is_known_delta(delta.kind.as_str()),
                        Some(Err(_)) | None => true,
                    }
                }
                kind => is_known_event(kind),
            },
            Err(_) => match repaired.trim() {
                "" | "[DONE]" => false,
                _ => name.is_empty() || is_known_event(name),
            },
        };
        if known { Err(malformed("an event")) } else { Ok(Flow::More) }
    }

    /// Begins the message. The first start counts; a second start of another message is never joined to it.
    fn started(
        &mut self,
        message: &MessageBody<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        let id = message.id.as_str();
        if let Some(first) = &self.response_id {
            if first != id && self.blocks.any_begun() {
                return Err(failure::spliced());
            }
            self.blocks.set_replayed();
            return Ok(());
        }
        self.response_id = Some(id.to_owned());
        sink.delta(Delta::Started { response_id: id, model: message.model.as_str() });
        self.report(message.usage, sink);
        Ok(())
    }

    fn message_delta(
        &mut self,
        delta: Option<&DeltaBody<'_>>,
        usage: Option<&RawValue>,
        sink: &mut dyn DeltaSink,
    ) {
        self.report(usage, sink);
        if let Some(delta) = delta {
            self.stop(&delta.stop_reason);
        }
    }

    fn report(&mut self, usage: Option<&RawValue>, sink: &mut dyn DeltaSink) {
        let parsed = usage.and_then(|usage| serde_json::from_str::<WireUsage>(usage.get()).ok());
        if let Some(parsed) = parsed {
            parsed.update(&mut self.usage);
            sink.delta(Delta::Usage(self.usage));
        }
    }

    fn stop(&mut self, reason: &Text<'_>) {
        if !reason.0.is_empty() {
            reason.as_str().clone_into(&mut self.stop_reason);
        }
    }

    fn is_complete(&self) -> bool {
        self.stop_seen && !self.stop_reason.is_empty()
    }
}

fn error_of(event: &Event<'_>) -> Failure {
    event.error.map_or_else(|| malformed("an error event"), failure::from_error)
}

fn is_known_event(kind: &str) -> bool {
    matches!(
        kind,
        "message_start"
            | "message_delta"
            | "message_stop"
            | "content_block_start"
            | "content_block_delta"
            | "content_block_stop"
            | "error"
    )
}

fn is_known_delta(kind: &str) -> bool {
    matches!(
        kind,
        "text_delta"
            | "input_json_delta"
            | "thinking_delta"
            | "signature_delta"
            | "citations_delta"
    )
}

/// The stop reason over all providers (docs/rules/wire/anthropic.md#stop-reasons).
fn stop_of(reason: &str) -> Stop {
    match reason {
        "end_turn" => Stop::EndTurn,
        "stop_sequence" => Stop::StopSequence,
        "tool_use" => Stop::ToolUse,
        "max_tokens" => Stop::MaxTokens,
        "model_context_window_exceeded" => Stop::ContextFull,
        "refusal" => Stop::Refusal,
        // Of gateways that speak this API: Z.ai's.
        "sensitive" => Stop::ContentFilter,
        "pause_turn" => Stop::Pause,
        _ => Stop::Other,
    }
}
