//! Encodes the request's head, and messages as JSON written straight into a buffer.
//!
//! The same input gives the same bytes. It must never write what the API refuses: empty text, thinking without a
//! signature, an incomplete call, invalid JSON.

use bytes::Bytes;

use super::options;
use super::server::AnthropicServer;
use crate::json::{List, is_object, write_arguments, write_raw, write_string};
use crate::members::write_stored;
use crate::{ModelRequest, image};
use model::{Block, Message, ThinkingConfig, ThinkingMode};

/// The smallest budget that the API accepts.
const LEAST_BUDGET: u64 = 1_024;
/// The text of a failed result without text: the API refuses an empty one.
const NO_ERROR_TEXT: &str = "The tool failed without a message.";

/// The purpose of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A streamed answer.
    Answer,
    /// A count of the prompt's tokens, without the settings of the answer.
    Count,
}

impl Purpose {
    /// Whether the body may have breakpoints: a count has none.
    fn breakpoint(self, request: &ModelRequest) -> Option<&'static [u8]> {
        options::breakpoint(request).filter(|_| self == Self::Answer)
    }
}

/// The body in pieces: the part before the messages, the shared messages, and the settings that may differ from call to
/// call. A breakpoint on the last block is spliced between pieces, so that no stored byte has one.
pub(super) fn body(
    request: &ModelRequest,
    server: AnthropicServer,
    purpose: Purpose,
) -> Vec<Bytes> {
    let mut pieces = Vec::with_capacity(request.messages.len() * 2 + 6);
    let mut before = head(request, server, purpose);
    let breakpoint = purpose.breakpoint(request);
    let last = request.messages.len().saturating_sub(1);
    let at_end = match server {
        AnthropicServer::Anthropic => None,
        AnthropicServer::Vertex | AnthropicServer::Compatible => {
            let open_end = request.messages.last().filter(|_| request.open_end);
            open_end.and_then(|message| block_end(message, message.len()))
        }
    };
    let marks = [earlier_end(request), at_end.map(|cut| (last, cut))];
    for (position, message) in request.messages.iter().enumerate() {
        pieces.push(before);
        let mut from = 0;
        for (_, cut) in marks.iter().flatten().filter(|(at, _)| *at == position) {
            if let Some(breakpoint) = breakpoint {
                pieces.push(message.slice(from..*cut));
                pieces.push(Bytes::from_static(breakpoint));
                from = *cut;
            }
        }
        pieces.push(message.slice(from..));
        before = Bytes::from_static(b",");
    }
    if request.messages.is_empty() {
        pieces.push(before);
    }
    pieces.push(tail(request, server, purpose));
    pieces
}

/// The position of a breakpoint on the last block of the message that ends at `end`.
fn block_end(piece: &Bytes, end: usize) -> Option<usize> {
    /// The end of a message: of its last block, the list of blocks, and the message.
    const LAST_BLOCK_ENDS: &[u8] = b"}]}";
    let ended = piece.get(..end)?.ends_with(LAST_BLOCK_ENDS);
    ended.then(|| end - LAST_BLOCK_ENDS.len())
}

/// The piece, and the position in it, of the breakpoint at the end of the previous request. It is the fourth, the last that
/// the API accepts: if the host has marked a tool of its own, there is none.
fn earlier_end(request: &ModelRequest) -> Option<(usize, usize)> {
    let provided = &request.options.provider_tools;
    let marked = provided.iter().any(|tool| tool.get().contains("\"cache_control\""));
    let (at, end) = request.earlier_position().filter(|_| !marked)?;
    Some((at, block_end(request.messages.get(at)?, end)?))
}

