//! A compiled JSON Schema that JavaScript holds. It must never keep a value that it has checked.

use base::error::EngineError;
use napi::Result;
use napi_derive::napi;

use super::errors::js_error;
use crate::tools::ResultSchema;

/// The schema of what a tool returns.
/// @internal
#[napi]
pub struct NativeResultSchema {
    schema: ResultSchema,
}

#[napi]
impl NativeResultSchema {
    /// Compiles the schema with this JSON text. Throws why it cannot be used.
    #[napi(constructor, catch_unwind)]
    pub fn new(json: String) -> Result<Self> {
        let schema = ResultSchema::compile(&json)
            .map_err(|why| js_error(&EngineError::new(base::error::ErrorCode::InvalidTool, why)))?;
        Ok(Self { schema })
    }

    /// Why the value with this JSON text does not fit, a line for each path; null where it does.
    #[napi(catch_unwind)]
    pub fn mismatch(&self, json: String) -> Option<String> {
        self.schema.mismatch(&json)
    }
}
