//! Values of JSON columns. It must never accept a text that is not JSON.

use crate::sqlite::error::{Stored, damaged};

/// The value of a JSON column of the row `of`.
pub(crate) fn json<T: serde::de::DeserializeOwned>(
    text: Option<&str>,
    of: &str,
) -> Stored<Option<T>> {
    text.map(|text| {
        serde_json::from_str(text)
            .map_err(|_| damaged(&format!("a JSON column of `{of}` cannot be read")))
    })
    .transpose()
}
