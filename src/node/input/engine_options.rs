//! The options of an engine after reading: each checked, with what they name.
//!
//! It must never open anything.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::backend;
use super::super::options::{LedgerFields, Options};
use super::allowed_hosts;
use crate::engine::{
    Budgets, CompactionOptions, ContextGuard, FailoverOptions, GovernorOptions, PruningOptions,
};
use crate::retrieval::MemoryOptions;
use base::config::Environment;
use base::error::EngineError;
use mcp::{ServerSettings, parse_servers};
use model::{
    Catalogue, InputError, ModelDeclaration, PlannerSettings, RunPolicy, borrowed_from_json, typed,
};
use provider::{Api, KeyHost, ProviderKeys, ProviderSet, ProviderSettings, parse_hosted_providers};

/// The options of an engine.
pub(in crate::node) struct ReadOptions {
    pub(in crate::node) ledger: Option<LedgerFields>,
    pub(in crate::node) tool_timeout_ms: Option<u64>,
    pub(in crate::node) set: ProviderSet,
    pub(in crate::node) catalogue: Catalogue,
    pub(in crate::node) compaction: Option<CompactionOptions>,
    pub(in crate::node) pruning: Option<PruningOptions>,
    pub(in crate::node) guard: ContextGuard,
    pub(in crate::node) budgets: Budgets,
    pub(in crate::node) policies: Vec<RunPolicy>,
    pub(in crate::node) planner: Option<Box<PlannerSettings>>,
    pub(in crate::node) governor: Option<GovernorOptions>,
    pub(in crate::node) failover: FailoverOptions,
    pub(in crate::node) mcp: Vec<ServerSettings>,
    pub(in crate::node) memory: Option<MemoryOptions>,
}

impl ReadOptions {
    /// Reads the JSON of `AgentEngineOptions`; `host` calls the key functions.
    ///
    /// # Errors
    /// The first option that is wrong, by its path.
    pub(in crate::node) fn of(
        json: &str,
        host: Option<&Arc<dyn KeyHost>>,
        environment: &Environment,
    ) -> Result<Self, EngineError> {
        let options: Options<'_> = borrowed_from_json(json).map_err(|error: InputError| {
            let is_whole = error.path == ".";
            let path = if is_whole { "options".to_owned() } else { error.path };
            EngineError::option(InputError { path, ..error })
        })?;
        Self::checked(options, host, environment).map_err(EngineError::option)
    }

    fn checked(
        options: Options<'_>,
        host: Option<&Arc<dyn KeyHost>>,
        environment: &Environment,
    ) -> Result<Self, InputError> {
        if options.tool_timeout_ms == Some(0) {
            return Err(InputError {
                path: "toolTimeoutMs".to_owned(),
                message: "`0` leaves no time; pass at least 1 or leave it out".to_owned(),
            });
        }
        let set =
            parse_hosted_providers(options.providers, options.auth_profiles, host, environment)?;
        let declared: Vec<ModelDeclaration> = match options.models {
            Some(raw) if raw.get() != "null" => typed("models", raw)?,
            Some(_) | None => Vec::new(),
        };
        let catalogue = Catalogue::with_declared(declared)?;
        let compaction = CompactionOptions::parse(options.compaction)?;
        if let (Some(compaction), None) = (&compaction, &options.ledger) {
            compaction.without_ledger()?;
        }
        let failover = FailoverOptions::parse(options.failover)?;
        let named: HashMap<&str, ProviderKeys> =
            set.providers.keys().map(|name| (name.as_str(), set.keys(name))).collect();
        let ids = |name: &str| {
            let keys = named.get(name)?;
            Some(keys.profiles.iter().map(|profile| profile.id.as_str()).collect())
        };
        failover.check(ids)?;
        if let Some(ledger) = &options.ledger {
            backend::check(ledger, environment)?;
        }
        drop(named);
        let mcp = parse_servers(options.mcp, environment)?;
        allowed_hosts::check(options.allowed_hosts.as_deref(), &set, &mcp)?;
        let memory = MemoryOptions::parse(options.memory)?;
        if let Some(memory) = &memory {
            check_memory(memory, &set)?;
        }
        if memory.is_some() && options.ledger.is_none() {
            let message = "needs a ledger; pass `ledger: { path }` as well";
            return Err(InputError::new("memory", message));
        }
        Ok(Self {
            ledger: options.ledger,
            tool_timeout_ms: options.tool_timeout_ms,
            set,
            catalogue,
            compaction,
            pruning: PruningOptions::parse(options.pruning)?,
            guard: ContextGuard::parse(options.context_guard)?,
            budgets: Budgets::parse(options.budgets)?,
            policies: RunPolicy::parse("policy", options.policy)?,
            planner: PlannerSettings::parse("planner", options.planner)?,
            governor: GovernorOptions::parse(options.rate_governor)?,
            failover,
            mcp,
            memory,
        })
    }
}

/// Checks that the providers of the memory are the engine's, and that the one of its embedder can embed.
fn check_memory(memory: &MemoryOptions, set: &ProviderSet) -> Result<(), InputError> {
    if let Some(extract) = &memory.extract
        && !set.providers.contains_key(&extract.provider)
    {
        let message = unknown_provider(&extract.provider, set);
        return Err(InputError::new("memory.facts.extract.provider", message));
    }
    let named = memory.embedder.as_ref().and_then(|embedder| embedder.provider.as_ref());
    let Some((name, _)) = named else { return Ok(()) };
    let at = |message: String| InputError::new("memory.embedder.provider", message);
    match set.providers.get(name) {
        None => Err(at(unknown_provider(name, set))),
        Some(
            ProviderSettings::Scripted(_)
            | ProviderSettings::Http { api: Api::AnthropicMessages | Api::Scripted, .. },
        ) => Err(at(format!("`{name}` has an API without embeddings; name another provider"))),
        Some(ProviderSettings::Http { .. }) => Ok(()),
    }
}

fn unknown_provider(name: &str, set: &ProviderSet) -> String {
    let mut known: Vec<&str> = set.providers.keys().map(String::as_str).collect();
    known.sort_unstable();
    format!("`{name}` is not among the engine's providers ({})", known.join(", "))
}
