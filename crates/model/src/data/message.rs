//! Messages: ordered blocks with provenance, and their flat public form.
//!
//! The broker interface's `content` and `thinking` strings are derived from the blocks, never the other way round
//! (docs/rules/faults.md#verbatim-replay).

use serde::{Deserialize, Serialize};

use crate::Block;

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user, or an event in the name of one.
    User,
    /// The model.
    Assistant,
    /// The host.
    System,
    /// The result of a tool call.
    Tool,
}

impl Role {
    /// The name used on every surface.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::System => "system",
            Self::Tool => "tool",
        }
    }
}

/// The origin of an assistant message: it decides whether opaque blocks may be replayed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct Provenance {
    /// The provider's name in the engine's options.
    pub provider: String,
    /// The wire API: `anthropic-messages`, `openai-chat`, …
    pub api: String,
    /// The model that was called.
    pub model: String,
    /// The provider's id of the response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response_id: Option<String>,
}

/// One message of a turn. A `tool` message holds exactly one [`Block::ToolResult`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Message {
    /// The engine's ULID.
    pub id: String,
    /// The author.
    pub role: Role,
    /// The parts, in order.
    pub blocks: Vec<Block>,
    /// Order within the turn, from 0.
    pub sequence: u32,
    /// Unix milliseconds.
    pub created_at: i64,
    /// Set on assistant messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// The provider's own stop reason, on assistant messages that ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_stop_reason: Option<String>,
}

impl Message {
    /// The visible text: the text blocks that its author wrote, joined without a separator, or a tool result's text.
    #[must_use]
    pub fn content(&self) -> String {
        fn push(out: &mut String, blocks: &[Block]) {
            for block in blocks {
                match block {
                    Block::Text { text, origin: None, .. } => out.push_str(text),
                    Block::ToolResult { content, .. } => push(out, content),
                    Block::Text { .. }
                    | Block::Image { .. }
                    | Block::Thinking { .. }
                    | Block::RedactedThinking { .. }
                    | Block::ToolCall { .. }
                    | Block::Opaque { .. } => {}
                }
            }
        }
        let mut out = String::new();
        push(&mut out, &self.blocks);
        out
    }

    /// The shown reasoning, joined without a separator; `None` where there is none.
    #[must_use]
    pub fn thinking(&self) -> Option<String> {
        let mut out: Option<String> = None;
        for block in &self.blocks {
            if let Block::Thinking { thinking, .. } = block {
                out.get_or_insert_default().push_str(thinking);
            }
        }
        out
    }

    /// Whether it is an assistant message.
    #[must_use]
    pub fn is_assistant(&self) -> bool {
        match self.role {
            Role::Assistant => true,
            Role::User | Role::System | Role::Tool => false,
        }
    }

    /// The blocks of messages that are merged into one, tool results before all others.
    pub fn results_first(messages: &[Self]) -> impl Iterator<Item = &Block> {
        let blocks = || messages.iter().flat_map(|message| &message.blocks);
        blocks()
            .filter(|block| block.is_result())
            .chain(blocks().filter(|block| !block.is_result()))
    }

    /// The call of a `tool` message, and whether it failed.
    #[must_use]
    pub fn tool_result(&self) -> Option<(&str, bool)> {
        self.blocks.iter().find_map(|block| match block {
            Block::ToolResult { tool_call_id, is_error, .. } => {
                Some((tool_call_id.as_str(), *is_error))
            }
            Block::Text { .. }
            | Block::Image { .. }
            | Block::Thinking { .. }
            | Block::RedactedThinking { .. }
            | Block::ToolCall { .. }
            | Block::Opaque { .. } => None,
        })
    }
}

/// The broker interface's `AgentMessage`, with the blocks it was derived from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase")]
pub struct AgentMessage {
    /// The engine's ULID.
    pub id: String,
    /// The author.
    pub role: Role,
    /// The visible text.
    pub content: String,
    /// Order within the turn, from 0.
    pub sequence: u32,
    /// Unix milliseconds.
    pub created_at: i64,
    /// The shown reasoning (assistant messages).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// The provider's id of the call (tool messages).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// True when the tool failed (tool messages).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// The parts, in order, as the ledger stores them and the provider gets them back.
    pub blocks: Vec<Block>,
    /// The origin of an assistant message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<Provenance>,
    /// The provider's own stop reason (assistant messages).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_stop_reason: Option<String>,
}

impl From<Message> for AgentMessage {
    fn from(message: Message) -> Self {
        let (tool_call_id, is_error) =
            message.tool_result().map(|(id, failed)| (id.to_owned(), failed)).unzip();
        Self {
            content: message.content(),
            thinking: message.thinking(),
            tool_call_id,
            is_error,
            id: message.id,
            role: message.role,
            sequence: message.sequence,
            created_at: message.created_at,
            blocks: message.blocks,
            provenance: message.provenance,
            provider_stop_reason: message.provider_stop_reason,
        }
    }
}

impl From<AgentMessage> for Message {
    fn from(message: AgentMessage) -> Self {
        Self {
            id: message.id,
            role: message.role,
            blocks: message.blocks,
            sequence: message.sequence,
            created_at: message.created_at,
            provenance: message.provenance,
            provider_stop_reason: message.provider_stop_reason,
        }
    }
}

/// The prefix of a summary in a conversation (docs/rules/compaction.md#summary-message).
const SUMMARY_PREFIX: &str = "[Previous conversation summary]:";

/// The text of a summary message; a text that already has the prefix is unchanged.
#[must_use]
pub fn summary_text(summary: &str) -> String {
    if summary.starts_with(SUMMARY_PREFIX) {
        summary.to_owned()
    } else {
        format!("{SUMMARY_PREFIX}\n\n{summary}")
    }
}

/// The summary in such a text, without the prefix.
#[must_use]
pub fn summary_of(text: &str) -> &str {
    text.strip_prefix(SUMMARY_PREFIX).unwrap_or(text).trim()
}
