//! Approvals for JavaScript: lists them, decides about them, and provides results.
//!
//! It must never decide itself, or read on the JavaScript thread.

use std::sync::Arc;

use napi::Result;
use napi_derive::napi;
use serde::Deserialize;

use super::engine::NativeEngine;
use super::errors::js_error;
use super::reply::json;
use base::error::EngineError;
use model::{ApprovalFilter, InputError, from_json, repair_text};

/// A decision, as JavaScript passes it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", tag = "verdict", rename_all_fields = "camelCase")]
enum Decision {
    Approve {
        id: String,
        /// JSON text.
        params: Option<String>,
        by: Option<String>,
    },
    Deny {
        id: String,
        reason: String,
        by: Option<String>,
    },
    Provide {
        call_id: String,
        /// The JSON of an answer.
        answer: String,
        by: Option<String>,
    },
}

fn arguments<T: serde::de::DeserializeOwned>(text: &str) -> Result<T> {
    from_json(&repair_text(text)).map_err(|error: InputError| js_error(&EngineError::option(error)))
}

#[napi]
impl NativeEngine {
    /// Lists approvals; answers request `id` with a page.
    #[napi(catch_unwind)]
    pub fn approvals(&self, id: u32, filter: String) -> Result<()> {
        let filter: ApprovalFilter = arguments(&filter)?;
        let engine = Arc::clone(self.engine());
        self.answer(id, async move { json(&engine.approvals(filter).await?) });
        Ok(())
    }

    /// Decides about an approval; answers request `id` with the approval.
    #[napi(catch_unwind)]
    pub fn decide(&self, id: u32, decision: String) -> Result<()> {
        let decision: Decision = arguments(&decision)?;
        let engine = Arc::clone(self.engine());
        self.answer(id, async move {
            let decided = match decision {
                Decision::Approve { id, params, by } => engine.approve(id, params, by).await,
                Decision::Deny { id, reason, by } => engine.deny(id, reason, by).await,
                Decision::Provide { call_id, answer, by } => {
                    let answer = repair_text(&answer).into_owned();
                    engine.provide_tool_result(call_id, answer, by).await
                }
            };
            json(&decided?)
        });
        Ok(())
    }
}
