//! One compiled `pattern` of a schema: on the linear engine where possible, else on the backtracking engine of this crate,
//! which counts its steps.
//!
//! It must never report a match, or no match, after its steps were used up: that ends the check.

mod compile;
mod lazy;
mod machine;
mod program;

use self::lazy::Lazy;
pub(super) use self::program::MAX_BYTES;
use self::program::Program;
use super::meter::{charge, left};

/// The longest text for which building the linear engine's state does not pay off.
const SHORT: usize = 64;
/// The shortest text for which an automaton is built.
const LONG: usize = 16 * 1024;

/// A pattern.
#[derive(Debug)]
pub(super) struct Pattern {
    /// Absent if the pattern has look-around or back-references.
    linear: Option<regex::Regex>,
    /// Absent for syntax that only the linear engine supports.
    program: Option<Program>,
    /// For long texts; absent as `linear` is.
    lazy: Option<Lazy>,
    weight: u64,
    length: u64,
}

impl Pattern {
    /// Compiles a pattern as JSON Schema writes it.
    pub(super) fn compile(source: &str) -> Result<Self, String> {
        let unusable = || "is not a regular expression that can be checked".to_owned();
        // Look-around and named back-references have no translation, and are parsed unchanged.
        let translated = jsonschema_regex::to_rust_regex(source);
        let program = fancy_regex::Expr::parse_tree(translated.as_deref().unwrap_or(source))
            .map_err(|_| unusable())
            .and_then(|tree| compile::program(&tree.expr));
        if program.as_ref().is_ok_and(|program| !program.is_regular) {
            let program = program?;
            let (weight, length) = (program.weight(), program.length());
            return Ok(Self { linear: None, program: Some(program), lazy: None, weight, length });
        }
        let translated = translated.map_err(|()| unusable())?;
        let linear = regex::RegexBuilder::new(&translated)
            .size_limit(MAX_BYTES)
            .dfa_size_limit(MAX_BYTES)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => {
                    format!("comes to more than {MAX_BYTES} bytes when it is compiled")
                }
                _ => unusable(),
            })?;
        let written = u64::try_from(translated.len()).unwrap_or(u64::MAX).saturating_mul(4);
        let program = program.ok();
        let weight = program.as_ref().map_or(written, Program::weight);
        let length = program.as_ref().map_or(written, Program::length);
        let lazy = Some(Lazy::new(translated.into_owned(), length));
        Ok(Self { linear: Some(linear), program, lazy, weight, length })
    }

    /// The memory of the pattern, in instructions.
    pub(super) fn weight(&self) -> u64 {
        self.weight
    }

    /// Whether a text is matched in time linear in its length.
    pub(super) fn is_linear(&self) -> bool {
        self.linear.is_some()
    }

    /// Whether the pattern is found in `text`. Counts its steps.
    pub(super) fn is_match(&self, text: &str) -> bool {
        if let Some(lazy) = self.lazy.as_ref().filter(|_| text.len() >= LONG) {
            charge(Lazy::steps(text));
            if let Some(found) = lazy.is_match(text) {
                return found;
            }
        }
        match (&self.linear, &self.program) {
            (Some(linear), Some(program)) => {
                // The linear engine cannot be stopped: it is used only if it ends within the steps in the worst case.
                let slowest = self.slowest(text);
                if text.len() <= SHORT || slowest > left() / 2 {
                    return program.is_match(text);
                }
                charge(slowest);
                linear.is_match(text)
            }
            (Some(linear), None) => {
                charge(self.slowest(text));
                linear.is_match(text)
            }
            (None, Some(program)) => program.is_match(text),
            // `compile` creates at least one of both.
            (None, None) => super::meter::spend(),
        }
    }

    /// The steps of the linear engine in the worst case: it follows every state at every byte, four of them in the time of one
    /// step.
    fn slowest(&self, text: &str) -> u64 {
        let bytes = u64::try_from(text.len()).unwrap_or(u64::MAX);
        bytes.saturating_mul(self.length.max(4)) / 4
    }
}

#[cfg(test)]
mod tests;
