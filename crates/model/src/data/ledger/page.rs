//! Lists in pages: the limit of items, and the cursor of the next page, which is a key that the host can read.
//!
//! It must never let a list be requested whole.

use serde::{Deserialize, Deserializer, Serialize};

/// How many items a page has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(u32);

impl Limit {
    /// The highest limit.
    pub const MAX: u32 = 1_000;

    /// One more than the limit: whether there is a next page.
    #[must_use]
    pub fn and_one(self) -> i64 {
        i64::from(self.0) + 1
    }

    /// The limit of items.
    #[must_use]
    pub fn items(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self(100)
    }
}

impl<'de> Deserialize<'de> for Limit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Option::<serde_json::Number>::deserialize(deserializer)? {
            None => Ok(Self::default()),
            Some(number) => match number.as_u64().and_then(|number| u32::try_from(number).ok()) {
                Some(limit) if (1..=Self::MAX).contains(&limit) => Ok(Self(limit)),
                Some(_) | None => Err(serde::de::Error::custom(format!(
                    "`{number}` is not a page's length; pass 1 to {}",
                    Self::MAX
                ))),
            },
        }
    }
}

/// Which part of a list.
#[derive(Debug, Clone, Default, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PageOptions {
    /// The `next` of the previous page.
    #[serde(default)]
    pub after: Option<String>,
    /// The limit of items: 1 to 1,000. Default 100.
    #[serde(default)]
    #[cfg_attr(feature = "testing", ts(as = "Option<u32>"))]
    pub limit: Limit,
}

/// A part of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Page<T, After = String> {
    /// The items in order.
    pub items: Vec<T>,
    /// The `after` of the next page: the key of the last item. Null where the list ends.
    pub next: Option<After>,
}

impl<T, After> Page<T, After> {
    /// A page without items.
    #[must_use]
    pub fn empty() -> Self {
        Self { items: Vec::new(), next: None }
    }

    /// A page of the items read, each with its key; one more than the limit means that there is a next page.
    #[must_use]
    pub fn cut(mut read: Vec<(After, T)>, limit: Limit) -> Self {
        let more = read.len() > limit.items();
        read.truncate(limit.items());
        let mut next = None;
        let items = read
            .into_iter()
            .map(|(key, item)| {
                next = Some(key);
                item
            })
            .collect();
        Self { items, next: next.filter(|_| more) }
    }
}

#[cfg(test)]
mod tests {
    use crate::PageOptions;

    #[test]
    fn a_page_has_1_to_1000_items_and_a_filter_only_the_fields_it_has() {
        for (json, wrong) in [
            (r#"{"limit": 0}"#, "1 to 1000"),
            (r#"{"limit": 1001}"#, "1 to 1000"),
            (r#"{"limit": 1.5}"#, "1 to 1000"),
            (r#"{"limit": -1}"#, "1 to 1000"),
            (r#"{"limt": 1}"#, "unknown field `limt`"),
            (r#"{"after": 1}"#, "expected a string"),
        ] {
            let error = serde_json::from_str::<PageOptions>(json).unwrap_err().to_string();
            assert!(error.contains(wrong), "{json}: {error}");
        }
    }
}
