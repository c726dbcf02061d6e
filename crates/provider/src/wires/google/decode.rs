//! Decodes Google's chunks to deltas.
//!
//! Each part stays unchanged: a signed part is never joined with another one, and an unknown part is stored as an opaque
//! block. A response is complete with a `finishReason` or a blocked prompt, and never by the end of the socket.

use serde_json::value::RawValue;

use super::attachment::{attach, attachment};
use super::calls::{Calls, Owner};
use super::parse::{read, reported, truncated};
use super::partial::Partial;
use super::usage;
use super::wire::{Chunk, FunctionCall, FunctionResponse, Part};
use crate::wire::malformed;
use crate::{BlockStart, Completion, Decoder, Delta, DeltaSink, Failure, Flow, OfferedTools, Stop};
use model::{FailureKind, repair_text};

/// Decodes one `GenerateContentResponse`, streamed or whole.
#[derive(Debug, Default)]
pub(super) struct GoogleDecoder {
    started: bool,
    /// Whether a field was received that only this API sends.
    known: bool,
    response_id: String,
    /// The number of blocks, which is the next block's index.
    blocks: u32,
    /// The open text or thinking, which the next unsigned part of its kind continues.
    open: Option<(Kind, u32)>,
    /// The provider data of the open block; empty for none.
    beside: String,
    calls: Calls,
    /// The call with incomplete arguments.
    partial: Option<Partial>,
    finish: String,
    blocked: String,
    ended: bool,
    offered: OfferedTools,
}

