//! What is kept of how a model counts tokens, and where.
//!
//! It must never hold what was counted: no prompt, no session.

use crate::JournalFuture;

/// How a model's count stands to the engine's estimate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptRatio {
    /// The provider's name.
    pub provider: String,
    /// The model's id.
    pub model: String,
    /// Thousandths.
    pub per_mille: u32,
    /// From so many answers.
    pub samples: u32,
    /// Unix milliseconds.
    pub updated_at: i64,
}

/// Where ratios are kept; the ledger implements it.
pub trait RatioStore: Send + Sync {
    /// All that are kept.
    fn ratios(&self) -> JournalFuture<'static, Vec<KeptRatio>>;

    /// Keeps one, over the one before. Handed over when it is called: dropping the future undoes nothing.
    fn keep_ratio(&self, ratio: KeptRatio) -> JournalFuture<'static, ()>;
}
