//! The stored ratios of how models count tokens, and their store.
//!
//! It must never hold a prompt or the name of a session.

use crate::PortFuture;

/// The ratio of a model's count to the engine's estimate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenRatio {
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

/// The store of ratios; the ledger implements it.
pub trait RatioStore: Send + Sync {
    /// All stored ratios.
    fn ratios(&self) -> PortFuture<'static, Vec<TokenRatio>>;

    /// Replaces a stored ratio. It is submitted when it is called: dropping the future does not undo it.
    fn store_ratio(&self, ratio: TokenRatio) -> PortFuture<'static, ()>;
}
