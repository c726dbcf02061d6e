//! The size limits of one answer, counted while it streams: a delta over a limit is refused before it is stored.
//!
//! It must never count a delta twice, or accept one over a limit.

use std::collections::HashMap;

use model::{BlockStart, Delta, Failure, FailureKind};

/// The maximum bytes of text and reasoning of one answer.
pub(super) const ANSWER_BYTES: usize = 32 << 20;
/// The maximum bytes of everything else in an answer: signatures, opaque blocks, the arguments of all calls.
const ATTACHED_BYTES: usize = 32 << 20;
/// The maximum bytes of the arguments of one call.
pub(super) const ARGUMENT_BYTES: usize = 4 << 20;

/// Which limit was exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Excess {
    Answer,
    Attached,
    Arguments,
}

impl Excess {
    /// Not retryable: another attempt would exceed the same limit.
    pub(super) fn failure(self) -> Failure {
        let (code, what, limit) = match self {
            Self::Answer => ("answer_too_large", "the text of the answer", ANSWER_BYTES),
            Self::Attached => {
                ("answer_too_large", "the provider's data besides the text", ATTACHED_BYTES)
            }
            Self::Arguments => ("arguments_too_large", "the arguments of one call", ARGUMENT_BYTES),
        };
        let message = format!("{what} passed `{limit}` bytes; the answer was cut there");
        Failure {
            should_retry: Some(false),
            ..Failure::new(FailureKind::ServerError, code, message)
        }
    }
}

/// The size of an answer so far.
#[derive(Debug, Default)]
pub(super) struct Size {
    text: usize,
    attached: usize,
    /// Bytes of arguments by block.
    arguments: HashMap<u32, usize>,
    /// Bytes of a block that a decoder buffers until it is whole.
    withheld: HashMap<u32, usize>,
}

impl Size {
    /// Counts a delta, unless it exceeds a limit.
    pub(super) fn admit(&mut self, delta: &Delta<'_>) -> Result<(), Excess> {
        match *delta {
            Delta::Text { text, .. } | Delta::Thinking { text, .. } => {
                grow(&mut self.text, text.len(), ANSWER_BYTES, Excess::Answer)
            }
            Delta::Arguments { index, json } => {
                let call = self.arguments.entry(index).or_default();
                grow(call, json.len(), ARGUMENT_BYTES, Excess::Arguments)?;
                self.attach(json.len())
            }
            Delta::Signature { signature: text, .. }
            | Delta::ProviderData { json: text, .. }
            | Delta::OpaqueJson { json: text, .. }
            | Delta::BlockStart {
                start:
                    BlockStart::RedactedThinking { data: text } | BlockStart::Opaque { raw_json: text },
                ..
            } => self.attach(text.len()),
            Delta::BlockStart { start: BlockStart::ToolCall { id, name }, .. }
            | Delta::CallIdentity { id, name, .. }
            | Delta::BecameCall { id, name, .. } => self.attach(id.len() + name.len()),
            Delta::BlockStart { start: BlockStart::Text | BlockStart::Thinking, .. }
            | Delta::Started { .. }
            | Delta::BlockStop { .. }
            | Delta::Usage(_) => Ok(()),
        }
    }

    /// Counts the bytes of block `index` that a decoder buffers.
    pub(super) fn withhold(&mut self, index: u32, bytes: usize) -> Result<(), Excess> {
        let block = self.withheld.entry(index).or_default();
        grow(block, bytes, ARGUMENT_BYTES, Excess::Arguments)
    }

    fn attach(&mut self, bytes: usize) -> Result<(), Excess> {
        grow(&mut self.attached, bytes, ATTACHED_BYTES, Excess::Attached)
    }
}

fn grow(count: &mut usize, by: usize, limit: usize, excess: Excess) -> Result<(), Excess> {
    let grown = count.saturating_add(by);
    if grown > limit {
        return Err(excess);
    }
    *count = grown;
    Ok(())
}
