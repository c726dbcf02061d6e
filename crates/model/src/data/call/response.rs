//! What an attempt returns: block deltas while it runs, and a completion at the end that its protocol defines.
//!
//! The neutral event set of every decoder. It must never hold a provider's JSON except as opaque text.

use std::task::{Context, Poll};

use crate::{Failure, RateLimits, TokenUsage};

/// How a block begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BlockStart<'a> {
    /// Visible text.
    Text,
    /// Shown reasoning.
    Thinking,
    /// Encrypted reasoning, whole.
    RedactedThinking {
        /// The encrypted text.
        data: &'a str,
    },
    /// A call of a tool of the context. An empty id means that the provider sent none.
    ToolCall {
        /// The provider's id.
        id: &'a str,
        /// The tool.
        name: &'a str,
    },
    /// A block that only its provider understands, whole, as JSON text.
    Opaque {
        /// The block.
        raw_json: &'a str,
    },
}

/// One step of a response. `index` names the block; a decoder never reuses one within a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delta<'a> {
    /// The response has begun.
    Started {
        /// The provider's id of the response; empty where it sent none.
        response_id: &'a str,
        /// The model that answers; empty where it is not reported.
        model: &'a str,
    },
    /// A block begins.
    BlockStart {
        /// The block.
        index: u32,
        /// How it begins.
        start: BlockStart<'a>,
    },
    /// More visible text.
    Text {
        /// The block.
        index: u32,
        /// The text.
        text: &'a str,
    },
    /// More shown reasoning.
    Thinking {
        /// The block.
        index: u32,
        /// The text.
        text: &'a str,
    },
    /// The signature of a thinking block, whole: it replaces the previous one.
    Signature {
        /// The block.
        index: u32,
        /// The signature.
        signature: &'a str,
    },
    /// More of a tool call's arguments, as JSON text.
    Arguments {
        /// The block.
        index: u32,
        /// The fragment.
        json: &'a str,
    },
    /// A call's id or name from a late chunk.
    CallIdentity {
        /// The block.
        index: u32,
        /// The id; empty leaves the previous one.
        id: &'a str,
        /// The name; empty leaves the previous one.
        name: &'a str,
    },
    /// An opaque block turns out to be a call of a tool of the context: the provider sent no result for it. Its arguments
    /// follow.
    BecameCall {
        /// The block.
        index: u32,
        /// The provider's id.
        id: &'a str,
        /// The tool.
        name: &'a str,
    },
    /// JSON text to store with the block and replay: it replaces the previous one.
    ProviderData {
        /// The block.
        index: u32,
        /// The JSON text.
        json: &'a str,
    },
    /// The opaque block's JSON text is complete: it replaces the previous one.
    OpaqueJson {
        /// The block.
        index: u32,
        /// The JSON text.
        json: &'a str,
    },
    /// A block closed. A tool call without this is incomplete and never run.
    BlockStop {
        /// The block.
        index: u32,
    },
    /// Usage so far, cumulative: it replaces the previous one.
    Usage(ReportedUsage),
}

/// Receives the deltas.
pub trait DeltaSink: Send {
    /// The server has sent its headers, with this status and these limits. Called once, before any delta; never by a provider
    /// without headers.
    fn answered(&mut self, _status: u16, _limits: &RateLimits) {}

    /// Takes one delta. Called in order, on the task that reads the socket; must not block.
    fn delta(&mut self, delta: Delta<'_>);

    /// A decoder has buffered `bytes` more of block `index`; it emits them when they are whole.
    fn withheld(&mut self, _index: u32, _bytes: usize) {}

    /// The failure of an answer that exceeded a limit. The transport then stops reading, and the attempt fails with it.
    fn refusal(&self) -> Option<Failure> {
        None
    }

    /// Whether the reader keeps up. The transport waits for this before it reads more of the socket.
    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// Usage as the provider reported it, normalised by the table of docs/rules/wire/usage.md#usage-mapping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReportedUsage {
    /// Prompt tokens outside the cache.
    pub input: u64,
    /// Generated tokens, reasoning included.
    pub output: u64,
    /// Read from the cache.
    pub cached: u64,
    /// Written to the cache.
    pub cache_write: u64,
    /// The part of `cache_write` that is cached for an hour: its price differs.
    pub cache_write_hour: u64,
    /// The reasoning part of `output`, where reported.
    pub reasoning: Option<u64>,
}

impl From<ReportedUsage> for TokenUsage {
    fn from(usage: ReportedUsage) -> Self {
        Self::new(
            usage.input,
            usage.output,
            usage.cached,
            usage.cache_write,
            usage.reasoning.unwrap_or(0),
        )
    }
}

/// Why the model stopped, over all providers (docs/rules/wire/usage.md#stops).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It finished.
    EndTurn,
    /// It finished at a stop sequence.
    StopSequence,
    /// It calls tools.
    ToolUse,
    /// The output cap.
    MaxTokens,
    /// The window is full; the answer is cut but valid.
    ContextFull,
    /// The model refused.
    Refusal,
    /// A filter stopped it.
    ContentFilter,
    /// A provider-run tool paused: the engine sends the content back and continues.
    Pause,
    /// The model wrote a tool call that the provider could not parse.
    MalformedToolCall,
    /// The provider reports an error as a stop.
    Error,
    /// A reason this version does not know; the response is complete.
    Other,
}

/// A response that reached the end that its protocol defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// Why it stopped.
    pub stop: Stop,
    /// The provider's own word for it.
    pub stop_raw: String,
    /// The HTTP status.
    pub status: u16,
}
