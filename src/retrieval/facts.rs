//! Facts: checked, stored, superseded, listed, forgotten, imported. It must never change a fact that is stored.

use serde::Deserialize;

use super::service::Memory;
use base::error::EngineError;
use memory::assemble::fact_text;
use memory::chunk::{CHUNK_TOKENS, chunks};
use model::{
    FactFilter, FactInput, ForgetOptions, InputError, MemoryFact, MemoryForgotten, MemoryScope,
    MemoryScopeKind, NewFact, Page,
};

const MOST_ENTITY: usize = 512;
const MOST_TYPE: usize = 128;
const MOST_CONTENT: usize = 65_536;
const MOST_ID: usize = 512;

/// What an import has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct ImportedFacts {
    /// The facts that are new.
    pub(crate) facts: u64,
    /// Those that the memory has, or has forgotten.
    pub(crate) skipped: u64,
}

/// The fact that another one takes the place of.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Superseded {
    pub(crate) id: String,
    /// It must belong where the texts of this session do.
    #[serde(default)]
    pub(crate) within: Option<String>,
}

/// Facts of an export.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct FactImport {
    pub(crate) facts: Vec<MemoryFact>,
}

fn wrong(path: &str, message: impl Into<String>) -> EngineError {
    EngineError::option(InputError::new(path, message))
}

/// Checks a text that names something.
fn check_name(path: &str, text: &str, most: usize) -> Result<(), EngineError> {
    if text.trim().is_empty() || text.len() > most || text.contains(char::is_control) {
        return Err(wrong(path, format!("is not a name; pass 1 to {most} bytes on one line")));
    }
    Ok(())
}

/// Checks a scope.
pub(super) fn check_scope(path: &str, scope: &MemoryScope) -> Result<(), EngineError> {
    if scope.kind == MemoryScopeKind::Global {
        if scope.id.is_empty() {
            return Ok(());
        }
        return Err(wrong(&format!("{path}.id"), "is set; the scope `global` has none"));
    }
    check_name(&format!("{path}.id"), &scope.id, MOST_ID)
}

fn check_fact(
    entity: &str,
    of_type: &str,
    content: &str,
    confidence: f64,
) -> Result<(), EngineError> {
    check_name("entity", entity, MOST_ENTITY)?;
    check_name("type", of_type, MOST_TYPE)?;
    if content.len() > MOST_CONTENT {
        let length = content.len();
        return Err(wrong("content", format!("has {length} bytes; pass at most {MOST_CONTENT}")));
    }
    if !(0.0..=1.0).contains(&confidence) {
        return Err(wrong("confidence", format!("`{confidence}` is not a share; pass 0 to 1")));
    }
    Ok(())
}

