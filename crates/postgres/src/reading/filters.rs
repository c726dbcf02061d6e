//! What the filters of several lists share: the metadata that rows must contain, and the error of a cursor.
//!
//! It must never read a row.

use model::{MetadataFilter, StorageError, StorageErrorKind};

/// The object that metadata must contain: a JSON text.
pub(crate) fn metadata_of(filter: &MetadataFilter) -> String {
    let parts = filter.conditions().iter();
    let parts: Vec<String> =
        parts.map(|(key, value)| format!("\"{}\":{value}", key.as_str())).collect();
    format!("{{{}}}", parts.join(","))
}

/// The error for a cursor that no page returned.
pub(crate) fn no_cursor(field: &str, after: &str) -> StorageError {
    let message = format!("`{field}`: `{after}` is not the `next` of a page");
    StorageError::new(StorageErrorKind::InvalidQuery, message).at(field)
}
