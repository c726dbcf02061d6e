//! Compares the calls of a session one by one, to find where a provider's prompt cache broke.
//!
//! `turn/prefix` decides what a break is. It must never compare a conversation that was intentionally projected again: after
//! a compaction, a pruning, or a switch of provider, model or profile.

use std::sync::Arc;

use super::cache_chain::{AnsweredCall, cache_ttl_ms, chain_of};
use model::{Api, CacheBreak, CacheChain, CacheStep, CacheTtl};
use turn::prefix::{self, Rules};

/// The calls of a run that are in the provider's cache.
#[derive(Default)]
pub(crate) struct CacheWatch {
    /// The last answered call.
    last: Option<Arc<CacheChain>>,
    /// The chain from the ledger, or from memory without a ledger.
    stored: Option<Arc<CacheChain>>,
    /// Whether `last` is a call of this run.
    called: bool,
    /// How often the run had projected the conversation again before its last call.
    reprojections: u32,
    /// Whether it was intentionally projected again since.
    pub(crate) explained: bool,
    breaks: Vec<CacheBreak>,
}

impl CacheWatch {
    pub(crate) fn of(stored: Option<Arc<CacheChain>>) -> Self {
        Self { last: stored.clone(), stored, ..Self::default() }
    }

    /// Milliseconds since the last call; `None` if there is no known one.
    pub(crate) fn idle_ms(&self, now: i64) -> Option<u64> {
        let last = self.last.as_ref()?.called_at;
        Some(u64::try_from(now.saturating_sub(last)).unwrap_or(0))
    }

    pub(crate) fn breaks(&self) -> &[CacheBreak] {
        &self.breaks
    }

    /// Adds a break to those that the run reports.
    pub(crate) fn add_break(&mut self, broken: CacheBreak) {
        self.breaks.push(broken);
    }

    /// Compares the tokens that the provider has read from its cache with the cached ones. `reprojections` counts how often
    /// the run has projected its conversation again. The break has no attempt and no message yet.
    pub(crate) fn observe(
        &mut self,
        call: &AnsweredCall<'_>,
        reprojections: u32,
    ) -> Option<CacheBreak> {
        if call.reply.usage_estimated || call.reply.usage.total_tokens == 0 {
            return None;
        }
        let mut chain = chain_of(call, self.last.as_deref());
        let explained = std::mem::take(&mut self.explained) || self.reprojections != reprojections;
        let last = self.last.take().filter(|last| {
            last.who == chain.who && last.way == chain.way && last.base == chain.base
        });
        let mut broken = None;
        if let Some(last) = last {
            chain.reported |= last.reported;
            let context = &call.run.context;
            let rules = Rules {
                explicit: match call.run.target.provider.api() {
                    Api::AnthropicMessages | Api::BedrockConverse => true,
                    Api::OpenaiChat
                    | Api::OpenaiResponses
                    | Api::GoogleGenerativeAi
                    | Api::Scripted => false,
                },
                ttl_ms: cache_ttl_ms(context),
                same_run: self.called,
                hour: context.request.prompt_cache.ttl == Some(CacheTtl::Hour),
                model: &call.run.target.model,
            };
            if !explained {
                broken = prefix::judge(&last, &chain, &rules);
            }
        }
        self.last = Some(Arc::new(chain));
        self.called = true;
        self.reprojections = reprojections;
        broken
    }

    /// The cache state that the turn commits. `comparable` limits the links that a later run will project identically;
    /// `None` if it will project all of them so.
    pub(crate) fn step(&self, comparable: Option<usize>) -> Option<Box<CacheStep>> {
        let chain = self.last.as_ref().filter(|_| self.called).map(|last| {
            let comparable = comparable.map_or(last.links.len(), |most| most.min(last.links.len()));
            match comparable == last.comparable {
                true => Arc::clone(last),
                false => Arc::new(CacheChain { comparable, ..last.as_ref().clone() }),
            }
        });
        if chain.is_none() && self.breaks.is_empty() {
            return None;
        }
        let known = chain.as_ref().zip(self.stored.as_ref()).map(|(chain, stored)| {
            let same = chain.links.iter().zip(&stored.links).take_while(|(a, b)| a == b).count();
            (stored.turn_id.clone(), same)
        });
        Some(Box::new(CacheStep { chain, known, breaks: self.breaks.clone() }))
    }
}
