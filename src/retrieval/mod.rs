//! The memory of an engine: indexes turns behind their commits, embeds chunks, searches, and keeps facts.
//!
//! `memory` decides, the store stores, an embedder embeds. It must never delay a turn, and never lose one: what is to be indexed is
//! stored.

mod embedder;
mod facts;
mod indexer;
mod observations;
mod options;
mod provider_embedder;
mod search;
mod service;
mod vectors;

pub(crate) use embedder::{EmbedFailure, EmbedFuture, EmbedRequest, Embedded, Embedder};
pub(crate) use facts::FactImport;
pub(crate) use options::MemoryOptions;
pub(crate) use provider_embedder::ProviderEmbedder;
pub(crate) use service::{Memory, MemoryParts, OwnedMemory};
