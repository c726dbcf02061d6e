//! Changes that other processes wait for, and are not notified of yet.
//!
//! It must never send a statement.

use std::cell::RefCell;

use tokio::sync::Notify;

/// Changes that are not sent yet.
#[derive(Default)]
pub(crate) struct Announced {
    pub(crate) payloads: RefCell<Vec<String>>,
    pub(crate) some: Notify,
}
