//! The columns of a message that hold its content, owned or lent.
//!
//! It must never interpret what is in them: that is `message_codec`.

use std::borrow::Cow;

/// The names of a message's columns, in the order of the codec.
pub(crate) const LARGE_COLUMNS: [&str; 3] = ["content", "thinking", "blocks_json"];

/// The columns of a message that hold its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Columns {
    pub(crate) content: String,
    pub(crate) thinking: Option<String>,
    pub(crate) blocks_json: Option<String>,
    pub(crate) tool_call_id: Option<String>,
    pub(crate) is_error: Option<bool>,
}

/// The columns as a row lends them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ColumnsRef<'a> {
    pub(crate) content: &'a str,
    pub(crate) thinking: Option<&'a str>,
    pub(crate) blocks_json: Option<&'a str>,
    pub(crate) tool_call_id: Option<&'a str>,
    pub(crate) is_error: Option<bool>,
}

impl<'a> ColumnsRef<'a> {
    /// Those that may be large, by their names.
    pub(crate) fn by_name(&self) -> [(&'static str, Option<&'a str>); 3] {
        let [content, thinking, blocks] = LARGE_COLUMNS;
        [(content, Some(self.content)), (thinking, self.thinking), (blocks, self.blocks_json)]
    }

    /// The same with these values for them, in that order.
    pub(crate) fn with<'b>(
        &self,
        [content, thinking, blocks]: &'b [Option<Cow<'b, str>>; 3],
    ) -> ColumnsRef<'b>
    where
        'a: 'b,
    {
        ColumnsRef {
            content: content.as_deref().unwrap_or_default(),
            thinking: thinking.as_deref(),
            blocks_json: blocks.as_deref(),
            tool_call_id: self.tool_call_id,
            is_error: self.is_error,
        }
    }
}

impl Columns {
    /// The same, lent.
    pub(crate) fn lend(&self) -> ColumnsRef<'_> {
        ColumnsRef {
            content: &self.content,
            thinking: self.thinking.as_deref(),
            blocks_json: self.blocks_json.as_deref(),
            tool_call_id: self.tool_call_id.as_deref(),
            is_error: self.is_error,
        }
    }
}
