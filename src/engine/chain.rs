//! The chain of hashes of a session's calls: kept between runs, compared call by call, and told of where it broke.
//!
//! What breaks is `turn/prefix`'s to say. It must never keep a run from its answer, and never compare what was told anew
//! on purpose: after a compaction, a pruning, or a switch of provider, model or profile.

use std::sync::Arc;

use super::compaction::{Scope, Stopped};
use super::conversation::Conversation;
use super::driver::Run;
use super::recent::Recent;
use super::session::Session;
use base::telemetry;
use model::{
    Api, CacheBreak, CacheChain, CacheChange, CachePart, CacheStep, CacheTtl, Message,
    StorageError, StreamEvent,
};
use turn::machine::{Machine, Reply};
use turn::prefix::{self, Rules};
use turn::prune::Pruned;
use turn::transcript::{Projector, join};

/// Bytes and sessions kept over all.
const MAX_BYTES: usize = 8 << 20;
const MAX_SESSIONS: usize = 1_024;
/// How long a cache is kept that is not read, where nothing else was asked (docs/rules/compaction.md#pruning).
const MINUTES_MS: u64 = 5 * 60_000;

/// The chains of sessions by their label, least recently used ones dropped first.
pub(crate) struct Chains(Recent<String, Arc<CacheChain>>);

impl Default for Chains {
    fn default() -> Self {
        Self(Recent::new(MAX_SESSIONS, MAX_BYTES))
    }
}

impl Chains {
    pub(crate) fn get(&self, label: &str) -> Option<Arc<CacheChain>> {
        self.0.get(label)
    }

    pub(crate) fn put(&self, label: &str, chain: Arc<CacheChain>) {
        let bytes = (chain.links.len() + chain.tools.len()) * size_of::<u64>();
        self.0.put(label.to_owned(), chain, bytes);
    }
}

/// What a run knows of its session's calls.
#[derive(Default)]
pub(crate) struct Watch {
    /// The last call that was answered.
    last: Option<Arc<CacheChain>>,
    /// What stands in the ledger, or in memory where there is none.
    kept: Option<Arc<CacheChain>>,
    /// Whether `last` is a call of this run.
    called: bool,
    /// How often the run had told the conversation anew at its last call.
    retold: u32,
    /// It was told anew on purpose since.
    pub(crate) explained: bool,
    breaks: Vec<CacheBreak>,
}

impl Watch {
    pub(crate) fn of(kept: Option<Arc<CacheChain>>) -> Self {
        Self { last: kept.clone(), kept, ..Self::default() }
    }

    /// Milliseconds since the last call; `None` where none is known.
    pub(crate) fn idle_ms(&self, now: i64) -> Option<u64> {
        let last = self.last.as_ref()?.called_at;
        Some(u64::try_from(now.saturating_sub(last)).unwrap_or(0))
    }

    pub(crate) fn breaks(&self) -> &[CacheBreak] {
        &self.breaks
    }
}

/// What of a conversation is told pruned, as far as its last call says, so that it stays so.
pub(crate) fn pruned_by(chain: Option<&CacheChain>, who: u64, base: u64) -> Pruned {
    let Some(chain) = chain.filter(|chain| chain.who == who && chain.base == base) else {
        return Pruned::new();
    };
    let links = chain.links.iter().enumerate();
    links.filter_map(|(at, link)| Some((at, prefix::level_of(*link)?))).collect()
}

impl Run {
    /// Whom a cache belongs to, and how it is used.
    pub(crate) fn who(&self) -> u64 {
        let api = self.provider.api().as_str();
        prefix::named([api, &self.context.provider, &self.context.model])
    }

    /// How long the provider keeps what nobody reads.
    pub(crate) fn cache_ttl_ms(&self) -> u64 {
        match self.context.request.prompt_cache.ttl {
            Some(CacheTtl::Hour) => 60 * 60_000,
            Some(CacheTtl::Minutes | CacheTtl::Off) | None => MINUTES_MS,
        }
    }

    /// The chain of the session's last call, as the head `head` has it.
    pub(crate) async fn last_chain(
        &self,
        head: Option<&str>,
    ) -> Result<Option<Arc<CacheChain>>, StorageError> {
        let label = &self.context.session_label;
        let kept = self.core.chains.get(label);
        let Some(journal) = &self.core.journal else { return Ok(kept) };
        let Some(head) = head else { return Ok(None) };
        if let Some(chain) = kept.filter(|chain| chain.turn_id == head) {
            return Ok(Some(chain));
        }
        // Another process, a host's own turn or a compaction came after it; or it was dropped.
        Ok(journal.cache_chain(label).await?.map(Arc::from))
    }