/// The body up to the first message: model, system and tools, which never change within a session, and thinking.
fn head(request: &ModelRequest, server: AnthropicServer, purpose: Purpose) -> Bytes {
    let mut out = Vec::with_capacity(1_024 + request.system.len());
    out.push(b'{');
    if server == AnthropicServer::Vertex {
        out.extend_from_slice(b"\"anthropic_version\":\"vertex-2023-10-16\",");
    }
    if server != AnthropicServer::Vertex || purpose == Purpose::Count {
        out.extend_from_slice(b"\"model\":");
        write_string(&mut out, &request.model);
        out.push(b',');
    }
    if purpose == Purpose::Answer {
        out.extend_from_slice(b"\"max_tokens\":");
        write_number(&mut out, request.max_tokens);
        out.extend_from_slice(b",\"stream\":true,");
    }
    let breakpoint = purpose.breakpoint(request);
    if !request.system.trim().is_empty() {
        out.extend_from_slice(b"\"system\":");
        match breakpoint {
            None => write_string(&mut out, &request.system),
            Some(breakpoint) => {
                out.extend_from_slice(b"[{\"type\":\"text\",\"text\":");
                write_string(&mut out, &request.system);
                out.extend_from_slice(breakpoint);
                out.extend_from_slice(b"}]");
            }
        }
        out.push(b',');
    }
    if request.has_tools() {
        write_tools(&mut out, request, breakpoint);
    }
    let thinking = request.thinking.as_ref();
    if let Some(thinking) = thinking.filter(|_| options::thinks(request)) {
        write_thinking(&mut out, thinking);
    } else if thinking.is_some_and(|thinking| !request.forces_tool && options::is_off(thinking)) {
        out.extend_from_slice(b"\"thinking\":{\"type\":\"disabled\"},");
    }
    options::write_output_config(&mut out, request);
    // With thinking on, the API accepts only its default temperature.
    if let Some(temperature) = request.temperature
        && temperature.is_finite()
        && !options::thinks(request)
        && purpose == Purpose::Answer
    {
        out.extend_from_slice(b"\"temperature\":");
        write_number(&mut out, temperature);
        out.push(b',');
    }
    out.extend_from_slice(b"\"messages\":[");
    Bytes::from(out)
}

/// The context's tools, then the provider's; the last of them has the breakpoint.
fn write_tools(out: &mut Vec<u8>, request: &ModelRequest, breakpoint: Option<&[u8]>) {
    out.extend_from_slice(b"\"tools\":[");
    let provided = &request.options.provider_tools;
    for (position, tool) in request.tools.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"name\":");
        write_string(out, &tool.name);
        if !tool.description.is_empty() {
            out.extend_from_slice(b",\"description\":");
            write_string(out, &tool.description);
        }
        out.extend_from_slice(b",\"input_schema\":");
        out.extend_from_slice(tool.parameters.get().as_bytes());
        if provided.is_empty() && position + 1 == request.tools.len() {
            out.extend_from_slice(breakpoint.unwrap_or_default());
        }
        out.push(b'}');
    }
    for (position, tool) in provided.iter().enumerate() {
        if position > 0 || !request.tools.is_empty() {
            out.push(b',');
        }
        let json = tool.get().trim();
        match json.strip_suffix('}').filter(|_| position + 1 == provided.len()) {
            // The host may have marked it already.
            Some(open) if !json.contains("\"cache_control\"") && open.trim() != "{" => {
                out.extend_from_slice(open.as_bytes());
                out.extend_from_slice(breakpoint.unwrap_or_default());
                out.push(b'}');
            }
            Some(_) | None => out.extend_from_slice(json.as_bytes()),
        }
    }
    out.extend_from_slice(b"],");
}

fn write_thinking(out: &mut Vec<u8>, config: &ThinkingConfig) {
    if config.mode == Some(ThinkingMode::Adaptive) {
        out.extend_from_slice(b"\"thinking\":{\"type\":\"adaptive\"},");
    } else {
        out.extend_from_slice(b"\"thinking\":{\"type\":\"enabled\",\"budget_tokens\":");
        write_number(out, config.budget_tokens.unwrap_or(LEAST_BUDGET));
        out.extend_from_slice(b"},");
    }
}

