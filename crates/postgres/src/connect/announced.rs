//! Changes that other processes wait for, and are not notified of yet.
//!
//! It must never send a statement.

use std::cell::RefCell;
use std::rc::Rc;

use tokio::sync::Notify;
use tokio_postgres::Client;

/// Changes that are not sent yet.
#[derive(Default)]
pub(crate) struct Announced {
    pub(crate) payloads: RefCell<Vec<String>>,
    pub(crate) some: Notify,
    /// The connection on which this process listens, while there is one.
    pub(crate) listening: RefCell<Option<Rc<Client>>>,
}
