//! What is remembered of ended turns, and facts: chunks, their words and their vectors.
//!
//! An export of sessions has none of it, because turns are indexed anew and facts have an export of their own; salvage saves
//! facts and what was forgotten. It must never cut a text or call an embedder.

pub(crate) mod chunk_rows;
pub(crate) mod code_cache;
pub(crate) mod counts;
pub(crate) mod extraction_rows;
pub(crate) mod fact_rows;
pub(crate) mod find;
pub(crate) mod forget;
pub(crate) mod pending;
pub(crate) mod scope_rows;
pub(crate) mod secure;
pub(crate) mod turn_texts;
pub(crate) mod usage_rows;
pub(crate) mod vector_rows;
