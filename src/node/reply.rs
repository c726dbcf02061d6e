//! Answers to requests of JavaScript that belong to no run.
//!
//! It must never send an answer that no JavaScript string can hold.

use std::sync::Arc;

use serde::Serialize;

use super::errors::error_json;
use super::hub::HubCore;
use crate::engine::RECORD_BYTES;
use base::error::{EngineError, ErrorCode};

/// The JSON of an answer, or its error.
pub(super) type Answer = Result<String, EngineError>;

/// A value as the JSON of an answer.
pub(super) fn json(value: &impl Serialize) -> Answer {
    serde_json::to_string(value)
        .map_err(|error| EngineError::new(ErrorCode::Internal, error.to_string()))
}

/// Answers request `id` of this environment with JSON text, or with an error.
pub(super) fn reply(hub: &Arc<HubCore>, id: u32, answer: Answer) {
    let json = match answer {
        Ok(value) if value.len() > RECORD_BYTES => {
            let message = format!(
                "the answer is `{}` bytes long, and at most `{RECORD_BYTES}` can be delivered; request less at once",
                value.len()
            );
            let error = EngineError::new(ErrorCode::ResultTooLarge, message);
            format!("{{\"id\":{id},\"error\":{}}}", error_json(&error))
        }
        Ok(value) => format!("{{\"id\":{id},\"ok\":{value}}}"),
        Err(error) => format!("{{\"id\":{id},\"error\":{}}}", error_json(&error)),
    };
    hub.reply(&json);
}
