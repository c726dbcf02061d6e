//! The option `memory` of an engine. It must never accept an unknown field.

use serde::Deserialize;
use serde_json::value::RawValue;

use memory::scope::ScopePolicy;
use model::{InputError, MemoryScopeKind, VectorSearch, typed};

/// The most texts of one call of an embedder.
const MOST_BATCH: usize = 2_048;
const BATCH: usize = 64;
/// The most milliseconds of one call.
const TIMEOUT_MS: u64 = 30_000;
const EXTRACT_TIMEOUT_MS: u64 = 60_000;
const HALF_LIFE_DAYS: f64 = 30.0;
const DAY_MS: f64 = 86_400_000.0;
/// The most dimensions: PostgreSQL indexes no more.
const MOST_DIMENSIONS: u32 = 4_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fields {
    #[serde(default)]
    embedder: Option<EmbedderFields>,
    #[serde(default)]
    scope: Option<MemoryScopeKind>,
    #[serde(default)]
    owners: Vec<String>,
    #[serde(default)]
    half_life_days: Option<f64>,
    #[serde(default)]
    episodic: Option<bool>,
    #[serde(default)]
    summaries: Option<bool>,
    #[serde(default)]
    observations: Vec<String>,
    #[serde(default)]
    facts: FactFields,
    #[serde(default)]
    vectors: VectorSearch,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FactFields {
    #[serde(default)]
    extract: Option<ExtractFields>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExtractFields {
    provider: String,
    model: String,
    #[serde(default)]
    budget: ExtractionBudget,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// What extraction may use on a UTC day: no call begins once it is used up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ExtractionBudget {
    #[serde(default)]
    pub(crate) max_tokens: Option<u64>,
    /// US dollars.
    #[serde(default)]
    pub(crate) max_cost: Option<f64>,
}

/// The model that extracts facts.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExtractOptions {
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) budget: ExtractionBudget,
    /// The time of one call.
    pub(crate) timeout_ms: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct EmbedderFields {
    #[serde(default)]
    provider: Option<String>,
    model: String,
    #[serde(default)]
    dimensions: Option<u32>,
    #[serde(default)]
    batch: Option<usize>,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

/// How an embedder is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EmbedderOptions {
    /// The provider of the engine and its model; `None` for a function of the host.
    pub(crate) provider: Option<(String, String)>,
    /// Its name; vectors of another name are never compared with its own.
    pub(crate) model: String,
    /// The dimensions of its vectors; `None`: those of the first one.
    pub(crate) dimensions: Option<u32>,
    /// The texts of one call.
    pub(crate) batch: usize,
    /// The time of one call.
    pub(crate) timeout_ms: u64,
}

/// The option `memory`.
#[derive(Debug, Clone)]
pub(crate) struct MemoryOptions {
    pub(crate) embedder: Option<EmbedderOptions>,
    pub(crate) scopes: ScopePolicy,
    /// After this time half of what age costs is lost.
    pub(crate) half_life_ms: f64,
    /// Whether turns are indexed.
    pub(crate) episodic: bool,
    /// Whether the summaries of compactions are.
    pub(crate) summaries: bool,
    /// The tools whose results are stored as facts; a name may end with `*`.
    pub(crate) observations: Vec<String>,
    /// How vectors are searched, where the ledger has a choice.
    pub(crate) vectors: VectorSearch,
    /// The model that extracts facts from turns.
    pub(crate) extract: Option<ExtractOptions>,
}

impl MemoryOptions {
    /// Reads the option; `None` for an engine without a memory.
    ///
    /// # Errors
    /// The first field that is wrong, by its path.
    pub(crate) fn parse(raw: Option<&RawValue>) -> Result<Option<Self>, InputError> {
        let fields: Fields = match raw.map(RawValue::get) {
            None | Some("null" | "false") => return Ok(None),
            Some("true") => typed("memory", &empty())?,
            Some(_) => typed("memory", raw.unwrap_or(&empty()))?,
        };
        let half_life_days = fields.half_life_days.unwrap_or(HALF_LIFE_DAYS);
        if !(half_life_days > 0.0 && half_life_days.is_finite()) {
            let message = format!("`{half_life_days}` is no time; pass days, such as 30");
            return Err(InputError::new("memory.halfLifeDays", message));
        }
        Ok(Some(Self {
            embedder: fields.embedder.map(EmbedderOptions::of).transpose()?,
            scopes: ScopePolicy { scope: fields.scope, owners: fields.owners },
            half_life_ms: half_life_days * DAY_MS,
            episodic: fields.episodic.unwrap_or(true),
            summaries: fields.summaries.unwrap_or(true),
            observations: fields.observations,
            vectors: fields.vectors,
            extract: fields.facts.extract.map(ExtractOptions::of).transpose()?,
        }))
    }
}

fn empty() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_default()
}

