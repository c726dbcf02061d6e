//! The chain of hashes of a session's calls, and the chains of all sessions in memory.
//!
//! It must never compare chains: `turn/prefix` decides where a cache broke.

use std::sync::Arc;

use super::conversation::Conversation;
use crate::engine::state::{ModelTarget, Run};
use base::recent::Recent;
use model::{AssembledContext, CacheChain, CacheTtl, Journal, StorageError};
use turn::machine::Reply;
use turn::prefix;
use turn::prune::Pruned;

/// Bytes and sessions of all chains together.
const MAX_BYTES: usize = 8 << 20;
const MAX_SESSIONS: usize = 1_024;
/// The default lifetime of an unread cache (docs/rules/compaction.md#pruning).
const MINUTES_MS: u64 = 5 * 60_000;

/// The chains of sessions by their label, least recently used ones dropped first.
pub(crate) struct CacheChainStore(Recent<String, Arc<CacheChain>>);

impl Default for CacheChainStore {
    fn default() -> Self {
        Self(Recent::new(MAX_SESSIONS, MAX_BYTES))
    }
}

impl CacheChainStore {
    pub(crate) fn get(&self, label: &str) -> Option<Arc<CacheChain>> {
        self.0.get(label)
    }

    pub(crate) fn put(&self, label: &str, chain: Arc<CacheChain>) {
        let bytes = (chain.links.len() + chain.tools.len()) * size_of::<u64>();
        self.0.put(label.to_owned(), chain, bytes);
    }

    /// The chain of the last call of a session whose head is `head`.
    pub(crate) async fn last(
        &self,
        journal: &Arc<dyn Journal>,
        label: &str,
        head: Option<&str>,
    ) -> Result<Option<Arc<CacheChain>>, StorageError> {
        let Some(head) = head else { return Ok(None) };
        if let Some(chain) = self.get(label).filter(|chain| chain.turn_id == head) {
            return Ok(Some(chain));
        }
        // Another process, a turn of the host or a compaction followed it, or it was evicted.
        Ok(journal.cache_chain(label).await?.map(Arc::from))
    }
}

/// The results of a conversation that its last call pruned, which stay pruned.
pub(crate) fn pruned_by(chain: Option<&CacheChain>, who: u64, base: u64) -> Pruned {
    let Some(chain) = chain.filter(|chain| chain.who == who && chain.base == base) else {
        return Pruned::new();
    };
    let links = chain.links.iter().enumerate();
    links.filter_map(|(at, link)| Some((at, prefix::level_of(*link)?))).collect()
}

/// The hash of the model of a cache.
pub(crate) fn who(target: &ModelTarget) -> u64 {
    prefix::named([target.provider.api().as_str(), &target.provider_name, &target.model_name])
}

/// How long a provider caches a prompt that is not read.
pub(crate) fn cache_ttl_ms(context: &AssembledContext) -> u64 {
    match context.request.prompt_cache.ttl {
        Some(CacheTtl::Hour) => 60 * 60_000,
        Some(CacheTtl::Minutes | CacheTtl::Off) | None => MINUTES_MS,
    }
}

/// The name of a lifetime in `CacheChain::way`. Ledgers store hashes of the name, so it never changes.
fn ttl_name(ttl: Option<CacheTtl>) -> &'static str {
    match ttl {
        None => "None",
        Some(CacheTtl::Off) => "Some(Off)",
        Some(CacheTtl::Minutes) => "Some(Minutes)",
        Some(CacheTtl::Hour) => "Some(Hour)",
    }
}

/// An answered call.
pub(crate) struct AnsweredCall<'a> {
    pub(crate) run: &'a Run,
    pub(crate) conversation: &'a Conversation,
    pub(crate) reply: &'a Reply,
    /// Whether a tool of the run had answered before the call.
    pub(crate) tools_answered: bool,
    /// The wall time at which it was sent, in milliseconds.
    pub(crate) sent_at: i64,
}

/// The chain of a call; `last` is the chain of the previous call.
pub(crate) fn chain_of(call: &AnsweredCall<'_>, last: Option<&CacheChain>) -> CacheChain {
    let AnsweredCall { run, conversation, reply, tools_answered, sent_at } = *call;
    let cache = &run.context.request.prompt_cache;
    let way = [
        run.profile.as_deref().unwrap_or_default(),
        ttl_name(cache.ttl),
        cache.key.as_deref().unwrap_or_default(),
    ];
    let thinking = run.context.thinking_config.as_ref();
    let links = conversation.links();
    let usage = &reply.usage;
    CacheChain {
        turn_id: run.turn_id.clone(),
        who: who(&run.target),
        way: prefix::named(way),
        base: conversation.base(),
        called_at: sent_at,
        system: prefix::text(&run.context.system_prompt),
        settings: prefix::settings(thinking, run.template.options(&run.context, tools_answered)),
        tools: tool_links(run, last),
        comparable: links.len(),
        links,
        tokens: [usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens],
        reported: usage.cached_input_tokens + usage.cache_write_tokens > 0,
    }
}

/// The tools of the run and of the provider; the list of the last call if it is equal.
fn tool_links(run: &Run, last: Option<&CacheChain>) -> Arc<[(String, u64)]> {
    let ours = run.tools().iter();
    let theirs = run.context.request.provider_tools.iter();
    let now = || {
        let ours = ours.clone().map(|tool| (tool.name.as_str(), prefix::tool(tool)));
        ours.chain(theirs.clone().map(|tool| (tool.get(), prefix::text(tool.get()))))
    };
    if let Some(last) = last
        && last.tools.len() == now().count()
        && now().zip(last.tools.iter()).all(|((_, new), (_, old))| new == *old)
    {
        return Arc::clone(&last.tools);
    }
    now().map(|(name, hash)| (provider_name(name), hash)).collect()
}

/// The name of a tool; for a provider's tool it is read from its JSON.
fn provider_name(tool: &str) -> String {
    if !tool.trim_start().starts_with('{') {
        return tool.to_owned();
    }
    let json: serde_json::Value = serde_json::from_str(tool).unwrap_or_default();
    let name = json.get("name").or_else(|| json.get("type")).and_then(serde_json::Value::as_str);
    name.unwrap_or("provider tool").to_owned()
}

#[cfg(test)]
mod tests {
    use super::ttl_name;
    use model::CacheTtl;

    #[test]
    fn the_name_of_a_lifetime_is_the_one_that_ledgers_hold_hashes_of() {
        for ttl in [None, Some(CacheTtl::Off), Some(CacheTtl::Minutes), Some(CacheTtl::Hour)] {
            assert_eq!(ttl_name(ttl), format!("{ttl:?}"));
        }
    }
}
