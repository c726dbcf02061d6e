//! Decodes Converse's stream, event by event, and its whole answers.
//!
//! Owns the message's envelope: start, stop, usage, end. It must never end a response before its `messageStop`.

use super::blocks::Blocks;
use super::wire::{Answer, Event, read_usage};
use crate::classify::{parse_error, payload_failure};
use crate::json::repair;
use crate::wire::malformed;
use crate::{Completion, Decoder, Delta, DeltaSink, Failure, Flow, OfferedTools, Stop};
use model::FailureKind;

/// The state of one response.
#[derive(Debug, Default)]
pub(super) struct ConverseDecoder {
    started: bool,
    blocks: Blocks,
    /// Set by `messageStop`.
    stop_reason: Option<String>,
    usage_seen: bool,
}

impl ConverseDecoder {
    /// A decoder of the response to a request that offered these tools.
    pub(super) fn new(offered: OfferedTools) -> Self {
        Self { blocks: Blocks::new(offered), ..Self::default() }
    }
}

impl Decoder for ConverseDecoder {
    fn event(
        &mut self,
        name: &str,
        data: &[u8],
        sink: &mut dyn DeltaSink,
    ) -> Result<Flow, Failure> {
        // An unknown event is skipped.
        let known = matches!(
            name,
            "messageStart"
                | "contentBlockStart"
                | "contentBlockDelta"
                | "contentBlockStop"
                | "messageStop"
                | "metadata"
        );
        if !known {
            return Ok(Flow::More);
        }
        match serde_json::from_slice::<Event<'_>>(data) {
            Ok(event) => self.apply(name, &event, sink),
            Err(_) => {
                // Lone surrogates and invalid UTF-8 are repaired; an event that is still invalid fails the response.
                let repaired = repair(data);
                let event = serde_json::from_str::<Event<'_>>(&repaired)
                    .map_err(|_| malformed("an event"))?;
                self.apply(name, &event, sink)
            }
        }
    }

    fn end(&mut self, sink: &mut dyn DeltaSink) -> Result<Completion, Failure> {
        let Some(stop_raw) = self.stop_reason.take() else {
            return Err(Failure::new(
                FailureKind::Network,
                "stream_truncated",
                "the response ended before its `messageStop`; try again",
            ));
        };
        self.blocks.decide(sink);
        Ok(Completion { stop: self.stop(&stop_raw), stop_raw, status: 200 })
    }

    fn unary(&mut self, body: &[u8], sink: &mut dyn DeltaSink) -> Result<Completion, Failure> {
        let repaired = repair(body);
        let answer = serde_json::from_str::<Answer<'_>>(&repaired).ok();
        let message = answer.as_ref().and_then(|answer| answer.output.as_ref()?.message.as_ref());
        let (Some(answer), Some(message)) = (&answer, message) else {
            return Err(match parse_error(body) {
                Some(payload) => payload_failure(&payload),
                None => Failure::new(
                    FailureKind::ServerError,
                    "invalid_response",
                    "the response is neither an event stream nor a message; check the base URL",
                ),
            });
        };
        self.start(sink)?;
        for (index, block) in (0..).zip(&message.content) {
            self.blocks.whole(index, block, sink)?;
        }
        self.report(answer.usage, sink);
        self.stop_reason = Some(answer.stop_reason.as_str().to_owned());
        self.end(sink)
    }
}

impl ConverseDecoder {
    fn apply(
        &mut self,
        name: &str,
        event: &Event<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<Flow, Failure> {
        let index = event.content_block_index.unwrap_or(0);
        match name {
            "contentBlockDelta" => {
                if let Some(delta) = &event.delta {
                    self.blocks.delta(index, delta, sink);
                }
            }
            "contentBlockStart" => {
                if let Some(start) = &event.start {
                    self.blocks.start(index, start, sink)?;
                }
            }
            "contentBlockStop" => self.blocks.stop(index, sink),
            "messageStart" => self.start(sink)?,
            "messageStop" => {
                self.stop_reason.get_or_insert_with(|| event.stop_reason.as_str().to_owned());
            }
            "metadata" => self.report(event.usage, sink),
            _ => {}
        }
        // The usage follows the stop, so the response ends with the later of the two.
        let over = self.usage_seen && self.stop_reason.is_some();
        Ok(if over { Flow::End } else { Flow::More })
    }

    /// Begins the message. Converse sends no id, so a second start after content may be another answer, and two are never
    /// joined (docs/rules/faults.md#untrue-and-repeated-events).
    fn start(&mut self, sink: &mut dyn DeltaSink) -> Result<(), Failure> {
        if self.started && self.blocks.any_begun() {
            return Err(Failure::new(
                FailureKind::Network,
                "stream_spliced",
                "a second message began before the first had ended; try again",
            ));
        }
        if !std::mem::replace(&mut self.started, true) && !self.blocks.any_begun() {
            sink.delta(Delta::Started { response_id: "", model: "" });
        }
        Ok(())
    }

    fn report(&mut self, usage: Option<&serde_json::value::RawValue>, sink: &mut dyn DeltaSink) {
        self.usage_seen = true;
        if let Some(usage) = usage.and_then(|usage| read_usage(usage.get())) {
            sink.delta(Delta::Usage(usage));
        }
    }

    /// The stop reason over all providers (docs/rules/wire/bedrock.md#stop-reasons).
    fn stop(&self, reason: &str) -> Stop {
        match reason {
            // Some models call a tool and report the end of the turn.
            "end_turn" if self.blocks.any_calls() => Stop::ToolUse,
            "end_turn" => Stop::EndTurn,
            "tool_use" => Stop::ToolUse,
            "max_tokens" => Stop::MaxTokens,
            "stop_sequence" => Stop::StopSequence,
            "model_context_window_exceeded" => Stop::ContextFull,
            "content_filtered" | "guardrail_intervened" => Stop::ContentFilter,
            "malformed_tool_use" => Stop::MalformedToolCall,
            "malformed_model_output" => Stop::Error,
            _ => Stop::Other,
        }
    }
}
