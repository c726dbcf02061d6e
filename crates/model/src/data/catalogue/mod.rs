//! The model catalogue: windows, limits, capabilities and prices, by provider and model name.
//!
//! Owns the built-in facts (`models.json`, made by `scripts/catalogue/update.mjs`, in the binary as an LZ4 block), what the host declares over them,
//! and how a name finds its model. It must never guess a price: a model found under another provider or under another
//! date has none.

use std::sync::{Arc, LazyLock};

use serde::Deserialize;

use crate::{Api, InputError};

mod declare;
mod filter;
mod info;
mod names;
#[cfg(test)]
mod tests;
mod thinking;

pub use declare::ModelDeclaration;
pub use filter::ModelFilter;
pub use info::{CostTier, Modality, ModelCost, ModelInfo};
pub use thinking::ThinkingCapability;

use names::{Name, alike, last_part};

/// `models.json`, packed: 20 KB of the binary and not 151. A test checks that it equals that file; `UPDATE_CATALOGUE=1`
/// writes it.
const PACKED: &[u8] = include_bytes!("models.json.lz4");

#[derive(Deserialize)]
struct DataFile {
    models: Vec<Arc<ModelInfo>>,
}

/// Parsed at the first look-up and not when the package loads. A test proves that the file parses, so the empty list
/// is never used.
static BUILTIN: LazyLock<Vec<Arc<ModelInfo>>> = LazyLock::new(|| {
    let unpacked = lz4_flex::decompress_size_prepended(PACKED).unwrap_or_default();
    serde_json::from_slice::<DataFile>(&unpacked).map(|data| data.models).unwrap_or_default()
});

/// The models of an engine. Cheap to create and to clone.
#[derive(Debug, Clone, Default)]
pub struct Catalogue {
    /// Sorted by provider and id, as the built-in list is.
    declared: Arc<Vec<Arc<ModelInfo>>>,
}

/// A model that was found, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct Resolution {
    /// Its entry. Requests contain the requested name, which may differ from `model.id`.
    pub model: Arc<ModelInfo>,
    /// How the name matched.
    pub matched: Matched,
}

/// How a name matched a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matched {
    /// By its own name.
    Exact,
    /// By another name of it.
    Alias,
    /// By the name without, or with, a date, `-latest` or a tag.
    Suffix,
    /// At another provider of the same API; without a price.
    OtherProvider,
}

impl Catalogue {
    /// The built-in models.
    #[must_use]
    pub fn builtin() -> Self {
        Self::default()
    }

    /// The built-in models with the host's declarations over them.
    ///
    /// # Errors
    /// The first declaration that is wrong, by its path below `models`.
    pub fn with_declared(declarations: Vec<ModelDeclaration>) -> Result<Self, InputError> {
        let builtin = Self::builtin();
        let mut declared: Vec<Arc<ModelInfo>> = Vec::with_capacity(declarations.len());
        for (index, declaration) in declarations.into_iter().enumerate() {
            let path = format!("models[{index}]");
            let model = declaration.over(&builtin, &path)?;
            match find(&declared, &model.provider, &model.id) {
                Ok(_) => {
                    return Err(InputError::new(
                        path,
                        format!("declares `{}` a second time", model.id),
                    ));
                }
                Err(place) => declared.insert(place, Arc::new(model)),
            }
        }
        Ok(Self { declared: Arc::new(declared) })
    }

    /// The models that match `filter`, by provider and name; a declared model replaces the built-in one.
    #[must_use]
    pub fn list(&self, filter: &ModelFilter) -> Vec<Arc<ModelInfo>> {
        let overruled =
            |model: &&Arc<ModelInfo>| find(&self.declared, &model.provider, &model.id).is_ok();
        let builtin = BUILTIN.iter().filter(|model| !overruled(model));
        let mut models: Vec<Arc<ModelInfo>> = builtin
            .chain(self.declared.iter())
            .filter(|model| filter.lets_through(model))
            .map(Arc::clone)
            .collect();
        models.sort_by(|a, b| (&a.provider, &a.id).cmp(&(&b.provider, &b.id)));
        models
    }

