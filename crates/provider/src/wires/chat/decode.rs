//! Decodes chat completion events to deltas.
//!
//! A stream is complete with a `finish_reason`, or with `[DONE]` from servers without one; never by the end of the socket.
//! It must never complete a call that may have been cut.

use std::borrow::Cow;

use super::calls::{Beside, Call, CallPosition, Calls};
use super::parse::{MALFORMED, read};
use super::reasoning::Reasoning;
use super::wire::{CallPiece, Choice, Chunk, Content, Piece};
use super::{failure, stop, usage};
use crate::classify::{ErrorPayload, parse_error, payload_failure};
use crate::{BlockStart, Completion, Decoder, Delta, DeltaSink, Failure, Flow, OfferedTools, Stop};
use model::FailureKind;

/// Decodes one chat completion.
#[derive(Debug, Default)]
pub(super) struct ChatDecoder {
    started: bool,
    /// The number of blocks, which is the next block's index.
    blocks: u32,
    thinking: Option<u32>,
    reasoning: Reasoning,
    text: Option<u32>,
    refused: bool,
    calls: Calls,
    /// The call of the latest fragment: the one that a length stop may have cut.
    latest: Option<usize>,
    /// Whether a choice was received.
    answered: bool,
    finish: Option<String>,
    /// Whether the end is certain without a finish reason: by `[DONE]`, or in a whole body.
    done: bool,
    ended: bool,
    offered: OfferedTools,
}

/// The prefix of ids of tools that Anthropic runs, at any gateway.
const SERVER_TOOL_ID: &str = "srvtoolu_";

impl ChatDecoder {
    /// A decoder of the response to a request that offered these tools.
    pub(super) fn new(offered: OfferedTools) -> Self {
        Self { offered, ..Self::default() }
    }
}

impl Decoder for ChatDecoder {
    fn event(
        &mut self,
        name: &str,
        data: &[u8],
        sink: &mut dyn DeltaSink,
    ) -> Result<Flow, Failure> {
        let data = data.trim_ascii();
        if data == b"[DONE]" {
            self.done = true;
            return Ok(Flow::End);
        }
        if data.is_empty() {
            return Ok(Flow::More);
        }
        match read(data, |chunk| self.chunk(name, data, chunk, sink)) {
            // The text of an error event need not be JSON.
            Err(failure) if name == "error" && failure.code.as_deref() == Some(MALFORMED) => {
                return Err(failure::unnamed(data));
            }
            outcome => outcome??,
        }
        Ok(Flow::More)
    }

    fn end(&mut self, sink: &mut dyn DeltaSink) -> Result<Completion, Failure> {
        if self.finish.is_none() && !self.done {
            return Err(Failure::new(
                FailureKind::Network,
                "stream_truncated",
                "the stream ended before the provider's `finish_reason`; try again",
            ));
        }
        if !self.answered {
            return Err(Failure::new(
                FailureKind::ServerError,
                "empty_response",
                "the provider ended its response without an answer; try again",
            ));
        }
        let stop_raw = self.finish.clone().unwrap_or_default();
        let stop = stop::stop(&stop_raw, &self.calls, self.refused);
        if !self.ended {
            self.ended = true;
            self.close(stop, sink);
        }
        Ok(Completion { stop, stop_raw, status: 200 })
    }

    fn unary(&mut self, body: &[u8], sink: &mut dyn DeltaSink) -> Result<Completion, Failure> {
        let body = body.trim_ascii();
        read(body, |chunk| {
            if !chunk.choices.present || chunk.error.is_some() || &*chunk.object.0 == "error" {
                return Err(match parse_error(body) {
                    Some(payload) => payload_failure(&payload),
                    None => Failure::new(
                        FailureKind::ServerError,
                        "not_a_response",
                        "the server answered JSON without `choices`; check the base URL",
                    ),
                });
            }
            self.chunk("", body, chunk, sink)
        })??;
        self.done = true;
        self.end(sink)
    }
}

