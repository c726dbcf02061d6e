//! The contexts of JavaScript: read, with the beginning of their history that crossed before.
//!
//! It must never start anything.

use super::engine::NativeEngine;
use super::given_histories::CrossingContext;
use base::error::EngineError;
use model::{AssembledContext, Defaults, GivenHistory, continue_context, repair_surrogates};

/// A context, and its history where that is to be stored.
type ReadContext = (AssembledContext, Option<GivenHistory>);

impl NativeEngine {
    /// Reads a context whose history continues `before`. A lone surrogate half, which JavaScript strings may hold, becomes
    /// U+FFFD.
    pub(super) fn context(
        &self,
        json: &str,
        before: GivenHistory,
    ) -> std::result::Result<AssembledContext, EngineError> {
        let repaired = repair_surrogates(json.as_bytes());
        let json = std::str::from_utf8(&repaired).unwrap_or(json);
        self.with_defaults(|defaults| continue_context(json, before, defaults))
            .map_err(EngineError::context)
    }

    /// Reads a context, and gives it with its history where that is to be stored. `None` where the beginning of its
    /// history is not there any more.
    pub(super) fn read(
        &self,
        crossing: &CrossingContext,
    ) -> std::result::Result<Option<ReadContext>, EngineError> {
        let Some(known) = &crossing.known else {
            let context = self.context(&crossing.json, GivenHistory::default())?;
            return Ok(Some((context, None)));
        };
        let Some(before) = self.given.beginning(known) else { return Ok(None) };
        let context = self.context(&crossing.json, before)?;
        let history = context.history.clone();
        Ok(Some((context, history)))
    }

    /// Stores the history of a context that was accepted; 0 where there is none to be stored.
    pub(super) fn store_history(&self, history: Option<GivenHistory>) -> i64 {
        history.map_or(0, |history| self.given.store(history))
    }

    /// Reads what a host passes, with ids and times of the engine's clock for those that it left out.
    pub(super) fn with_defaults<T>(&self, read: impl FnOnce(&mut Defaults<'_>) -> T) -> T {
        let mut new_id = || self.clock.new_id();
        read(&mut Defaults { new_id: &mut new_id, now_ms: self.clock.now_ms() })
    }
}
