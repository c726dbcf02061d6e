//! Runs in the ledger for JavaScript: where one is, lists of them, and the result of one that has ended.
//!
//! It must never wait on the JavaScript thread: a result is answered when there is one.

use napi::Result;
use napi_derive::napi;

use super::engine::NativeEngine;
use super::errors::js_error;
use super::reply::json;
use base::error::{EngineError, ErrorCode};
use model::{AgentResult, InputError, RunFilter, StorageErrorKind, from_json, session_label};

#[napi]
impl NativeEngine {
    /// Where a run is, as the JSON of a `RunInfo`; answers request `id`.
    #[napi(catch_unwind)]
    pub fn run_info(&self, id: u32, run: String) -> Result<()> {
        let ledger = self.known_ledger().map_err(|error| js_error(&error))?;
        self.answer(id, async move { json(&ledger.read.run_info(&run).await?) });
        Ok(())
    }

    /// The runs that match `filter`, the JSON of a `RunFilter`; answers request `id`.
    #[napi(catch_unwind)]
    pub fn runs(&self, id: u32, filter: String) -> Result<()> {
        let ready = self.known_ledger().and_then(|ledger| {
            let code = ErrorCode::Storage(StorageErrorKind::InvalidQuery);
            let filter: RunFilter = from_json(&filter).map_err(|error: InputError| {
                let path = format!("filter.{}", error.path);
                EngineError::at(code, InputError { path, ..error })
            })?;
            if let Some(label) = &filter.session {
                session_label("filter.session", label)
                    .map_err(|error| EngineError::at(ErrorCode::InvalidLabel, error))?;
            }
            Ok((ledger, filter))
        });
        let (ledger, filter) = ready.map_err(|error| js_error(&error))?;
        self.answer(id, async move { json(&ledger.read.runs(filter).await?) });
        Ok(())
    }

    /// The result of a run, once it has ended, as the JSON of an `AgentResult`; answers request `id`, which can be cancelled.
    #[napi(catch_unwind)]
    pub fn result_of(&self, id: u32, run: String) -> Result<()> {
        let ledger = self.known_ledger().map_err(|error| js_error(&error))?;
        self.wait(id, async move { json(&AgentResult::from(ledger.read.ended_run(run).await?)) });
        Ok(())
    }
}
