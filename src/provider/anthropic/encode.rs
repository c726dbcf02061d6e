//! What is sent: the request's head, and messages as JSON written straight into a buffer.
//!
//! The same input gives the same bytes. It must never send what the API refuses: empty text, thinking without a
//! signature, a call that did not end, JSON that does not parse.

use bytes::Bytes;

use super::wire::Attached;
use crate::model::{Block, Message, Role, ThinkingConfig, ThinkingEffort, ThinkingMode};
use crate::provider::ModelRequest;
use crate::provider::json::{is_object, repair_surrogates, write_string};

/// The least budget the API takes.
const LEAST_BUDGET: u64 = 1_024;
/// Stands for a failed tool's answer that has no text: the API refuses an empty one.
const NO_ERROR_TEXT: &str = "The tool failed without a message.";

/// The body up to the first message: everything else, and `"messages":[`.
pub(super) fn head(request: &ModelRequest) -> Bytes {
    let mut out = Vec::with_capacity(1_024 + request.system.len());
    out.extend_from_slice(b"{\"model\":");
    write_string(&mut out, &request.model);
    out.extend_from_slice(b",\"max_tokens\":");
    write_number(&mut out, request.max_tokens);
    out.extend_from_slice(b",\"stream\":true");
    if !request.system.trim().is_empty() {
        out.extend_from_slice(b",\"system\":");
        write_string(&mut out, &request.system);
    }
    if !request.tools.is_empty() {
        out.extend_from_slice(b",\"tools\":[");
        for (position, tool) in request.tools.iter().enumerate() {
            if position > 0 {
                out.push(b',');
            }
            out.extend_from_slice(b"{\"name\":");
            write_string(&mut out, &tool.name);
            if !tool.description.is_empty() {
                out.extend_from_slice(b",\"description\":");
                write_string(&mut out, &tool.description);
            }
            out.extend_from_slice(b",\"input_schema\":");
            out.extend_from_slice(tool.parameters.get().as_bytes());
            out.push(b'}');
        }
        out.push(b']');
    }
    let thinks = request.thinking.as_ref().is_some_and(|config| write_thinking(&mut out, config));
    // With thinking on, the API takes no temperature but its own.
    if let Some(temperature) = request.temperature.filter(|it| it.is_finite() && !thinks) {
        out.extend_from_slice(b",\"temperature\":");
        write_number(&mut out, temperature);
    }
    out.extend_from_slice(b",\"messages\":[");
    Bytes::from(out)
}

/// Writes `thinking` and `output_config`; tells whether thinking is on.
fn write_thinking(out: &mut Vec<u8>, config: &ThinkingConfig) -> bool {
    let by_budget = config.budget_tokens.map(|_| ThinkingMode::Enabled);
    let by_effort = (config.effort == Some(ThinkingEffort::None)).then_some(ThinkingMode::Disabled);
    let thinks = match config.mode.or(by_budget).or(by_effort) {
        Some(ThinkingMode::Enabled) => {
            out.extend_from_slice(b",\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":");
            write_number(out, config.budget_tokens.unwrap_or(LEAST_BUDGET));
            out.push(b'}');
            true
        }
        Some(ThinkingMode::Adaptive) => {
            out.extend_from_slice(b",\"thinking\":{\"type\":\"adaptive\"}");
            true
        }
        Some(ThinkingMode::Disabled) => {
            out.extend_from_slice(b",\"thinking\":{\"type\":\"disabled\"}");
            false
        }
        None => false,
    };
    let effort = match config.effort {
        None | Some(ThinkingEffort::None) => return thinks,
        // The API's lowest level is `low`.
        Some(ThinkingEffort::Minimal | ThinkingEffort::Low) => "low",
        Some(ThinkingEffort::Medium) => "medium",
        Some(ThinkingEffort::High) => "high",
        Some(ThinkingEffort::Xhigh) => "xhigh",
        Some(ThinkingEffort::Max) => "max",
    };
    out.extend_from_slice(b",\"output_config\":{\"effort\":");
    write_string(out, effort);
    out.push(b'}');
    thinks
}

/// The messages as JSON objects joined by commas. Neighbours that speak with the same voice become one message; in one
/// of the user's, the tools' results come first, as the API asks.
pub(super) fn messages(messages: &[Message]) -> Bytes {
    let mut out = Vec::with_capacity(256 * messages.len());
    for group in messages.chunk_by(|a, b| is_assistant(a) == is_assistant(b)) {
        let assistant = group.first().is_some_and(is_assistant);
        let start = out.len();
        if start > 0 {
            out.push(b',');
        }
        out.extend_from_slice(if assistant {
            b"{\"role\":\"assistant\",\"content\":[".as_slice()
        } else {
            b"{\"role\":\"user\",\"content\":[".as_slice()
        });
        let mut list = List { out: &mut out, any: false };
        let blocks = || group.iter().flat_map(|message| &message.blocks);
        if assistant {
            blocks().for_each(|block| write_block(&mut list, block));
        } else {
            blocks().filter(|block| is_result(block)).for_each(|it| write_block(&mut list, it));
            blocks().filter(|block| !is_result(block)).for_each(|it| write_block(&mut list, it));
        }
        if list.any {
            out.extend_from_slice(b"]}");
        } else {
            out.truncate(start);
        }
    }
    Bytes::from(out)
}

/// A JSON list being written: puts the commas between its items.
struct List<'a> {
    out: &'a mut Vec<u8>,
    any: bool,
}

