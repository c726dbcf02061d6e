//! Auth profiles for JavaScript: reads and resets their state.
//!
//! It must never show a key.

use std::sync::Arc;

use napi_derive::napi;

use super::engine::NativeEngine;
use super::reply::json;

#[napi]
impl NativeEngine {
    /// The state of the auth profiles as a JSON array; answers request `id`.
    #[napi(catch_unwind)]
    pub fn profiles(&self, id: u32) {
        let engine = Arc::clone(self.engine());
        self.answer(id, async move { json(&engine.profiles().await) });
    }

    /// Resets the failures of an auth profile; answers request `id`.
    #[napi(catch_unwind)]
    pub fn reset_profile(&self, id: u32, profile: String) {
        let engine = Arc::clone(self.engine());
        self.answer(id, async move {
            engine.reset_profile(&profile).await?;
            Ok("null".to_owned())
        });
    }
}