impl ExtractOptions {
    fn of(fields: ExtractFields) -> Result<Self, InputError> {
        let at = |field: &str, message: String| {
            Err(InputError::new(format!("memory.facts.extract.{field}"), message))
        };
        let ExtractFields { provider, model, budget, timeout_ms } = fields;
        if model.is_empty() || model.len() > 256 {
            return at("model", "is not the name of a model; pass 1 to 256 bytes".to_owned());
        }
        if let Some(given) = budget.max_cost.filter(|it| !(it.is_finite() && *it >= 0.0)) {
            let message = format!("`{given}` is no amount of US dollars; pass 0 or more");
            return at("budget.maxCost", message);
        }
        let timeout_ms = timeout_ms.unwrap_or(EXTRACT_TIMEOUT_MS);
        if timeout_ms == 0 {
            return at("timeoutMs", "`0` leaves no time; pass at least 1".to_owned());
        }
        Ok(Self { provider, model, budget, timeout_ms })
    }
}

impl EmbedderOptions {
    fn of(fields: EmbedderFields) -> Result<Self, InputError> {
        let at = |field: &str, message: String| {
            Err(InputError::new(format!("memory.embedder.{field}"), message))
        };
        if fields.model.is_empty() || fields.model.len() > 256 {
            return at("model", "is not the name of a model; pass 1 to 256 bytes".to_owned());
        }
        if let Some(given) = fields.dimensions.filter(|it| !(1..=MOST_DIMENSIONS).contains(it)) {
            return at(
                "dimensions",
                format!("`{given}` is not usable; pass 1 to {MOST_DIMENSIONS}"),
            );
        }
        let batch = fields.batch.unwrap_or(BATCH);
        if !(1..=MOST_BATCH).contains(&batch) {
            return at("batch", format!("`{batch}` is not usable; pass 1 to {MOST_BATCH}"));
        }
        let timeout_ms = fields.timeout_ms.unwrap_or(TIMEOUT_MS);
        if timeout_ms == 0 {
            return at("timeoutMs", "`0` leaves no time; pass at least 1".to_owned());
        }
        let (dimensions, own) = (fields.dimensions, fields.model);
        let (model, provider) = match fields.provider {
            // Two providers may have models of one name.
            Some(provider) => (format!("{provider}/{own}"), Some((provider, own))),
            None => (own, None),
        };
        Ok(Self { provider, model, dimensions, batch, timeout_ms })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{EmbedderOptions, MemoryOptions};

    fn parse(json: &str) -> Result<Option<MemoryOptions>, String> {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        MemoryOptions::parse(Some(&raw))
            .map_err(|error| format!("{}: {}", error.path, error.message))
    }

    #[test]
    fn an_engine_has_a_memory_only_if_it_is_asked_for_one() {
        assert!(MemoryOptions::parse(None).unwrap().is_none());
        assert!(parse("false").unwrap().is_none() && parse("null").unwrap().is_none());
        assert!(parse("true").unwrap().unwrap().episodic);
        assert!(parse(r#"{"episodic":false}"#).unwrap().is_some_and(|it| !it.episodic));
    }

    #[test]
    fn an_embedder_has_limits_and_a_wrong_field_is_named() {
        let embedder = parse(r#"{"embedder":{"model":"m"}}"#).unwrap().unwrap().embedder;
        let usual = EmbedderOptions {
            provider: None,
            model: "m".to_owned(),
            dimensions: None,
            batch: 64,
            timeout_ms: 30_000,
        };
        assert_eq!(embedder, Some(usual.clone()));
        let named = parse(r#"{"embedder":{"provider":"p","model":"m"}}"#).unwrap().unwrap();
        let provider = Some(("p".to_owned(), "m".to_owned()));
        assert_eq!(
            named.embedder,
            Some(EmbedderOptions { provider, model: "p/m".to_owned(), ..usual })
        );
        for (json, path) in [
            (r#"{"embedder":{"model":""}}"#, "memory.embedder.model: "),
            (r#"{"embedder":{"model":"m","dimensions":0}}"#, "memory.embedder.dimensions: "),
            (r#"{"embedder":{"model":"m","batch":0}}"#, "memory.embedder.batch: "),
            (r#"{"embedder":{"model":"m","timeoutMs":0}}"#, "memory.embedder.timeoutMs: "),
            (r#"{"halfLifeDays":0}"#, "memory.halfLifeDays: "),
            (r#"{"scope":"all"}"#, "memory.scope: `all` is not known, expected one of "),
            (r#"{"facts":{"extract":{"provider":"p"}}}"#, "memory.facts.extract.model: "),
            (
                r#"{"facts":{"extract":{"provider":"p","model":""}}}"#,
                "memory.facts.extract.model: ",
            ),
            (
                r#"{"facts":{"extract":{"provider":"p","model":"m","timeoutMs":0}}}"#,
                "memory.facts.extract.timeoutMs: ",
            ),
            (
                r#"{"facts":{"extract":{"provider":"p","model":"m","budget":{"maxCost":-1}}}}"#,
                "memory.facts.extract.budget.maxCost: ",
            ),
            (r#"{"facts":{"learn":true}}"#, "memory.facts.learn: unknown field"),
            (r#"{"depth":1}"#, "memory.depth: unknown field `depth`"),
        ] {
            let error = parse(json).unwrap_err();
            assert!(error.starts_with(path), "{json}: {error}");
        }
    }
}
