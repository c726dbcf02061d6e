//! The compiled tool sets of an engine, by their JSON text: brokers send the same tools with every run.
//!
//! Bounded. It must never return the set of another text.

use std::sync::{Arc, Mutex, PoisonError};

use xxhash_rust::xxh3::xxh3_64;

use super::ToolSet;
use model::{InputError, ToolDefinition};

/// The maximum number of cached sets.
const MAX_SETS: usize = 16;
/// The maximum bytes of cached text; compiled schemas grow with it.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// The least recently used sets are dropped first.
#[derive(Debug, Default)]
pub struct ToolSetCache {
    /// The most recently used first.
    sets: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    hash: u64,
    json: Box<str>,
    set: Arc<ToolSet>,
}

impl ToolSetCache {
    /// The set of `tools`, whose JSON text is `json`. A set that does not compile is not cached.
    ///
    /// # Errors
    /// See [`ToolSet::compile`].
    pub fn get_or_compile(
        &self,
        json: &str,
        tools: &[ToolDefinition],
    ) -> Result<Arc<ToolSet>, InputError> {
        let hash = xxh3_64(json.as_bytes());
        if let Some(set) = self.take(hash, json) {
            return Ok(set);
        }
        // Compiled outside the lock, so that no other run waits for it.
        let set = ToolSet::compile(tools)?;
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        sets.insert(0, Entry { hash, json: json.into(), set: Arc::clone(&set) });
        let mut bytes = 0;
        let fitting = sets
            .iter()
            .take(MAX_SETS)
            .take_while(|entry| {
                bytes += entry.json.len();
                bytes <= MAX_BYTES
            })
            .count();
        sets.truncate(fitting);
        Ok(set)
    }

    fn take(&self, hash: u64, json: &str) -> Option<Arc<ToolSet>> {
        let mut sets = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let at = sets.iter().position(|entry| entry.hash == hash && *entry.json == *json)?;
        let entry = sets.remove(at);
        let set = Arc::clone(&entry.set);
        sets.insert(0, entry);
        Some(set)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{MAX_SETS, ToolSetCache};

    #[test]
    fn the_same_text_is_compiled_once_and_the_least_recently_used_set_is_dropped() {
        let cache = ToolSetCache::default();
        let get = |json: &str| cache.get_or_compile(json, &[]).unwrap();
        let first = get("[0]");
        for n in 1..MAX_SETS {
            get(&format!("[{n}]"));
        }
        assert!(Arc::ptr_eq(&first, &get("[0]")));
        get("[more]");
        assert!(Arc::ptr_eq(&first, &get("[0]")));
        let texts: Vec<String> =
            cache.sets.lock().unwrap().iter().map(|entry| entry.json.to_string()).collect();
        assert_eq!(texts.len(), MAX_SETS);
        assert!(!texts.contains(&"[1]".to_owned()));
    }
}
