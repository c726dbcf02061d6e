//! The JSON Schema of what a tool returns. A result is compared with it, and never coerced: a tool writes what it means.
//!
//! It must never accept a result that the schema refuses, or one whose check takes too long.

use serde_json::Value;

use super::instance::Instance;
use super::meter::metered;
use super::schema::{self, Schema};
use super::{complexity, explain};

/// The steps of one check, which holds up the thread of the caller: some hundredths of a second at most.
const STEPS: u64 = 2_000_000;

/// A compiled schema.
#[derive(Debug)]
pub struct ResultSchema(Schema);

impl ResultSchema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Why it cannot be used: it is too large, is not JSON Schema, or refers to something outside itself.
    pub fn compile(json: &str) -> Result<Self, String> {
        schema::compile(json).map(Self)
    }

    /// Why the value with this JSON text does not fit, a line for each path; `None` where it does.
    pub fn mismatch(&self, json: &str) -> Option<String> {
        let value: Value = match serde_json::from_str(json) {
            Ok(value) => value,
            Err(error) => return Some(format!("\n  - root: is not usable JSON: {error}")),
        };
        let schema = &self.0;
        let checked = metered(STEPS, None, || {
            let validator = match schema.validator(&value) {
                Ok(validator) => validator,
                Err(why) => return Some(format!("\n  - root: the schema {why}")),
            };
            if validator.is_valid(Instance(&value)) {
                return None;
            }
            if complexity::is_too_much(&value, schema.cost) {
                return Some("\n  - root: is too large or too deep to name the place".to_owned());
            }
            explain::lines(&validator, &value)
        });
        checked.unwrap_or_else(|_| Some("\n  - root: could not be checked in time".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::ResultSchema;

    const SCHEMA: &str =
        r#"{"type":"object","properties":{"celsius":{"type":"number"}},"required":["room"]}"#;

    #[test]
    fn a_result_is_compared_and_not_coerced() {
        let schema = ResultSchema::compile(SCHEMA).unwrap();
        assert_eq!(schema.mismatch(r#"{"room":"cellar","celsius":11.5}"#), None);
        assert_eq!(
            schema.mismatch(r#"{"celsius":"11.5"}"#).as_deref(),
            Some("\n  - room: must have required property 'room'\n  - celsius: must be number")
        );
        assert!(schema.mismatch("{").is_some());
        assert!(ResultSchema::compile(r#"{"type":"objekt"}"#).is_err());
    }

    #[test]
    fn a_result_that_cannot_be_checked_in_time_does_not_fit() {
        let schema = r#"{"items":{"uniqueItems":true,"items":{"pattern":"(a+)+$"}}}"#;
        let schema = ResultSchema::compile(schema).unwrap();
        let row = format!(
            "[{}]",
            vec!["\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\""; 20].join(",")
        );
        let json = format!("[{}]", vec![row; 50_000].join(","));
        assert!(schema.mismatch(&json).is_some());
    }
}
