//! Reads the contexts that JavaScript passes, with the beginning of their history that was passed earlier.
//!
//! It must never start a run.

use super::super::engine::NativeEngine;
use super::given_histories::CrossingContext;
use base::error::EngineError;
use model::{AssembledContext, Defaults, GivenHistory, continue_context, repair_surrogates};

/// A context, and its history if that is to be stored.
type ReadContext = (AssembledContext, Option<GivenHistory>);

impl NativeEngine {
    /// Reads a context whose history continues `before`. A lone surrogate half, which JavaScript strings may contain,
    /// becomes U+FFFD.
    pub(in crate::node) fn context(
        &self,
        json: &str,
        before: GivenHistory,
    ) -> std::result::Result<AssembledContext, EngineError> {
        let repaired = repair_surrogates(json.as_bytes());
        let json = std::str::from_utf8(&repaired).unwrap_or(json);
        self.with_defaults(|defaults| continue_context(json, before, defaults))
            .map_err(EngineError::context)
    }

    /// Reads a context, and returns it with its history if that is to be stored. `None` if the beginning of its history is
    /// no longer stored.
    pub(in crate::node) fn read(
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

    /// Stores the history of an accepted context; 0 without one.
    pub(in crate::node) fn store_history(&self, history: Option<GivenHistory>) -> i64 {
        history.map_or(0, |history| self.given.store(history))
    }

    /// Reads a value of the host, with ids and times of the engine's clock for missing ones.
    pub(in crate::node) fn with_defaults<T>(&self, read: impl FnOnce(&mut Defaults<'_>) -> T) -> T {
        let mut new_id = || self.clock.new_id();
        read(&mut Defaults { new_id: &mut new_id, now_ms: self.clock.now_ms() })
    }
}
