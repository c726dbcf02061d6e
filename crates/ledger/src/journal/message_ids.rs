//! The ids of a turn's messages while its rows are written: an id is unique in its turn, and a call names a message of it.
//!
//! It must never look into the file: a turn is written once, and whole.

use std::collections::HashSet;

use crate::sqlite::error::Stored;
use model::{StorageError, StorageErrorKind};

/// The ids so far.
#[derive(Default)]
pub(crate) struct MessageIds<'a>(HashSet<&'a str>);

impl<'a> MessageIds<'a> {
    /// Adds an id; false if the turn has it already.
    pub(crate) fn insert(&mut self, id: &'a str) -> bool {
        self.0.insert(id)
    }

    /// Adds an id.
    ///
    /// # Errors
    /// `storage_constraint` if the turn has it already.
    pub(crate) fn insert_new(&mut self, id: &'a str) -> Stored<()> {
        if self.insert(id) {
            return Ok(());
        }
        Err(refused(format!("the turn has two messages with the id `{id}`")))
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.0.contains(id)
    }

    /// Refuses a call of a message that the turn does not have.
    ///
    /// # Errors
    /// `storage_constraint`.
    pub(crate) fn expect(&self, id: Option<&str>) -> Stored<()> {
        match id.filter(|id| !self.contains(id)) {
            Some(id) => Err(refused(format!(
                "a tool call names message `{id}`, which its turn does not have"
            ))),
            None => Ok(()),
        }
    }
}

fn refused(message: String) -> StorageError {
    StorageError::new(StorageErrorKind::Constraint, message)
}
