//! Whether a call read from the provider's cache what it should have, and if not, why.
//!
//! A provider that never reported a cache has none to break. Where tokens are only read in steps, or a prompt was too short
//! to be cached, nothing is missed.

use super::diff::difference;
use model::{
    CacheBreak, CacheBreakCause, CacheChain, CacheChange, CachePart, ModelInfo, TokenUsage,
};

/// The least prompt that providers cache by themselves, and the steps they read it in (OpenAI).
const LEAST: u64 = 1_024;
const STEP: u64 = 128;

/// How the provider of two calls caches.
#[derive(Debug, Clone, Copy)]
pub struct Rules<'a> {
    /// It writes the marked prefixes, and reports both writes and reads; others cache what they choose.
    pub explicit: bool,
    /// How long it caches what is not read, in milliseconds.
    pub ttl_ms: u64,
    /// Whether both calls are one run's: a tool choice that changed then is the engine's own doing.
    pub same_run: bool,
    /// Whether writes are for an hour.
    pub hour: bool,
    /// For the prices.
    pub model: &'a ModelInfo,
}

/// What broke between two calls of one session and one model. The id of a message is the caller's to add.
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
        // What of the last call is still sent is not known in tokens.
        return None;
    }
    // Without a word of what was written, what was read before is all that is sure to be there.
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

/// The tokens that stood in the cache after a call.
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

/// What the tokens cost that were paid anew: those that were written at that price, the rest as input.
fn price(rules: &Rules<'_>, tokens: u64, call: &CacheChain) -> Option<f64> {
    let [input, read, written] = call.tokens;
    let cost = |input: u64, written: u64| {
        // The same length of prompt, because prices go by it.
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