impl List<'_> {
    fn item(&mut self) -> &mut Vec<u8> {
        if self.any {
            self.out.push(b',');
        }
        self.any = true;
        self.out
    }
}

fn is_assistant(message: &Message) -> bool {
    match message.role {
        Role::Assistant => true,
        Role::User | Role::System | Role::Tool => false,
    }
}

fn is_result(block: &Block) -> bool {
    matches!(block, Block::ToolResult { .. })
}

fn write_block(list: &mut List<'_>, block: &Block) {
    match block {
        Block::Text { text, provider_data } => {
            // Text of white space alone is refused like empty text.
            if !text.trim().is_empty() {
                let out = list.item();
                out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                write_string(out, text);
                write_attached(out, provider_data.as_deref());
                out.push(b'}');
            }
        }
        Block::Image { mime_type, data } => {
            let out = list.item();
            out.extend_from_slice(
                b"{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":",
            );
            write_string(out, mime_type);
            out.extend_from_slice(b",\"data\":");
            write_string(out, data);
            out.extend_from_slice(b"}}");
        }
        Block::Thinking { thinking, signature: Some(signature), provider_data: _ } => {
            let out = list.item();
            out.extend_from_slice(b"{\"type\":\"thinking\",\"thinking\":");
            write_string(out, thinking);
            out.extend_from_slice(b",\"signature\":");
            write_string(out, signature);
            out.push(b'}');
        }
        Block::RedactedThinking { data } => {
            let out = list.item();
            out.extend_from_slice(b"{\"type\":\"redacted_thinking\",\"data\":");
            write_string(out, data);
            out.push(b'}');
        }
        Block::ToolCall { id, name, arguments_json, incomplete: false, provider_data } => {
            let out = list.item();
            out.extend_from_slice(b"{\"type\":\"tool_use\",\"id\":");
            write_string(out, id);
            out.extend_from_slice(b",\"name\":");
            write_string(out, name);
            out.extend_from_slice(b",\"input\":");
            // A call whose arguments were no object was answered with an error; its replay must still be JSON.
            if is_object(arguments_json) {
                write_raw(out, arguments_json);
            } else {
                out.extend_from_slice(b"{}");
            }
            write_attached(out, provider_data.as_deref());
            out.push(b'}');
        }
        Block::ToolResult { tool_call_id, tool_name: _, content, is_error } => {
            write_result(list.item(), tool_call_id, content, *is_error);
        }
        Block::Opaque { raw_json } => {
            if is_object(raw_json) {
                write_raw(list.item(), raw_json);
            }
        }
        Block::Thinking { signature: None, .. } | Block::ToolCall { incomplete: true, .. } => {}
    }
}

/// An error result holds text only, and some: the API refuses images in one, and an empty one.
fn write_result(out: &mut Vec<u8>, tool_call_id: &str, content: &[Block], is_error: bool) {
    out.extend_from_slice(b"{\"type\":\"tool_result\",\"tool_use_id\":");
    write_string(out, tool_call_id);
    out.extend_from_slice(b",\"content\":[");
    let mut list = List { out, any: false };
    for block in content {
        match block {
            Block::Text { .. } => write_block(&mut list, block),
            Block::Image { .. } if !is_error => write_block(&mut list, block),
            Block::Image { .. }
            | Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::ToolCall { .. }
            | Block::ToolResult { .. }
            | Block::Opaque { .. } => {}
        }
    }
    if is_error && !list.any {
        write_block(&mut list, &Block::text(NO_ERROR_TEXT));
    }
    out.push(b']');
    if is_error {
        out.extend_from_slice(b",\"is_error\":true");
    }
    out.push(b'}');
}

/// What else the provider attached to a block and takes back.
fn write_attached(out: &mut Vec<u8>, provider_data: Option<&str>) {
    let attached = provider_data.and_then(|json| serde_json::from_str::<Attached<'_>>(json).ok());
    let Some(attached) = attached else { return };
    let fields = [
        (&b",\"citations\":"[..], attached.citations),
        (b",\"caller\":", attached.caller),
        (b",\"toolset_name\":", attached.toolset_name),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            out.extend_from_slice(name);
            write_raw(out, value.get());
        }
    }
}

/// Splices JSON text. The API refuses a body with lone surrogates, even though it may have sent them.
fn write_raw(out: &mut Vec<u8>, json: &str) {
    out.extend_from_slice(&repair_surrogates(json.as_bytes()));
}

fn write_number(out: &mut Vec<u8>, number: impl serde::Serialize) {
    // Writing to a vector cannot fail, and a finite number has a form in JSON.
    let _ = serde_json::to_writer(out, &number);
}
