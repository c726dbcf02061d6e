//! The fuzz targets: one function each, with assertions that hold for every input.
//!
//! Owns the properties. `fuzz/` runs them with libFuzzer, `tests` with the stored corpus and seeded mutations of it on every
//! machine; they are built for these two only. It must never be a part of the engine.

mod history;
mod response;
#[cfg(test)]
mod tests;

use model::Api;

/// The name of a target, which is also that of its corpus folder, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: [Target; 10] = [
    ("sse_bytes", response::sse_bytes),
    ("sse_chunked", response::sse_chunked),
    ("eventstream_frames", response::eventstream_frames),
    ("reducer_anthropic", |data| response::reducer(Api::AnthropicMessages, data)),
    ("reducer_chat", |data| response::reducer(Api::OpenaiChat, data)),
    ("reducer_responses", |data| response::reducer(Api::OpenaiResponses, data)),
    ("reducer_google", |data| response::reducer(Api::GoogleGenerativeAi, data)),
    ("reducer_bedrock", |data| response::reducer(Api::BedrockConverse, data)),
    ("projection", history::projection),
    ("retry_after", response::retry_after),
];

/// Runs one input through the target of this name.
pub fn run(name: &str, data: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    assert!(target.is_some(), "no fuzz target is named `{name}`");
    if let Some((_, target)) = target {
        target(data);
    }
}
