//! A message as its columns: each text once, and a frame from which the blocks are cut out of the texts.
//!
//! `content` and `thinking` hold every visible text and all shown reasoning, in order; `blocks_json` is the list of blocks,
//! with the length in bytes instead of each such text, and NULL for a message of one plain text block. A text that the host
//! put into a message is in the list itself, so that no search finds it. So the columns of the interface are readable without
//! decoding, nothing is stored twice, and opaque values are restored byte for byte. This file must never interpret opaque
//! values.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::Xxh3;

use crate::rows::message_columns::{Content, ContentRef};
use crate::sqlite::error::{Stored, damaged};
use model::{Block, BlockOrigin, Message};

/// A block in the form in which `blocks_json` stores it.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
enum FrameOut<'a> {
    Text {
        #[serde(skip_serializing_if = "Option::is_none")]
        text_bytes: Option<usize>,
        /// Only of a text that the host put into the message, which is not in its `content`.
        #[serde(skip_serializing_if = "Option::is_none")]
        text: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        provider_data: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        origin: Option<BlockOrigin>,
    },
    Image {
        mime_type: &'a str,
        data: &'a str,
    },
    Thinking {
        #[serde(skip_serializing_if = "Option::is_none")]
        thinking_bytes: Option<usize>,
        /// Only inside a tool's result, whose reasoning is not in the message's `thinking`.
        #[serde(skip_serializing_if = "Option::is_none")]
        thinking: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        provider_data: Option<&'a str>,
    },
    RedactedThinking {
        data: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        provider_data: Option<&'a str>,
    },
    ToolCall {
        id: &'a str,
        name: &'a str,
        arguments_json: &'a str,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        incomplete: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        provider_data: Option<&'a str>,
    },
    ToolResult {
        /// Omitted if the columns `tool_call_id` and `is_error` have the value.
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_call_id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        is_error: Option<bool>,
        tool_name: &'a str,
        content: Vec<FrameOut<'a>>,
    },
    Opaque {
        raw_json: &'a str,
    },
}

/// A block when it is read. One flat shape, because serde's tagged enums buffer a copy first.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FrameIn {
    #[serde(rename = "type")]
    kind: Kind,
    text_bytes: Option<usize>,
    text: Option<String>,
    origin: Option<BlockOrigin>,
    thinking_bytes: Option<usize>,
    thinking: Option<String>,
    provider_data: Option<String>,
    mime_type: Option<String>,
    data: Option<String>,
    signature: Option<String>,
    id: Option<String>,
    name: Option<String>,
    arguments_json: Option<String>,
    #[serde(default)]
    incomplete: bool,
    tool_call_id: Option<String>,
    is_error: Option<bool>,
    tool_name: Option<String>,
    content: Option<Vec<FrameIn>>,
    raw_json: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Text,
    Image,
    Thinking,
    RedactedThinking,
    ToolCall,
    ToolResult,
    Opaque,
}

/// The columns of a message.
pub(crate) fn encode(message: &Message) -> Stored<Content> {
    let result = message.tool_result();
    let plain = matches!(
        message.blocks.as_slice(),
        [Block::Text { provider_data: None, origin: None, .. }]
    );
    let blocks_json = if plain {
        None
    } else {
        let mut level = Level { in_columns: result.is_some(), nested: false };
        let frames: Vec<_> = message.blocks.iter().map(|block| frame(block, &mut level)).collect();
        Some(
            serde_json::to_string(&frames)
                .map_err(|_| damaged("a message's blocks have no JSON"))?,
        )
    };
    Ok(Content {
        content: message.content(),
        thinking: message.thinking(),
        blocks_json,
        tool_call_id: result.map(|(id, _)| id.to_owned()),
        is_error: result.map(|(_, failed)| failed),
    })
}

/// The blocks of a message, or those inside a tool's result.
struct Level {
    /// Whether the next tool result is the one of the columns `tool_call_id` and `is_error`.
    in_columns: bool,
    /// Whether the blocks are inside a tool's result.
    nested: bool,
}

fn frame<'a>(block: &'a Block, level: &mut Level) -> FrameOut<'a> {
    match block {
        Block::Text { text, provider_data, origin } => FrameOut::Text {
            text_bytes: origin.is_none().then_some(text.len()),
            text: origin.is_some().then_some(text),
            provider_data: provider_data.as_deref(),
            origin: *origin,
        },
        Block::Image { mime_type, data } => FrameOut::Image { mime_type, data },
        Block::Thinking { thinking, signature, provider_data } => FrameOut::Thinking {
            thinking_bytes: (!level.nested).then_some(thinking.len()),
            thinking: level.nested.then_some(thinking),
            signature: signature.as_deref(),
            provider_data: provider_data.as_deref(),
        },
        Block::RedactedThinking { data, provider_data } => {
            FrameOut::RedactedThinking { data, provider_data: provider_data.as_deref() }
        }
        Block::ToolCall { id, name, arguments_json, incomplete, provider_data } => {
            FrameOut::ToolCall {
                id,
                name,
                arguments_json,
                incomplete: *incomplete,
                provider_data: provider_data.as_deref(),
            }
        }
        Block::ToolResult { tool_call_id, tool_name, content, is_error } => {
            let named = std::mem::take(&mut level.in_columns);
            let mut inside = Level { in_columns: false, nested: true };
            FrameOut::ToolResult {
                tool_call_id: (!named).then_some(tool_call_id),
                is_error: (!named).then_some(*is_error),
                tool_name,
                content: content.iter().map(|block| frame(block, &mut inside)).collect(),
            }
        }
        Block::Opaque { raw_json } => FrameOut::Opaque { raw_json },
    }
}

