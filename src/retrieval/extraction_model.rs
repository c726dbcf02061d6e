//! The model that extracts facts, and how it is called. It must never be called by itself.

use super::options::ExtractOptions;
use super::spending::Spending;
use crate::engine::MemoryModelCall;

/// The model that extracts.
pub(crate) struct ExtractionModel {
    pub(crate) options: ExtractOptions,
    pub(crate) to: MemoryModelCall,
    pub(crate) spending: Spending,
}