    /// A call made at `sent` was answered: what its provider read is compared with what stood in its cache.
    pub(crate) async fn watch(
        &self,
        machine: &Machine,
        session: &mut Session,
        reply: &Reply,
        called: bool,
        (attempt, sent): (usize, i64),
    ) {
        if reply.usage_estimated || reply.usage.total_tokens == 0 {
            return;
        }
        let mut chain = self.chain_of(&session.conversation, reply, called, sent, &session.watch);
        let retold = session.fit.retold();
        let explained =
            std::mem::take(&mut session.watch.explained) || session.watch.retold != retold;
        let last = session.watch.last.take().filter(|last| {
            last.who == chain.who && last.way == chain.way && last.base == chain.base
        });
        if let Some(last) = last {
            chain.told |= last.told;
            let rules = Rules {
                explicit: match self.provider.api() {
                    Api::AnthropicMessages | Api::BedrockConverse => true,
                    Api::OpenaiChat
                    | Api::OpenaiResponses
                    | Api::GoogleGenerativeAi
                    | Api::Scripted => false,
                },
                ttl_ms: self.cache_ttl_ms(),
                same_run: session.watch.called,
                hour: self.context.request.prompt_cache.ttl == Some(CacheTtl::Hour),
                model: &self.model,
            };
            if !explained && let Some(broken) = prefix::judge(&last, &chain, &rules) {
                let broken = self.named(machine, session, broken, attempt).await;
                telemetry::cache_broke(&self.turn_id, &broken);
                let told = Box::new(broken.clone());
                self.queue.event(|seq| StreamEvent::CacheBreak { cache_break: told, seq });
                session.watch.breaks.push(broken);
            }
        }
        session.watch.last = Some(Arc::new(chain));
        session.watch.called = true;
        session.watch.retold = retold;
    }

    fn chain_of(
        &self,
        conversation: &Conversation,
        reply: &Reply,
        called: bool,
        sent: i64,
        watch: &Watch,
    ) -> CacheChain {
        let options = &self.context.request;
        let (cache, profile) = (&options.prompt_cache, self.profile.as_deref());
        let ttl = format!("{:?}", cache.ttl);
        let way = [profile.unwrap_or_default(), &ttl, cache.key.as_deref().unwrap_or_default()];
        let thinking = self.context.thinking_config.as_ref();
        let links = conversation.links();
        let usage = &reply.usage;
        CacheChain {
            turn_id: self.turn_id.clone(),
            who: self.who(),
            way: prefix::named(way),
            base: conversation.base(),
            called_at: sent,
            system: prefix::text(&self.context.system_prompt),
            settings: prefix::settings(thinking, self.template.options(&self.context, called)),
            tools: self.tool_links(watch.last.as_deref()),
            comparable: links.len(),
            links,
            tokens: [usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens],
            told: usage.cached_input_tokens + usage.cache_write_tokens > 0,
        }
    }

    /// The tools, ours and the provider's; the last call's own list where it says the same.
    fn tool_links(&self, last: Option<&CacheChain>) -> Arc<[(String, u64)]> {
        let ours = self.tool_set.tools().iter();
        let theirs = self.context.request.provider_tools.iter();
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

    /// Adds what only the conversation itself says: the id of the message.
    async fn named(
        &self,
        machine: &Machine,
        session: &mut Session,
        mut broken: CacheBreak,
        attempt: usize,
    ) -> CacheBreak {
        broken.attempt = u32::try_from(attempt).unwrap_or(u32::MAX);
        let is_there =
            broken.part == Some(CachePart::Message) && broken.change != Some(CacheChange::Removed);
        if let Some(at) = broken.index.filter(|_| is_there)
            && let Ok((messages, _)) = self.projected(machine, session).await
        {
            // An id that cannot be read now is null; the place is told all the same.
            let at = usize::try_from(at).unwrap_or(usize::MAX);
            broken.message_id = messages.get(at).map(|message| message.id.clone());
        }
        broken
    }

    /// The whole conversation as it is told, results unpruned, and the turns before the running one.
    pub(crate) async fn projected(
        &self,
        machine: &Machine,
        session: &mut Session,
    ) -> Result<(Vec<Message>, Scope), Stopped> {
        let scope = self.scope(session).await?;
        let mut projector = Projector::new(self.target());
        let mut told = Vec::new();
        let given = self.context.history.as_deref().unwrap_or_default();
        join(&mut told, projector.project_flat(given));
        for turn in scope.summary.iter().chain(&scope.turns) {
            join(&mut told, projector.project_history(turn));
        }
        join(&mut told, projector.project_current(machine.messages()));
        Ok((told, scope))
    }

    /// What the turn leaves of the cache; `whole` where a later run tells it as it was told.
    pub(crate) fn cache_step(&self, session: &Session, whole: bool) -> Option<Box<CacheStep>> {
        let watch = &session.watch;
        let chain = watch.last.as_ref().filter(|_| watch.called).map(|last| {
            let comparable = match (session.fit.shortened(), whole) {
                (true, _) => 0,
                (false, false) => session.conversation.before_turn().min(last.links.len()),
                (false, true) => last.links.len(),
            };
            match comparable == last.comparable {
                true => Arc::clone(last),
                false => Arc::new(CacheChain { comparable, ..last.as_ref().clone() }),
            }
        });
        if chain.is_none() && watch.breaks.is_empty() {
            return None;
        }
        let known = chain.as_ref().zip(watch.kept.as_ref()).map(|(chain, kept)| {
            let same = chain.links.iter().zip(&kept.links).take_while(|(a, b)| a == b).count();
            (kept.turn_id.clone(), same)
        });
        Some(Box::new(CacheStep { chain, known, breaks: watch.breaks.clone() }))
    }
}

/// The name of a tool: ours as it is, a provider's by what its JSON says.
fn provider_name(tool: &str) -> String {
    if !tool.trim_start().starts_with('{') {
        return tool.to_owned();
    }
    let json: serde_json::Value = serde_json::from_str(tool).unwrap_or_default();
    let name = json.get("name").or_else(|| json.get("type")).and_then(serde_json::Value::as_str);
    name.unwrap_or("provider tool").to_owned()
}
