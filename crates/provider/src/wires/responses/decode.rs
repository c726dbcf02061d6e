//! Decodes a response's stream, event by event, and whole responses.
//!
//! Owns the response's envelope: start, usage, end, errors. It must never end a response before its terminal event
//! (`response.completed`, `.incomplete`, `.failed`), nor join two.

use serde_json::value::RawValue;

use super::item::Slot;
use super::output::{Items, Of};
use super::wire::{Event, Kind, ResponseBody};
use super::{failure, usage};
use crate::json::repair;
use crate::wire::{MALFORMED_EVENT, malformed};
use crate::{Completion, Decoder, Delta, DeltaSink, Failure, Flow, OfferedTools, Stop};

/// The state of one response.
#[derive(Debug, Default)]
pub(super) struct ResponsesDecoder {
    /// The id of the first event that had one.
    response_id: Option<String>,
    items: Items,
    /// Why it stopped, once the terminal event was received.
    ended: Option<(Stop, String)>,
}

impl ResponsesDecoder {
    /// A decoder of the response to a request that offered these tools.
    pub(super) fn new(offered: OfferedTools) -> Self {
        Self { items: Items::new(offered), ..Self::default() }
    }
}

impl Decoder for ResponsesDecoder {
    fn event(
        &mut self,
        name: &str,
        data: &[u8],
        sink: &mut dyn DeltaSink,
    ) -> Result<Flow, Failure> {
        let applied = match serde_json::from_slice::<Event<'_>>(data) {
            Ok(event) => self.apply(name, &event, data, sink),
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

    fn end(&mut self, _sink: &mut dyn DeltaSink) -> Result<Completion, Failure> {
        let (stop, stop_raw) = self.ended.take().ok_or_else(failure::truncated)?;
        Ok(Completion { stop, stop_raw, status: 200 })
    }

    fn unary(&mut self, body: &[u8], sink: &mut dyn DeltaSink) -> Result<Completion, Failure> {
        let body = repair(body);
        let response = serde_json::from_str::<ResponseBody<'_>>(&body).ok();
        let is_response = |it: &ResponseBody<'_>| it.output.is_some() && !it.status.0.is_empty();
        let Some(response) = response.filter(is_response) else {
            return Err(failure::not_a_response(body.as_bytes()));
        };
        self.started(&response, sink);
        self.report(&response, sink);
        match response.status.as_str() {
            "completed" | "incomplete" | "failed" => {
                self.over(&response, body.as_bytes(), sink)?;
            }
            status => return Err(failure::unfinished(status)),
        }
        self.end(sink)
    }
}

impl ResponsesDecoder {
    fn apply(
        &mut self,
        name: &str,
        event: &Event<'_>,
        data: &[u8],
        sink: &mut dyn DeltaSink,
    ) -> Result<Flow, Failure> {
        let of = Of { output_index: event.output_index.0, item_id: event.item_id.as_str() };
        let content = || Slot::Content(event.content_index.0.unwrap_or(0));
        let summary = || Slot::Summary(event.summary_index.0.unwrap_or(0));
        let reasoning = || Slot::Reasoning(event.content_index.0.unwrap_or(0));
        let delta = event.delta.as_str();
        let kind = if event.kind.as_str().is_empty() { name } else { event.kind.as_str() };
        match kind {
            "response.output_text.delta" => self.items.delta(of, content(), delta, sink),
            "response.refusal.delta" => {
                self.items.refuse();
                self.items.delta(of, content(), delta, sink);
            }
            "response.function_call_arguments.delta" => {
                self.items.delta(of, Slot::Arguments, delta, sink);
            }
            "response.custom_tool_call_input.delta" => {
                self.items.delta(of, Slot::Input, delta, sink);
            }
            "response.reasoning_summary_text.delta" => {
                self.items.delta(of, summary(), delta, sink);
            }
            "response.reasoning_text.delta" => self.items.delta(of, reasoning(), delta, sink),
            "response.output_text.done" => {
                self.items.text_done(of, content(), event.text.as_str(), sink)?;
            }
            "response.refusal.done" => {
                self.items.text_done(of, content(), event.refusal.as_str(), sink)?;
            }
            "response.function_call_arguments.done" => {
                self.items.text_done(of, Slot::Arguments, event.arguments.as_str(), sink)?;
            }
            "response.custom_tool_call_input.done" => {
                self.items.text_done(of, Slot::Input, event.input.as_str(), sink)?;
            }
            "response.reasoning_summary_text.done" => {
                self.items.text_done(of, summary(), event.text.as_str(), sink)?;
            }
            "response.reasoning_text.done" => {
                self.items.text_done(of, reasoning(), event.text.as_str(), sink)?;
            }
            "response.output_item.added" => self.items.added(of, item(event)?, sink)?,
            "response.output_item.done" => self.items.done(of, item(event)?, sink)?,
            "response.created" => {
                let response = response(event)?;
                let id = response.id.as_str();
                // A second response in the middle of the first is never joined to it. Only its start event identifies it: some
                // gateways send another id with every event.
                if self.items.any_begun() && self.response_id.as_deref() != Some(id) {
                    return Err(failure::spliced());
                }
                self.started(&response, sink);
            }
            "response.queued" | "response.in_progress" => self.started(&response(event)?, sink),
            "response.completed" | "response.done" => {
                let response = response(event)?;
                self.started(&response, sink);
                self.report(&response, sink);
                self.over(&response, data, sink)?;
            }
            "response.incomplete" => {
                let response = response(event)?;
                self.started(&response, sink);
                self.report(&response, sink);
                self.incomplete(&response, sink)?;
            }
            "response.failed" | "response.cancelled" => {
                let response = response(event)?;
                // A failed call is paid for too (docs/rules/abort-usage.md#usage).
                self.report(&response, sink);
                return Err(failure::failed(data));
            }
            "error" => return Err(failure::reported(data)),
            // A gateway's own error form, without a type; any other unknown event is skipped.
            "" if event.error.is_some() => return Err(failure::reported(data)),
            _ => {}
        }
        Ok(if self.ended.is_some() { Flow::End } else { Flow::More })
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
            return self.apply(name, &event, repaired.as_bytes(), sink);
        }
        let known = match serde_json::from_str::<Kind<'_>>(&repaired) {
            Ok(kind) if kind.kind.as_str().is_empty() => is_known(name),
            Ok(kind) => is_known(kind.kind.as_str()),
            Err(_) => match repaired.trim() {
                "" | "[DONE]" => false,
                _ => name.is_empty() || is_known(name),
            },
        };
        let error_text = repaired.trim();
        if name == "error" && !error_text.is_empty() && !error_text.starts_with('{') {
            // The text of an error event need not be JSON.
            return Err(failure::reported(error_text.as_bytes()));
        }
        if known { Err(malformed("an event")) } else { Ok(Flow::More) }
    }

    /// Begins the response, with the first event that describes it.
    fn started(&mut self, response: &ResponseBody<'_>, sink: &mut dyn DeltaSink) {
        if self.response_id.is_none() {
            let (response_id, model) = (response.id.as_str(), response.model.as_str());
            self.response_id = Some(response_id.to_owned());
            sink.delta(Delta::Started { response_id, model });
        }
    }

    fn report(&mut self, response: &ResponseBody<'_>, sink: &mut dyn DeltaSink) {
        if let Some(usage) = response.usage.and_then(|raw| usage::read(raw.get())) {
            sink.delta(Delta::Usage(usage));
        }
    }

    /// Ends the response. Its status decides, not the name of the event: some servers end every stream with
    /// `response.completed`.
    fn over(
        &mut self,
        response: &ResponseBody<'_>,
        data: &[u8],
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        match response.status.as_str() {
            "failed" | "cancelled" => Err(failure::failed(data)),
            "incomplete" => self.incomplete(response, sink),
            // A response with a reason is not complete.
            status if status != "completed" && response.is_cut() => self.incomplete(response, sink),
            _ => self.completed(response, sink),
        }
    }

    fn completed(
        &mut self,
        response: &ResponseBody<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        self.items.complete(response.output.as_deref().unwrap_or_default(), sink)?;
        let stop = if self.items.has_open_calls() {
            Stop::MalformedToolCall
        } else if self.items.has_calls() {
            Stop::ToolUse
        } else if self.items.refused() {
            Stop::Refusal
        } else {
            Stop::EndTurn
        };
        self.ended = Some((stop, "completed".to_owned()));
        Ok(())
    }

    fn incomplete(
        &mut self,
        response: &ResponseBody<'_>,
        sink: &mut dyn DeltaSink,
    ) -> Result<(), Failure> {
        self.items.complete(response.output.as_deref().unwrap_or_default(), sink)?;
        let reason = response.cut_by();
        let stop = match reason {
            "max_output_tokens" | "max_tokens" => Stop::MaxTokens,
            "content_filter" => Stop::ContentFilter,
            _ if self.items.has_open_calls() => Stop::MalformedToolCall,
            _ => Stop::Other,
        };
        let colon = if reason.is_empty() { "" } else { ":" };
        self.ended = Some((stop, format!("incomplete{colon}{reason}")));
        Ok(())
    }
}

fn item<'a>(event: &Event<'a>) -> Result<&'a RawValue, Failure> {
    event.item.ok_or_else(|| malformed("an output item"))
}

fn response<'a>(event: &Event<'a>) -> Result<ResponseBody<'a>, Failure> {
    let unreadable = || malformed("a response object");
    serde_json::from_str(event.response.ok_or_else(unreadable)?.get()).map_err(|_| unreadable())
}

/// Whether an event has a part of the answer, or its end.
fn is_known(kind: &str) -> bool {
    matches!(
        kind,
        "error"
            | "response.created"
            | "response.queued"
            | "response.in_progress"
            | "response.completed"
            | "response.done"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled"
            | "response.output_item.added"
            | "response.output_item.done"
            | "response.output_text.delta"
            | "response.output_text.done"
            | "response.refusal.delta"
            | "response.refusal.done"
            | "response.function_call_arguments.delta"
            | "response.function_call_arguments.done"
            | "response.custom_tool_call_input.delta"
            | "response.custom_tool_call_input.done"
            | "response.reasoning_summary_text.delta"
            | "response.reasoning_summary_text.done"
            | "response.reasoning_text.delta"
            | "response.reasoning_text.done"
    )
}