impl ChatDecoder {
    fn chunk(
        &mut self,
        name: &str,
        data: &[u8],
        chunk: Chunk<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        let is_error = chunk.error.is_some() || name == "error" || &*chunk.object.0 == "error";
        if !chunk.choices.present || is_error {
            // After the finish reason the answer is whole: a later error does not concern it.
            if self.finish.is_none() {
                match parse_error(data) {
                    Some(payload) => return Err(payload_failure(&payload)),
                    None if is_error => return Err(failure::unnamed(data)),
                    None => {}
                }
            }
            if is_error {
                return Ok(());
            }
        }
        let has_choice = chunk.choices.first.is_some();
        if !self.started && (has_choice || !chunk.id.is_empty()) {
            self.started = true;
            sink.delta(Delta::Started { response_id: &chunk.id.0, model: &chunk.model.0 });
        }
        let in_choice = chunk.choices.first.as_ref().and_then(|choice| choice.usage);
        let (beside, early) =
            chunk.x_groq.map(|raw| usage::read_groq(raw.get())).unwrap_or_default();
        let reported = chunk.usage.or(in_choice).and_then(|raw| usage::read(raw.get())).or(beside);
        let unfinished = self.finish.is_none();
        let outcome = match chunk.choices.first {
            Some(choice) => {
                self.answered = true;
                self.choice(choice, sink)
            }
            None => Ok(()),
        };
        // Also of a failed call: it is paid for (docs/rules/abort-usage.md#usage).
        if let Some(usage) = reported {
            sink.delta(Delta::Usage(usage));
        }
        outcome?;
        match early {
            Some(raw) if unfinished => Err(failure::stopped(&failure::wrapped(raw))),
            Some(_) | None => Ok(()),
        }
    }

    fn choice(&mut self, choice: Choice<'_>, sink: &mut dyn DeltaSink) -> Result<(), Failure> {
        if let Some(piece) = choice.delta.or(choice.message) {
            self.piece(piece, sink);
        }
        let finish = &choice.finish_reason.0;
        let failed = match finish.as_ref() {
            // OpenRouter puts the cause into the choice. Beside a normal finish reason it concerns only the content, which is
            // already in the answer.
            "error" | "" => choice.error.filter(|_| self.finish.is_none()).map(failure::wrapped),
            "network_error" | "abort" | "insufficient_system_resource" => Some(ErrorPayload {
                error_type: Some(finish.to_string()),
                message: format!("the provider stopped with `{finish}`"),
                ..ErrorPayload::default()
            }),
            _ => None,
        };
        let failed = failed.or_else(|| (finish == "error").then(ErrorPayload::default));
        if let Some(payload) = failed
            && self.finish.is_none()
        {
            return Err(failure::stopped(&payload));
        }
        // Of several finish chunks the last one counts, but none makes a cut answer whole.
        let is_cut = |raw: &str| {
            matches!(
                stop::stop(raw, &self.calls, self.refused),
                Stop::MaxTokens | Stop::ContextFull
            )
        };
        if !finish.is_empty() && !self.finish.as_deref().is_some_and(is_cut) {
            self.finish = Some(finish.to_string());
        }
        Ok(())
    }

    fn piece(&mut self, piece: Piece<'_>, sink: &mut dyn DeltaSink) {
        let details = piece
            .reasoning_details
            .map(|raw| self.reasoning.details(raw.get()))
            .unwrap_or_default();
        let fields = [
            ("reasoning_content", piece.reasoning_content.0),
            ("reasoning", piece.reasoning.0),
            ("reasoning_details", Cow::Owned(details)),
        ];
        // The same text may be in two fields; the first field with text is the one that is shown.
        for (field, text) in fields {
            if !text.is_empty() && *self.reasoning.field.get_or_insert(field) == field {
                self.show_thinking(&text, sink);
            }
        }
        match piece.content {
            Content::None => {}
            Content::Text(text) => self.show_text(&text, sink),
            Content::Parts(parts) => {
                for part in parts {
                    if &*part.kind.0 == "thinking" {
                        self.reasoning.field.get_or_insert("content");
                        self.think_in_parts(part.thinking, sink);
                    } else {
                        self.show_text(&part.text.0, sink);
                    }
                }
            }
        }
        if !piece.refusal.is_empty() {
            // A refusal is an answer that the user must see; `Stop::Refusal` marks it.
            self.refused = true;
            self.show_text(&piece.refusal.0, sink);
        }
        for call in piece.tool_calls.unwrap_or_default() {
            self.call(call, sink);
        }
        if let Some(function) = piece.function_call {
            self.call(CallPiece { function: Some(function), ..CallPiece::default() }, sink);
        }
    }

    fn think_in_parts(&mut self, thinking: Content<'_>, sink: &mut dyn DeltaSink) {
        match thinking {
            Content::None => {}
            Content::Text(text) => self.show_thinking(&text, sink),
            Content::Parts(parts) => {
                for part in parts {
                    self.show_thinking(&part.text.0, sink);
                }
            }
        }
    }

    /// Whether a new call is provider-run and only reported by the gateway: of an unknown tool, and with a type or an id that
    /// no client's tool has.
    fn is_provider_run(&self, kind: &str, id: &str, name: &str) -> bool {
        let is_client_type = matches!(kind, "" | "function" | "custom" | "builtin_function");
        !self.offered.has(name) && (!is_client_type || id.starts_with(SERVER_TOOL_ID))
    }

