//! Interrupted turns for JavaScript: lists, resumes and discards them.
//!
//! It must never decide the outcome of a turn, or read on the JavaScript thread.

use std::sync::Arc;

use napi::Result;
use napi_derive::napi;

use super::engine::{Begin, NativeEngine};
use super::errors::js_error;
use super::input::{CrossingContext, KnownHistory, RunFlags};
use super::reply::json;

/// The position from which an interrupted turn is resumed.
/// @internal
#[napi(object)]
pub struct ResumePoint {
    /// Its id.
    pub turn: String,
    /// The number of its newest stored event; 0 for none.
    pub last_event: u32,
}

#[napi]
impl NativeEngine {
    /// Lists the interrupted turns as a JSON array; answers request `id`.
    #[napi(catch_unwind)]
    pub fn recover(&self, id: u32) {
        let engine = Arc::clone(self.engine());
        self.answer(id, async move { json(&engine.recover().await?) });
    }

    /// The stored context of an interrupted turn as JSON; answers request `id`.
    #[napi(catch_unwind)]
    pub fn interrupted_context(&self, id: u32, turn: String) {
        let engine = Arc::clone(self.engine());
        self.answer(id, async move { engine.interrupted_context(&turn).await });
    }

    /// Resumes an interrupted turn as run number `run`, after the last event of `from`; the other arguments are those of `run`.
    #[napi(catch_unwind)]
    pub fn resume(
        &self,
        run: u32,
        from: ResumePoint,
        context: String,
        known: Option<KnownHistory>,
        flags: u32,
    ) -> Result<Option<i64>> {
        self.hub().expect_drain();
        let resumed = Begin::Resumed(from.turn, u64::from(from.last_event), None);
        let crossing = CrossingContext { json: context, known };
        self.start(run, resumed, &crossing, RunFlags(flags)).map_err(|error| js_error(&error))
    }

    /// Closes an interrupted turn as failed; answers request `id`.
    #[napi(catch_unwind)]
    pub fn discard(&self, id: u32, turn: String) {
        let engine = Arc::clone(self.engine());
        self.answer(id, async move {
            engine.discard(&turn).await?;
            Ok("null".to_owned())
        });
    }
}