impl GoogleDecoder {
    /// A decoder of the response to a request that offered these tools.
    pub(super) fn new(offered: OfferedTools) -> Self {
        Self { offered, ..Self::default() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
}

impl Decoder for GoogleDecoder {
    fn event(
        &mut self,
        _name: &str,
        data: &[u8],
        sink: &mut dyn DeltaSink,
    ) -> Result<Flow, Failure> {
        let data = data.trim_ascii();
        // The API has no such end, but gateways with several APIs do.
        if data == b"[DONE]" {
            return Ok(Flow::End);
        }
        if !data.is_empty() {
            read(data, &mut |chunk| self.chunk(chunk, sink))?;
        }
        Ok(Flow::More)
    }

    fn end(&mut self, sink: &mut dyn DeltaSink) -> Result<Completion, Failure> {
        let (stop, stop_raw) = if !self.finish.is_empty() {
            (self.stop(), self.finish.clone())
        } else if !self.blocked.is_empty() {
            (Stop::ContentFilter, format!("prompt_blocked:{}", self.blocked))
        } else {
            return Err(truncated());
        };
        if stop == Stop::EndTurn && self.blocks == 0 {
            return Err(Failure::new(
                FailureKind::ServerError,
                "empty_response",
                "the provider ended its response without an answer; try again",
            ));
        }
        if !self.ended {
            self.ended = true;
            self.close_open(sink);
            self.calls.decide(sink);
            for index in self.calls.whole() {
                sink.delta(Delta::BlockStop { index });
            }
        }
        Ok(Completion { stop, stop_raw, status: 200 })
    }

    fn unary(&mut self, body: &[u8], sink: &mut dyn DeltaSink) -> Result<Completion, Failure> {
        read(body.trim_ascii(), &mut |chunk| self.chunk(chunk, sink))?;
        if !self.known {
            return Err(Failure::new(
                FailureKind::ServerError,
                "not_a_response",
                "the server answered JSON without `candidates`; check the base URL",
            ));
        }
        self.end(sink)
    }
}

impl GoogleDecoder {
    fn chunk(&mut self, mut chunk: Chunk<'_>, sink: &mut dyn DeltaSink) -> Result<(), Failure> {
        // Even after a finish reason, which some servers repeat in every chunk: then it does not mean that the answer is whole.
        if let Some(error) = chunk.error {
            return Err(reported(error));
        }
        self.known |= chunk.candidates.is_some()
            || chunk.prompt_feedback.is_some()
            || chunk.usage_metadata.is_some();
        if !self.started && self.known {
            self.started = true;
            chunk.response_id.as_str().clone_into(&mut self.response_id);
            sink.delta(Delta::Started {
                response_id: chunk.response_id.as_str(),
                model: chunk.model_version.as_str(),
            });
        }
        if let Some(feedback) = &chunk.prompt_feedback
            && !feedback.block_reason.as_str().is_empty()
        {
            feedback.block_reason.as_str().clone_into(&mut self.blocked);
        }
        // Also of an invalid answer: it is paid for (docs/rules/abort-usage.md#usage).
        if let Some(usage) = chunk.usage_metadata.and_then(|raw| usage::read(raw.get())) {
            sink.delta(Delta::Usage(usage));
        }
        let Some(candidate) = chunk.candidate() else { return Ok(()) };
        let parts = candidate.content.and_then(|content| content.parts);
        for part in parts.unwrap_or_default() {
            self.part(part, sink)?;
        }
        // The last reason counts, but none makes a cut or stopped answer whole.
        let reason = candidate.finish_reason.as_str();
        // A server's value for "none yet" counts as none.
        let is_given = !reason.is_empty() && reason != "FINISH_REASON_UNSPECIFIED";
        if is_given && (self.finish.is_empty() || reason != "STOP") {
            reason.clone_into(&mut self.finish);
        }
        Ok(())
    }

    fn part(&mut self, raw: &RawValue, sink: &mut dyn DeltaSink) -> Result<(), Failure> {
        let repaired;
        let part: Part<'_> = match serde_json::from_str(raw.get()) {
            Ok(part) => part,
            // The list of parts was not parsed in full before: lone surrogates are detected here.
            Err(_) => {
                repaired = repair_text(raw.get());
                serde_json::from_str(&repaired).map_err(|_| malformed("a part"))?
            }
        };
        let signature = part.thought_signature.as_str();
        if let Some(call) = &part.function_call {
            self.close_open(sink);
            self.call(raw, &part, call, sink);
            return Ok(());
        }
        let Some(text) = &part.text else {
            self.close_open(sink);
            if let Some(result) = part.more.get("functionResponse") {
                self.answered(result, sink);
            }
            self.store_part(raw, sink);
            return Ok(());
        };
        let text = text.as_str();
        let kind = if part.thought == Some(true) { Kind::Thinking } else { Kind::Text };
        match (kind, signature.is_empty()) {
            (_, true) if part.more.is_empty() => {
                if !text.is_empty() {
                    self.show_beside(kind, text, "", sink);
                }
            }
            (_, true) if text.is_empty() => {
                self.close_open(sink);
                self.store_part(raw, sink);
            }
            // Its other members are stored; consecutive parts with equal ones are one text.
            (_, true) => {
                let beside = part.more.object("").unwrap_or_default();
                self.show_beside(kind, text, &beside, sink);
            }
            // It has no text, but the signature must be sent back on an empty text of its own.
            (Kind::Text, false) if text.is_empty() => {
                self.close_open(sink);
                self.store_part(raw, sink);
            }
            (_, false) => {
                self.close_open(sink);
                self.show(kind, text, sink);
                let index = self.blocks.saturating_sub(1);
                match kind {
                    Kind::Text => attach(index, &part, "", sink),
                    Kind::Thinking => {
                        sink.delta(Delta::Signature { index, signature });
                        if let Some(json) = part.more.object("") {
                            sink.delta(Delta::ProviderData { index, json: &json });
                        }
                    }
                }
                self.close_open(sink);
            }
        }
        Ok(())
    }

    /// Emits a text, in the open block of its kind or in a new one.
    fn show(&mut self, kind: Kind, text: &str, sink: &mut dyn DeltaSink) {
        let index = match self.open {
            Some((open, index)) if open == kind => index,
            Some(_) | None => {
                self.close_open(sink);
                let index = self.begin(
                    match kind {
                        Kind::Text => BlockStart::Text,
                        Kind::Thinking => BlockStart::Thinking,
                    },
                    sink,
                );
                self.open = Some((kind, index));
                index
            }
        };
        if !text.is_empty() {
            sink.delta(match kind {
                Kind::Text => Delta::Text { index, text },
                Kind::Thinking => Delta::Thinking { index, text },
            });
        }
    }

    /// Emits a text with other members, in the open block of its kind if that has the same ones.
    fn show_beside(&mut self, kind: Kind, text: &str, beside: &str, sink: &mut dyn DeltaSink) {
        if self.beside != beside {
            self.close_open(sink);
        }
        let is_new = self.open.is_none_or(|(open, _)| open != kind);
        self.show(kind, text, sink);
        if is_new && !beside.is_empty() {
            beside.clone_into(&mut self.beside);
            let index = self.blocks.saturating_sub(1);
            sink.delta(Delta::ProviderData { index, json: beside });
        }
    }

    /// Records a provider-run result: its call was the provider's own.
    fn answered(&mut self, result: &RawValue, sink: &mut dyn DeltaSink) {
        let result = serde_json::from_str::<FunctionResponse<'_>>(result.get()).unwrap_or_default();
        if let Some(index) = self.calls.answered(result.id.as_str(), result.name.as_str()) {
            sink.delta(Delta::BlockStop { index });
        }
    }

    /// Stores an opaque part: code the provider ran, a generated image, a signature only.
    fn store_part(&mut self, raw: &RawValue, sink: &mut dyn DeltaSink) {
        if raw.get() == "{}" {
            return;
        }
        let index = self.begin(BlockStart::Opaque { raw_json: raw.get() }, sink);
        sink.delta(Delta::BlockStop { index });
    }

    fn call(
        &mut self,
        raw: &RawValue,
        part: &Part<'_>,
        call: &FunctionCall<'_>,
        sink: &mut dyn DeltaSink,
    ) {
        let name = call.name.as_str();
        let pieces = call.partial_args.as_deref().unwrap_or_default();
        let continues = call.will_continue == Some(true);
        let args = call.args.map(RawValue::get);
        if name.is_empty() && args.is_none() {
            // A fragment of the open call; without one it is dropped.
            if let Some(partial) = &mut self.partial {
                sink.withheld(partial.block, partial.take(pieces));
            }
            if !continues {
                self.finish_partial(sink);
            }
            return;
        }
        let whole = args.unwrap_or("{}");
        let in_pieces = args.is_none() && (continues || !pieces.is_empty());
        let given = call.id.as_str();
        if !in_pieces && self.calls.is_repeated(given, name, whole) {
            return;
        }
        // A call followed by another one without its own end stays open, and is never run.
        self.partial = None;
        let id = self.calls.id_of(given, &self.response_id);
        let has_own_id = id == given;
        let beside = call.more.object("").map(|json| format!("\"functionCall\":{json}"));
        let beside = beside.unwrap_or_default();
        if !in_pieces && !self.offered.has(name) {
            let index = self.begin(BlockStart::Opaque { raw_json: raw.get() }, sink);
            let owner = Owner::Undecided(attachment(part, &beside));
            self.calls.push(id, has_own_id, name, Some(whole), index, owner);
            return;
        }
        let index = self.begin(BlockStart::ToolCall { id: &id, name }, sink);
        attach(index, part, &beside, sink);
        if in_pieces {
            self.calls.push(id, has_own_id, name, None, index, Owner::Ours);
            let mut partial = Partial::new(index);
            sink.withheld(index, partial.take(pieces));
            self.partial = Some(partial);
            if !continues {
                self.finish_partial(sink);
            }
        } else {
            sink.delta(Delta::Arguments { index, json: whole });
            self.calls.push(id, has_own_id, name, Some(whole), index, Owner::Ours);
        }
    }

    /// Completes arguments that arrived in pieces.
    fn finish_partial(&mut self, sink: &mut dyn DeltaSink) {
        let Some(partial) = self.partial.take() else { return };
        let index = partial.block;
        if let Some(json) = partial.finish() {
            sink.delta(Delta::Arguments { index, json: &json });
            self.calls.complete();
        }
    }

    fn begin(&mut self, start: BlockStart<'_>, sink: &mut dyn DeltaSink) -> u32 {
        let index = self.blocks;
        self.blocks += 1;
        sink.delta(Delta::BlockStart { index, start });
        index
    }

    fn close_open(&mut self, sink: &mut dyn DeltaSink) {
        self.beside.clear();
        if let Some((_, index)) = self.open.take() {
            sink.delta(Delta::BlockStop { index });
        }
    }

    /// The stop of a finish reason (docs/rules/wire/google.md#finish-reasons).
    fn stop(&self) -> Stop {
        match self.finish.as_str() {
            "STOP" if self.calls.any_cut() => Stop::MalformedToolCall,
            "STOP" if !self.calls.is_empty() => Stop::ToolUse,
            "STOP" => Stop::EndTurn,
            "MAX_TOKENS" => Stop::MaxTokens,
            "SAFETY"
            | "RECITATION"
            | "LANGUAGE"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "MODEL_ARMOR"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION" => Stop::ContentFilter,
            "MALFORMED_FUNCTION_CALL"
            | "UNEXPECTED_TOOL_CALL"
            | "TOO_MANY_TOOL_CALLS"
            | "MALFORMED_RESPONSE" => Stop::MalformedToolCall,
            "OTHER" | "IMAGE_OTHER" | "NO_IMAGE" => Stop::Error,
            "CONTINUATION" => Stop::Pause,
            _ => Stop::Other,
        }
    }
}
