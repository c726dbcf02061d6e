//! Tracing: the one owner of span and event names, and of the optional log on stderr.
//!
//! Fields are ids, names and counts. A prompt, an answer, a header or a key must never be one.

pub use tracing::Instrument;
use tracing::{Level, Span};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{Environment, LOG_VARIABLE};

/// The target of everything the engine traces: a host filters by it.
pub const TARGET: &str = "nexus_agent_engine";

/// One run, from `run()` to its terminal event.
#[must_use]
pub fn run_span(turn_id: &str, run_id: &str, provider: &str, model: &str) -> Span {
    tracing::info_span!(target: TARGET, "agent.run", turn_id, run_id, provider, model)
}

/// One attempt at a provider.
#[must_use]
pub fn call_span(purpose: &str, provider: &str, model: &str, attempt: u32) -> Span {
    tracing::info_span!(target: TARGET, "agent.call", purpose, provider, model, attempt)
}

/// One execution of a tool.
#[must_use]
pub fn tool_span(tool: &str, call_id: &str) -> Span {
    tracing::info_span!(target: TARGET, "agent.tool", tool, call_id)
}

/// One commit of the ledger.
#[must_use]
pub fn commit_span(turn_id: &str) -> Span {
    tracing::info_span!(target: TARGET, "ledger.commit", turn_id)
}

/// An attempt failed; the code is ours or the provider's, never its text.
pub fn call_failed(provider: &str, kind: &str, code: &str, status: Option<u16>) {
    tracing::event!(target: TARGET, Level::WARN, provider, kind, code, status, "agent.call.failed");
}

/// A call of a model ended; `tokens` is what it used.
pub fn call_ended(purpose: &str, attempt: u32, ok: bool, ms: u64, tokens: u64) {
    tracing::event!(target: TARGET, Level::INFO, purpose, attempt, ok, ms, tokens, "agent.call.ended");
}

/// A request went out otherwise than its context asked.
pub fn run_warned(turn_id: &str, code: &str, field: &str) {
    tracing::event!(target: TARGET, Level::WARN, turn_id, code, field, "agent.run.warned");
}

/// The provider's prompt cache was of less use than it should have been.
pub fn cache_broke(turn_id: &str, broken: &model::CacheBreak) {
    let (cause, part, tokens) = (broken.cause, broken.part, broken.tokens);
    tracing::event!(target: TARGET, Level::WARN, turn_id, ?cause, ?part, tokens, "agent.cache.broke");
}

/// What the request leaves out of its conversation, in blocks: other models' thinking and blocks, unusable calls and
/// results.
pub fn left_out(thinking: usize, opaque: usize, calls: usize, results: usize) {
    tracing::event!(target: TARGET, Level::DEBUG, thinking, opaque, calls, results, "agent.call.left_out");
}

/// A run ended.
pub fn run_ended(turn_id: &str, stop_reason: &str, duration_ms: u64) {
    tracing::event!(target: TARGET, Level::INFO, turn_id, stop_reason, duration_ms, "agent.run.ended");
}

/// The ledger could not do what was asked.
pub fn storage_failed(code: &str) {
    tracing::event!(target: TARGET, Level::ERROR, code, "ledger.failed");
}

/// The ledger's log is over its bound: something reads the file for long, here or in another process.
pub fn log_grew(log_bytes: u64) {
    tracing::event!(target: TARGET, Level::WARN, log_bytes, "ledger.log.grew");
}

/// Writes the engine's own events to stderr, where [`LOG_VARIABLE`] asks for it. Other crates' events stay out: their
/// traces show headers. Does nothing when the host has a subscriber already, or at a second call.
pub fn install_stderr_log(environment: &Environment) {
    let Some(level) = environment.get(LOG_VARIABLE).as_deref().and_then(level) else { return };
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_filter(Targets::new().with_target(TARGET, level));
    // An error means that a subscriber is installed: the host's own goes first.
    drop(tracing_subscriber::registry().with(layer).try_init());
}

/// An unknown word switches nothing on: a log is not worth a failed start.
fn level(word: &str) -> Option<LevelFilter> {
    match word.to_ascii_lowercase().as_str() {
        "error" => Some(LevelFilter::ERROR),
        "warn" => Some(LevelFilter::WARN),
        "info" => Some(LevelFilter::INFO),
        "debug" => Some(LevelFilter::DEBUG),
        "trace" => Some(LevelFilter::TRACE),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tracing_subscriber::filter::LevelFilter;

    #[test]
    fn the_levels_are_five_words_and_anything_else_is_silence() {
        let words = ["error", "WARN", "info", "debug", "trace", "verbose", "1"];
        let levels = words.map(super::level);
        assert_eq!(
            levels,
            [
                Some(LevelFilter::ERROR),
                Some(LevelFilter::WARN),
                Some(LevelFilter::INFO),
                Some(LevelFilter::DEBUG),
                Some(LevelFilter::TRACE),
                None,
                None,
            ]
        );
    }
}
