//! The memory: turns to index, chunks with their words and vectors, facts, what is forgotten, what it has used.
//!
//! Its writes run one after the other over all processes. It must never rank across lists.

pub(crate) mod chunks;
pub(crate) mod code_cache;
pub(crate) mod codes;
pub(crate) mod counts;
pub(crate) mod facts;
pub(crate) mod find;
pub(crate) mod forget;
pub(crate) mod pgvector;
pub(crate) mod turns;
pub(crate) mod vectors;
