//! The memory of an engine: indexes turns behind their commits, embeds chunks, searches, and keeps facts.
//!
//! `memory` decides, the store stores, an embedder embeds. It must never delay a turn, and never lose one: what is to be indexed is
//! stored.

mod embedder;
mod extraction_model;
mod extractor;
mod facts;
mod indexer;
mod observations;
mod options;
mod provider_embedder;
mod search;
mod secrets;
mod service;
mod spending;
mod vectors;

pub(crate) use embedder::{EmbedFailure, EmbedFuture, EmbedRequest, Embedded, Embedder};
pub(crate) use extraction_model::ExtractionModel;
pub(crate) use facts::{FactImport, Superseded};
pub(crate) use options::MemoryOptions;
pub(crate) use provider_embedder::ProviderEmbedder;
pub(crate) use service::{Memory, MemoryParts, OwnedMemory};
pub(crate) use spending::Spending;
