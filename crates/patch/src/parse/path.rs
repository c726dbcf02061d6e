//! Which paths a patch may name (docs/rules/patches.md#paths). It must never look at a file system: the workspace opens the
//! files, and decides what is in it.

use crate::error::{Problem, excerpt};

/// The path in its one spelling: relative, without `.`, `..` and empty components.
pub(super) fn checked(path: &[u8]) -> Result<String, Problem> {
    let refused = |reason| Problem::Path { path: excerpt(path), reason };
    let Ok(text) = std::str::from_utf8(path) else {
        return Err(refused("is not UTF-8"));
    };
    if text.trim().is_empty() {
        return Err(refused("is empty"));
    }
    if text.chars().any(char::is_control) {
        return Err(refused("has a control character"));
    }
    if text.starts_with('/') {
        return Err(refused("is absolute: write it relative to the workspace"));
    }
    if text.ends_with('/') {
        return Err(refused("names a directory"));
    }
    let mut components = Vec::new();
    for component in text.split('/') {
        match component {
            "" | "." => {}
            ".." => return Err(refused("has `..`: write it relative to the workspace")),
            other => components.push(other),
        }
    }
    if components.is_empty() {
        return Err(refused("names a directory"));
    }
    Ok(components.join("/"))
}
