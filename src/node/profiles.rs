//! Auth profiles for JavaScript: their state, and forgetting it.
//!
//! It must never show a key.

use std::sync::Arc;

use napi_derive::napi;

use super::engine::NativeEngine;
use base::error::{EngineError, ErrorCode};

#[napi]
impl NativeEngine {
    /// The state of the auth profiles as a JSON array; answers request `id`.
    #[napi(catch_unwind)]
    pub fn profiles(&self, id: u32) {
        let engine = Arc::clone(self.engine());
        self.answer(id, async move {
            serde_json::to_string(&engine.profiles().await)
                .map_err(|error| EngineError::new(ErrorCode::Internal, error.to_string()))
        });
    }

    /// Forgets the failures of an auth profile; answers request `id`.
    #[napi(catch_unwind)]
    pub fn reset_profile(&self, id: u32, profile: String) {
        let engine = Arc::clone(self.engine());
        self.answer(id, async move {
            engine.reset_profile(&profile).await?;
            Ok("null".to_owned())
        });
    }
}
