//! The codes of a ledger's vectors that this process has read, by model.
//!
//! It must never read a vector by itself.

use std::collections::HashMap;

use memory::vectors::codes::Codes;

/// What a search knows of a vector.
pub(crate) struct Label {
    pub(crate) n: i64,
    pub(crate) chunk: i64,
    pub(crate) scope: i64,
    pub(crate) kind: &'static str,
    pub(crate) created_at: i64,
}

/// The codes of one model.
pub(crate) struct ModelCodes {
    pub(crate) codes: Codes<Label>,
    pub(crate) last: i64,
    pub(crate) generation: i64,
}

/// The codes of all models that were searched.
#[derive(Default)]
pub(crate) struct CodeCache(pub(crate) tokio::sync::Mutex<HashMap<i64, ModelCodes>>);