/// The blocks of a message.
///
/// # Errors
/// `ledger_corrupt` if the frame does not fit the texts.
pub(crate) fn decode(columns: ContentRef<'_>) -> Stored<Vec<Block>> {
    let Some(json) = columns.blocks_json else {
        return Ok(vec![Block::text(columns.content)]);
    };
    let frames: Vec<FrameIn> = serde_json::from_str(json)
        .map_err(|error| damaged(&format!("a message's blocks cannot be read: {error}")))?;
    let mut texts = Texts {
        content: columns.content,
        thinking: columns.thinking.unwrap_or_default(),
        result: columns.tool_call_id.zip(columns.is_error),
    };
    let blocks = frames.into_iter().map(|frame| texts.block(frame)).collect::<Option<Vec<_>>>();
    match blocks {
        Some(blocks) if texts.content.is_empty() && texts.thinking.is_empty() => Ok(blocks),
        _ => Err(damaged("a message's blocks do not fit its text")),
    }
}

/// The remaining texts while blocks are cut from them.
struct Texts<'a> {
    content: &'a str,
    thinking: &'a str,
    /// The call id and the outcome of the tool result that the columns describe.
    result: Option<(&'a str, bool)>,
}

impl Texts<'_> {
    fn block(&mut self, frame: FrameIn) -> Option<Block> {
        let provider_data = frame.provider_data;
        Some(match frame.kind {
            Kind::Text => Block::Text {
                text: match frame.text {
                    Some(inline) => inline,
                    None => cut(&mut self.content, frame.text_bytes)?,
                },
                provider_data,
                origin: frame.origin,
            },
            Kind::Image => Block::Image { mime_type: frame.mime_type?, data: frame.data? },
            Kind::Thinking => Block::Thinking {
                thinking: match frame.thinking {
                    Some(inline) => inline,
                    None => cut(&mut self.thinking, frame.thinking_bytes)?,
                },
                signature: frame.signature,
                provider_data,
            },
            Kind::RedactedThinking => Block::RedactedThinking { data: frame.data?, provider_data },
            Kind::ToolCall => Block::ToolCall {
                id: frame.id?,
                name: frame.name?,
                arguments_json: frame.arguments_json?,
                incomplete: frame.incomplete,
                provider_data,
            },
            Kind::ToolResult => {
                let (tool_call_id, is_error) = match frame.tool_call_id {
                    Some(id) => (id, frame.is_error?),
                    None => self.result.take().map(|(id, failed)| (id.to_owned(), failed))?,
                };
                Block::ToolResult {
                    tool_call_id,
                    tool_name: frame.tool_name?,
                    content: frame
                        .content?
                        .into_iter()
                        .map(|inner| self.block(inner))
                        .collect::<Option<Vec<_>>>()?,
                    is_error,
                }
            }
            Kind::Opaque => Block::Opaque { raw_json: frame.raw_json? },
        })
    }
}

fn cut(text: &mut &str, bytes: Option<usize>) -> Option<String> {
    let (head, rest) = text.split_at_checked(bytes?)?;
    *text = rest;
    Some(head.to_owned())
}

/// The hash of all columns from which a request is built: it detects bit rot in a page, which SQLite does not
/// (docs/rules/faults.md#sqlite). Each part is framed by its length, so that no text can move from one column to the next.
pub(crate) fn checksum(role: &str, columns: ContentRef<'_>, provenance: [Option<&str>; 5]) -> i64 {
    let mut hash = Xxh3::new();
    let mut part = |text: Option<&str>| {
        let length = text.map_or(u64::MAX, |text| u64::try_from(text.len()).unwrap_or(u64::MAX));
        hash.update(&length.to_le_bytes());
        hash.update(text.unwrap_or_default().as_bytes());
    };
    part(Some(role));
    part(Some(columns.content));
    part(columns.thinking);
    part(columns.blocks_json);
    part(columns.tool_call_id);
    part(columns.is_error.map(|failed| if failed { "1" } else { "0" }));
    provenance.into_iter().for_each(part);
    hash.digest().cast_signed()
}

#[cfg(test)]
mod tests;