    fn call(&mut self, call: CallPiece<'_>, sink: &mut dyn DeltaSink) {
        let function = call.function.unwrap_or_default();
        let (index, id): (_, &str) = (call.index.0, &call.id.0);
        let name: &str = &function.name.0;
        let arguments = function.arguments();
        let has_more = !call.more.is_empty() || !function.more.is_empty();
        if id.is_empty() && name.is_empty() && arguments.is_empty() && !has_more {
            return;
        }
        let position = match self.calls.position_of(index, id, name, &arguments) {
            CallPosition::Repeated => return,
            CallPosition::Known(position) => position,
            CallPosition::New => {
                let provider_run = self.is_provider_run(&call.kind.0, id, name);
                let start = if provider_run {
                    BlockStart::Opaque { raw_json: "{}" }
                } else {
                    BlockStart::ToolCall { id, name }
                };
                let block = self.open(start, sink);
                self.calls.push(Call {
                    block,
                    id: id.to_owned(),
                    name: name.to_owned(),
                    arguments: String::new(),
                    provider_run,
                    kind: call.kind.0.to_string(),
                    beside: Beside::default(),
                })
            }
        };
        self.calls.number(index, position);
        self.latest = Some(position);
        let Some(known) = self.calls.get_mut(position) else { return };
        let late_id = if known.id.is_empty() { id } else { "" };
        let late_name = if known.name.is_empty() { name } else { "" };
        if !late_id.is_empty() || !late_name.is_empty() {
            known.id.push_str(late_id);
            known.name.push_str(late_name);
            sink.delta(Delta::CallIdentity { index: known.block, id: late_id, name: late_name });
        }
        let is_late = !late_id.is_empty();
        if !arguments.is_empty() {
            known.arguments.push_str(&arguments);
            sink.delta(Delta::Arguments { index: known.block, json: &arguments });
        }
        // The encoder writes the type and the position in the list.
        if known.beside.take(&call.more, &function.more) {
            let json = known.beside.object();
            sink.delta(Delta::ProviderData { index: known.block, json: &json });
        }
        if is_late {
            self.calls.identify(position);
        }
    }

    fn show_text(&mut self, text: &str, sink: &mut dyn DeltaSink) {
        if text.is_empty() {
            return;
        }
        let index = match self.text {
            Some(index) => index,
            None => self.open(BlockStart::Text, sink),
        };
        self.text = Some(index);
        sink.delta(Delta::Text { index, text });
    }

    fn show_thinking(&mut self, text: &str, sink: &mut dyn DeltaSink) {
        if text.is_empty() {
            return;
        }
        let index = self.thinking_block(sink);
        sink.delta(Delta::Thinking { index, text });
    }

    fn thinking_block(&mut self, sink: &mut dyn DeltaSink) -> u32 {
        let index = match self.thinking {
            Some(index) => index,
            None => self.open(BlockStart::Thinking, sink),
        };
        self.thinking = Some(index);
        index
    }

    fn open(&mut self, start: BlockStart<'_>, sink: &mut dyn DeltaSink) -> u32 {
        let index = self.blocks;
        self.blocks += 1;
        sink.delta(Delta::BlockStart { index, start });
        index
    }

    /// Closes the blocks, which could all grow until now.
    fn close(&mut self, stop: Stop, sink: &mut dyn DeltaSink) {
        let data = self.reasoning.provider_data();
        if data != "{}" {
            let index = self.thinking_block(sink);
            sink.delta(Delta::ProviderData { index, json: &data });
        }
        for index in [self.thinking, self.text].into_iter().flatten() {
            sink.delta(Delta::BlockStop { index });
        }
        for (position, call) in self.calls.iter().enumerate() {
            if call.provider_run {
                if let Some(json) = call.as_opaque() {
                    sink.delta(Delta::OpaqueJson { index: call.block, json: &json });
                    sink.delta(Delta::BlockStop { index: call.block });
                }
                continue;
            }
            let is_complete = match stop {
                // The cap cuts the last call; earlier ones are whole if their JSON is.
                Stop::MaxTokens | Stop::ContextFull => {
                    self.latest != Some(position) && call.is_whole()
                }
                // `[DONE]` without a reason does not prove that a call is whole; its JSON does.
                _ if self.finish.is_none() => call.is_whole(),
                _ => true,
            };
            if is_complete {
                sink.delta(Delta::BlockStop { index: call.block });
            }
        }
    }
}
