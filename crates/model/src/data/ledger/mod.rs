//! What the ledger stores and answers with, whichever backend it has.

pub(crate) mod history;
pub(crate) mod recall;
pub(crate) mod session_key;
