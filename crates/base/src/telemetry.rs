//! Tracing: the names of spans and events, and the optional log on stderr.
//!
//! Fields are ids, names and counts. A field must never be a prompt, an answer, a header or a key.

pub use tracing::Instrument;
use tracing::{Level, Span};
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::config::{Environment, LOG_VARIABLE};

/// The target of all spans and events of the engine: a host filters by it.
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

/// An attempt failed; the code is the engine's or the provider's, never a text.
pub fn call_failed(provider: &str, kind: &str, code: &str, status: Option<u16>) {
    tracing::event!(target: TARGET, Level::WARN, provider, kind, code, status, "agent.call.failed");
}

/// A call of a model ended; `tokens` is its usage.
pub fn call_ended(purpose: &str, attempt: u32, ok: bool, ms: u64, tokens: u64) {
    tracing::event!(target: TARGET, Level::INFO, purpose, attempt, ok, ms, tokens, "agent.call.ended");
}

/// A tool begins; its span has the id of the call.
pub fn tool_began() {
    tracing::event!(target: TARGET, Level::DEBUG, "agent.tool.began");
}

/// A call of a tool has its result; `call_id` is the same in the call's span, events, result and row. `ran`: the tool itself ran.
pub fn tool_ended(tool: &str, call_id: &str, ran: bool, ok: bool, ms: u64) {
    tracing::event!(target: TARGET, Level::INFO, tool, call_id, ran, ok, ms, "agent.tool.ended");
}

/// A request was sent without an option of its context.
pub fn run_warned(turn_id: &str, code: &str, field: &str) {
    tracing::event!(target: TARGET, Level::WARN, turn_id, code, field, "agent.run.warned");
}

/// The provider's prompt cache was read less than expected.
pub fn cache_broke(turn_id: &str, broken: &model::CacheBreak) {
    let (cause, part, tokens) = (broken.cause, broken.part, broken.tokens);
    tracing::event!(target: TARGET, Level::WARN, turn_id, ?cause, ?part, tokens, "agent.cache.broke");
}

/// The number of blocks that the request leaves out of its conversation: thinking and opaque blocks of other models,
/// unusable calls and results.
pub fn left_out(thinking: usize, opaque: usize, calls: usize, results: usize) {
    tracing::event!(target: TARGET, Level::DEBUG, thinking, opaque, calls, results, "agent.call.left_out");
}

/// A run ended.
pub fn run_ended(turn_id: &str, stop_reason: &str, duration_ms: u64) {
    tracing::event!(target: TARGET, Level::INFO, turn_id, stop_reason, duration_ms, "agent.run.ended");
}

/// The ledger refused or failed.
pub fn storage_failed(code: &str) {
    tracing::event!(target: TARGET, Level::ERROR, code, "ledger.failed");
}

/// The ledger's log is over its limit: a long read of the file is under way, here or in another process.
pub fn log_grew(log_bytes: u64) {
    tracing::event!(target: TARGET, Level::WARN, log_bytes, "ledger.log.grew");
}

/// Writes the engine's own events to stderr, if [`LOG_VARIABLE`] is set. Events of other crates are excluded: their traces
/// show headers. Does nothing if the host has a subscriber already, or at a second call.
pub fn install_stderr_log(environment: &Environment) {
    let Some(level) = environment.get(LOG_VARIABLE).as_deref().and_then(level) else { return };
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_filter(Targets::new().with_target(TARGET, level));
    // An error means that a subscriber is installed: the host's own is used.
    drop(tracing_subscriber::registry().with(layer).try_init());
}

/// The level; an unknown word means no log, and never a failed start.
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
    fn the_levels_are_five_words_and_any_other_word_is_no_log() {
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
