//! The problems of an import or an export: each thing that was not taken, by its line.
//!
//! It must never repeat the content of a line.

use model::{TransferCode, TransferProblem};

/// The most problems of a report; more would add nothing.
const MOST: usize = 1_000;

/// The problems of a transfer, at most so many.
#[derive(Debug, Clone, Default)]
pub(crate) struct Problems {
    pub(crate) list: Vec<TransferProblem>,
    pub(crate) truncated: bool,
}

impl Problems {
    pub(crate) fn add(
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