    /// Finds a provider's model: by name, by alias, or by name without date and tags. A declared model wins.
    #[must_use]
    pub fn resolve(&self, provider: &str, id: &str) -> Option<Resolution> {
        let lists = [self.declared.as_slice(), BUILTIN.as_slice()];
        let exact = lists
            .iter()
            .find_map(|list| list.get(find(list, provider, id).ok()?))
            .map(|model| Resolution { model: Arc::clone(model), matched: Matched::Exact });
        let models = lists.map(|list| of_provider(list, provider));
        exact
            .or_else(|| {
                let model = models.iter().find_map(|list| by_alias(list, id))?;
                Some(Resolution { model: Arc::clone(model), matched: Matched::Alias })
            })
            .or_else(|| models.iter().find_map(|list| by_suffix(list, id)))
    }

    /// As [`Self::resolve`]; if the catalogue does not have the provider, or not this model of it, the entry of another
    /// provider of the same API is used, the smallest window first. Such a model has no price.
    #[must_use]
    pub fn resolve_for(&self, provider: &str, api: Api, id: &str) -> Option<Resolution> {
        self.resolve(provider, id).or_else(|| {
            let model = self.smallest(api, |name| same_model(name, id)).or_else(|| {
                let requested = Name::of(last_part(id)).base;
                self.smallest(api, |name| alike(Name::of(last_part(name)).base, requested))
            })?;
            let model =
                ModelInfo { provider: provider.to_owned(), cost: None, ..ModelInfo::clone(model) };
            Some(Resolution { model: Arc::new(model), matched: Matched::OtherProvider })
        })
    }

    fn smallest(&self, api: Api, is_meant: impl Fn(&str) -> bool) -> Option<&Arc<ModelInfo>> {
        self.declared
            .iter()
            .chain(BUILTIN.iter())
            .filter(|model| model.answers(api) && names_of(model).any(&is_meant))
            .min_by_key(|model| (model.prompt_limit(), model.max_output_tokens))
    }
}

/// The index of a model in a sorted list, or where it would be.
fn find(list: &[Arc<ModelInfo>], provider: &str, id: &str) -> Result<usize, usize> {
    list.binary_search_by(|model| (model.provider.as_str(), model.id.as_str()).cmp(&(provider, id)))
}

fn of_provider<'a>(list: &'a [Arc<ModelInfo>], provider: &str) -> &'a [Arc<ModelInfo>] {
    let start = list.partition_point(|model| model.provider.as_str() < provider);
    let rest = list.get(start..).unwrap_or_default();
    let length = rest.partition_point(|model| model.provider == provider);
    rest.get(..length).unwrap_or_default()
}

fn names_of(model: &ModelInfo) -> impl Iterator<Item = &str> {
    std::iter::once(model.id.as_str()).chain(model.aliases.iter().map(String::as_str))
}

fn same_model(name: &str, requested: &str) -> bool {
    alike(name, requested) || alike(last_part(name), last_part(requested))
}

fn by_alias<'a>(models: &'a [Arc<ModelInfo>], id: &str) -> Option<&'a Arc<ModelInfo>> {
    models.iter().find(|model| model.aliases.iter().any(|alias| alias == id))
}

/// The undated model for a dated name, the newest snapshot for an undated one. A snapshot of another day has the limits
/// but not the price, and so does any model under a router's tag.
fn by_suffix(models: &[Arc<ModelInfo>], id: &str) -> Option<Resolution> {
    let requested = Name::of(id);
    let (model, date) = models
        .iter()
        .flat_map(|model| names_of(model).map(move |name| (model, Name::of(name))))
        .filter(|(_, name)| name.base == requested.base && !name.routed)
        .map(|(model, name)| (model, name.date))
        .max_by_key(|(_, date)| (*date == requested.date, date.is_none(), *date))?;
    let other_day = requested.date.is_some() && date.is_some() && date != requested.date;
    let model = if requested.routed || other_day {
        Arc::new(ModelInfo { cost: None, ..ModelInfo::clone(model) })
    } else {
        Arc::clone(model)
    };
    Some(Resolution { model, matched: Matched::Suffix })
}