/// The part after the messages: settings that may change between two calls of a run, and so must not be before them.
fn tail(request: &ModelRequest, server: AnthropicServer, purpose: Purpose) -> Bytes {
    let mut out = Vec::with_capacity(128);
    out.push(b']');
    options::write_tool_choice(&mut out, request);
    if purpose == Purpose::Answer {
        options::write_stops(&mut out, request);
        options::write_user(&mut out, request);
    }
    if server == AnthropicServer::Anthropic {
        out.extend_from_slice(purpose.breakpoint(request).unwrap_or_default());
    }
    out.push(b'}');
    Bytes::from(out)
}

/// The messages as JSON objects joined by commas. The messages of the user and the tools between two answers become one,
/// the results first, as the API requires; an answer stays a message of its own, also after a paused one, so that sent
/// bytes never change.
pub(super) fn messages(messages: &[Message]) -> Bytes {
    let mut out = Vec::with_capacity(256 * messages.len());
    for group in messages.chunk_by(|a, b| !a.is_assistant() && !b.is_assistant()) {
        let assistant = group.first().is_some_and(Message::is_assistant);
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
        if assistant {
            let blocks = group.iter().flat_map(|message| &message.blocks);
            blocks.for_each(|block| write_block(&mut list, block));
        } else {
            Message::results_first(group).for_each(|block| write_block(&mut list, block));
        }
        if list.any {
            out.extend_from_slice(b"]}");
        } else {
            out.truncate(start);
        }
    }
    Bytes::from(out)
}

fn write_block(list: &mut List<'_>, block: &Block) {
    match block {
        Block::Text { text, provider_data, .. } => {
            // White space only is refused like empty text.
            if !text.trim().is_empty() {
                let out = list.item();
                out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                write_string(out, text);
                write_attached(out, provider_data.as_deref());
                out.push(b'}');
            }
        }
        Block::Image { mime_type, data } => {
            let Some(media_type) = image::media_type(mime_type) else {
                return write_block(list, &Block::text(image::LEFT_OUT));
            };
            let out = list.item();
            out.extend_from_slice(
                b"{\"type\":\"image\",\"source\":{\"type\":\"base64\",\"media_type\":",
            );
            write_string(out, media_type);
            out.extend_from_slice(b",\"data\":");
            write_string(out, data);
            out.extend_from_slice(b"}}");
        }
        Block::Thinking { thinking, signature: Some(signature), provider_data } => {
            let out = list.item();
            out.extend_from_slice(b"{\"type\":\"thinking\",\"thinking\":");
            write_string(out, thinking);
            out.extend_from_slice(b",\"signature\":");
            write_string(out, signature);
            write_attached(out, provider_data.as_deref());
            out.push(b'}');
        }
        Block::RedactedThinking { data, provider_data } => {
            let out = list.item();
            out.extend_from_slice(b"{\"type\":\"redacted_thinking\",\"data\":");
            write_string(out, data);
            write_attached(out, provider_data.as_deref());
            out.push(b'}');
        }
        Block::ToolCall { id, name, arguments_json, incomplete: false, provider_data } => {
            let out = list.item();
            out.extend_from_slice(b"{\"type\":\"tool_use\",\"id\":");
            write_string(out, id);
            out.extend_from_slice(b",\"name\":");
            write_string(out, name);
            out.extend_from_slice(b",\"input\":");
            write_arguments(out, arguments_json);
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

/// An error result has text only, and is not empty: the API refuses other ones.
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

/// Writes the other members of a provider's block, unchanged.
fn write_attached(out: &mut Vec<u8>, provider_data: Option<&str>) {
    write_stored(out, provider_data, |name| {
        matches!(
            name,
            "type" | "text" | "thinking" | "signature" | "data" | "id" | "name" | "input"
        )
    });
}

pub(super) fn write_number(out: &mut Vec<u8>, number: impl serde::Serialize) {
    // Writing to a vector cannot fail, nor can a finite number.
    let _ = serde_json::to_writer(out, &number);
}
