//! Whether a call read the expected tokens from the provider's cache, and if not, why.
//!
//! A provider that never reported cache tokens cannot have a break. Rounding to the provider's steps, and prompts too
//! short to be cached, are no breaks.

use super::diff::difference;
use model::{
    CacheBreak, CacheBreakCause, CacheChain, CacheChange, CachePart, ModelInfo, TokenUsage,
};

/// The smallest prompt that providers cache automatically, and the step of cache reads (OpenAI).
const LEAST: u64 = 1_024;
const STEP: u64 = 128;

/// The caching of the provider of two calls.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// It writes the marked prefixes, and reports both writes and reads; other providers choose what they cache.
    pub explicit: bool,
    /// How long it caches a prefix that is not read, in milliseconds.
    pub ttl_ms: u64,
    /// Whether both calls are in one run: then the engine itself changed the tool choice.
    pub same_run: bool,
    /// Whether writes are for an hour.
    pub hour: bool,
    /// For the prices.
    pub model: &'a ModelInfo,
}

/// The break between two calls of one session and one model. The caller adds the id of a message.
pub fn judge(before: &CacheChain, now: &CacheChain, rules: &Rules<'_>) -> Option<CacheBreak> {
    let [input, read, written] = now.tokens;
    let idle_ms = u64::try_from(now.called_at.saturating_sub(before.called_at)).unwrap_or(0);
    let paid_anew =
        |expected: u64| expected.saturating_sub(read).min(input.saturating_add(written));
    let found = |cause, expected: u64| {
        let tokens = paid_anew(expected);
        CacheBreak {
            attempt: 0,
            cause,
            part: None,
            change: None,
            name: None,
            index: None,
            message_id: None,
            role: None,
            expected_tokens: expected,
            read_tokens: read,
            tokens,
            cost: price(rules, tokens, now),
            idle_ms,
        }
    };
    if let Some(first) = difference(before, now) {
        let expected = cached_tokens(before, rules);
        if paid_anew(expected) == 0 {
            return None;
        }
        return Some(CacheBreak {
            part: Some(first.part),
            change: Some(first.change),
            name: first.name,
            index: first.index.map(|index| u32::try_from(index).unwrap_or(u32::MAX)),
            role: first.role,
            ..found(CacheBreakCause::Prefix, expected)
        });
    }
    if before.comparable < before.links.len() {
        // The number of tokens of the last call that are still sent is unknown.
        return None;
    }
    // Without reported writes, only the tokens of the previous read are known to be cached.
    let expected = if rules.explicit { cached_tokens(before, rules) } else { before.tokens[1] };
    if paid_anew(expected) <= STEP {
        return None;
    }
    if idle_ms > rules.ttl_ms {
        return Some(found(CacheBreakCause::Expired, expected));
    }
    let setting = match (before.settings == now.settings, before.settings[0] == now.settings[0]) {
        (true, _) => return Some(found(CacheBreakCause::Unexplained, expected)),
        (false, false) => "thinkingConfig",
        (false, true) if rules.same_run => return None,
        (false, true) => "toolChoice",
    };
    Some(CacheBreak {
        part: Some(CachePart::Setting),
        change: Some(CacheChange::Changed),
        name: Some(setting.to_owned()),
        ..found(CacheBreakCause::Prefix, expected)
    })
}

/// The tokens in the cache after a call.
fn cached_tokens(call: &CacheChain, rules: &Rules<'_>) -> u64 {
    let [input, read, written] = call.tokens;
    if rules.explicit || written > 0 {
        return read.saturating_add(written);
    }
    let caches =
        call.reported || rules.model.cost.as_ref().is_some_and(|cost| cost.cache_read.is_some());
    let prompt = input.saturating_add(read);
    if caches && prompt >= LEAST { prompt - prompt % STEP } else { 0 }
}

/// The cost of the tokens that were paid again: written ones at that price, the rest as input.
fn price(rules: &Rules<'_>, tokens: u64, call: &CacheChain) -> Option<f64> {
    let [input, read, written] = call.tokens;
    let cost = |input: u64, written: u64| {
        // The same prompt length, because prices depend on it.
        let usage = TokenUsage::new(input, 0, read, written, 0);
        rules.model.cost_of(&usage, if rules.hour { written } else { 0 })
    };
    let wrote = tokens.min(written);
    let plain = tokens - wrote;
    let whole = cost(input, written)?;
    let rest = TokenUsage::new(
        input.saturating_sub(plain),
        0,
        read.saturating_add(tokens),
        written - wrote,
        0,
    );
    let hour = if rules.hour { rest.cache_write_tokens } else { 0 };
    let read_instead = rules.model.cost_of(&rest, hour)?;
    let reads = rules.model.cost_of(&TokenUsage::new(0, 0, tokens, 0, 0), 0)?;
    Some(whole - read_instead + reads)
}
