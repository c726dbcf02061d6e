//! The problems of an import or an export: each line or part that was not transferred.
//!
//! It must never repeat the content of a line.

use model::{TransferCode, TransferProblem};

/// The most problems of a report.
const MOST: usize = 1_000;

/// The problems of a transfer, at most `MOST`.
#[derive(Debug, Clone, Default)]
pub struct Problems {
    /// In the order in which they were found.
    pub list: Vec<TransferProblem>,
    /// Whether there were more.
    pub truncated: bool,
}

impl Problems {
    /// Adds a problem; `line` is its line in a file.
    pub fn add(
        &mut self,
        line: impl Into<Option<u64>>,
        code: TransferCode,
        message: impl Into<String>,
    ) {
        if self.list.len() < MOST {
            self.list.push(TransferProblem { line: line.into(), code, message: message.into() });
        } else {
            self.truncated = true;
        }
    }
}