impl Memory {
    /// Stores a fact, in place of another one if `supersedes` names it. One that says the same is returned instead.
    pub(crate) async fn store_fact(
        &self,
        new: NewFact,
        supersedes: Option<Superseded>,
    ) -> Result<MemoryFact, EngineError> {
        let confidence = new.confidence.unwrap_or(1.0);
        check_fact(&new.entity, &new.r#type, new.content.get(), confidence)?;
        let scope = match (&new.session, new.scope, &supersedes) {
            (Some(session), None, _) => {
                let identity = self.parts.store.identity_of(session.clone()).await?;
                self.parts.options.scopes.scope_of(&identity)
            }
            (None, Some(scope), _) => scope,
            (None, None, Some(former)) => match self.parts.store.fact(former.id.clone()).await? {
                Some(former) => former.scope,
                // The store has the error.
                None => MemoryScope::new(MemoryScopeKind::Global, ""),
            },
            (None, None, None) => {
                return Err(wrong("scope", "is missing; pass `scope` or `session`"));
            }
            (Some(_), Some(_), _) => {
                return Err(wrong("scope", "is not the only one; pass `scope` or `session`"));
            }
        };
        check_scope("scope", &scope)?;
        let now = self.parts.clock.now_ms();
        let fact = MemoryFact {
            id: self.parts.clock.new_id(),
            entity: new.entity,
            r#type: new.r#type,
            content: new.content,
            scope,
            source: new.source,
            confidence,
            valid_from: new.valid_from.unwrap_or(now),
            valid_to: None,
            superseded_by: None,
            created_at: now,
        };
        let mut input = input(self.without_keys(fact));
        if let Some(Superseded { id, within }) = supersedes {
            input.supersedes = Some(id);
            if let Some(session) = within {
                let identity = self.parts.store.identity_of(session).await?;
                input.within = Some(self.parts.options.scopes.scope_of(&identity));
            }
        }
        let stored = self.parts.store.store_fact(Box::new(input)).await?;
        self.chunk_written.notify_one();
        Ok(stored)
    }

    /// Facts in the order in which they were stored.
    pub(crate) async fn facts(
        &self,
        filter: FactFilter,
    ) -> Result<Page<MemoryFact, i64>, EngineError> {
        let scopes =
            self.scopes(filter.session.as_deref(), filter.scopes.clone(), filter.all).await?;
        Ok(self.parts.store.facts(filter, scopes).await?)
    }

    /// Forgets for good.
    pub(crate) async fn forget(
        &self,
        mut options: ForgetOptions,
    ) -> Result<MemoryForgotten, EngineError> {
        let named = [&options.id, &options.entity, &options.turn_id, &options.session];
        if named.iter().filter(|it| it.is_some()).count() != 1 {
            let message =
                "is not one thing; pass exactly one of `id`, `entity`, `turnId` and `session`";
            return Err(wrong("options", message));
        }
        if let Some(session) = options.within.take() {
            if options.scopes.is_some() {
                return Err(wrong("within", "is not the only one; pass `within` or `scopes`"));
            }
            if options.turn_id.is_some() || options.session.is_some() {
                return Err(wrong("within", "is for facts; pass `id` or `entity` with it"));
            }
            let identity = self.parts.store.identity_of(session).await?;
            options.scopes = Some(vec![self.parts.options.scopes.scope_of(&identity)]);
        }
        Ok(self.parts.store.forget(options).await?)
    }

    /// Stores the facts of an export. Those that are there or were forgotten are left out.
    pub(crate) async fn import(&self, import: FactImport) -> Result<ImportedFacts, EngineError> {
        for (at, fact) in import.facts.iter().enumerate() {
            let checked =
                check_fact(&fact.entity, &fact.r#type, fact.content.get(), fact.confidence)
                    .and_then(|()| check_scope("scope", &fact.scope))
                    .and_then(|()| check_name("id", &fact.id, MOST_ID));
            checked.map_err(|error| {
                let field = error.field.unwrap_or_default();
                EngineError { field: Some(format!("facts[{at}].{field}")), ..error }
            })?;
        }
        let mut done = ImportedFacts::default();
        let store = &self.parts.store;
        for fact in import.facts {
            let known = store.fact(fact.id.clone()).await?.is_some();
            if known || store.is_forgotten(fact.id.clone()).await? {
                done.skipped += 1;
                continue;
            }
            let id = fact.id.clone();
            let fact = self.without_keys(fact);
            let stored = store.store_fact(Box::new(input(fact))).await?;
            if stored.id == id {
                done.facts += 1;
            } else {
                done.skipped += 1;
            }
        }
        self.chunk_written.notify_one();
        Ok(done)
    }
}

/// A fact with the texts that are searched.
pub(super) fn input(fact: MemoryFact) -> FactInput {
    let text = fact_text(&fact.entity, &fact.r#type, fact.content.get());
    let texts = chunks(&text, CHUNK_TOKENS).into_iter().map(ToOwned::to_owned).collect();
    FactInput { fact, texts, supersedes: None, within: None }
}
