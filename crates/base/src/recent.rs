//! A map of a bounded number of entries and bytes, which drops the oldest first: what caches are made of.
//!
//! It must never hold more than its bounds.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Entry<V> {
    value: V,
    bytes: usize,
    used: u64,
}

struct Inner<K, V> {
    entries: HashMap<K, Entry<V>>,
    bytes: usize,
    clock: u64,
}

/// A bounded map. The entry that was put in first is dropped first.
pub struct Recent<K, V> {
    inner: Mutex<Inner<K, V>>,
    most: usize,
    most_bytes: usize,
}

impl<K: Clone + Eq + Hash, V> Recent<K, V> {
    /// At most so many entries, of so many bytes together.
    #[must_use]
    pub fn new(most: usize, most_bytes: usize) -> Self {
        let inner = Inner { entries: HashMap::new(), bytes: 0, clock: 0 };
        Self { inner: Mutex::new(inner), most, most_bytes }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K, V>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of an entry. It stays as old as it was.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        V: Clone,
    {
        self.lock().entries.get(key).map(|entry| entry.value.clone())
    }

    /// Drops all entries.
    pub fn clear(&self) {
        let mut inner = self.lock();
        inner.entries.clear();
        inner.bytes = 0;
    }

    /// Takes an entry out.
    pub fn take(&self, key: &K) -> Option<V> {
        self.lock().remove(key)
    }

    /// Replaces an entry. One that is larger than the bound of all together is not stored.
    pub fn put(&self, key: K, value: V, bytes: usize) {
        let mut inner = self.lock();
        inner.remove(&key);
        if bytes > self.most_bytes {
            return;
        }
        inner.clock += 1;
        let used = inner.clock;
        inner.bytes += bytes;
        inner.entries.insert(key, Entry { value, bytes, used });
        while inner.bytes > self.most_bytes || inner.entries.len() > self.most {
            let entries = inner.entries.iter();
            let oldest = entries.min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            inner.remove(&oldest);
        }
    }
}

impl<K: Eq + Hash, V> Inner<K, V> {
    fn remove(&mut self, key: &K) -> Option<V> {
        let entry = self.entries.remove(key)?;
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        Some(entry.value)
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn the_oldest_goes_first_by_number_and_by_bytes_and_what_is_too_large_is_not_stored() {
        let recent = Recent::new(2, 10);
        for (key, bytes) in [("a", 4), ("b", 4), ("a", 2), ("c", 2)] {
            recent.put(key, key, bytes);
        }
        assert_eq!(["a", "b", "c"].map(|key| recent.get(&key)), [Some("a"), None, Some("c")]);
        recent.put("d", "d", 8);
        assert_eq!(["a", "c", "d"].map(|key| recent.get(&key)), [None, Some("c"), Some("d")]);
        recent.put("d", "larger", 11);
        assert_eq!(recent.take(&"d"), None);
        assert_eq!(recent.take(&"c"), Some("c"));
        recent.put("e", "e", 10);
        assert_eq!(recent.get(&"e"), Some("e"), "what was taken out takes no room");
        recent.clear();
        recent.put("f", "f", 10);
        assert_eq!((recent.get(&"e"), recent.get(&"f")), (None, Some("f")));
    }
}
