//! The way to the server: options, TLS, errors, the pool and the thread that owns it.
//!
//! It must never know a table.

pub(crate) mod announced;
pub(crate) mod error;
pub(crate) mod held;
pub(crate) mod once;
pub(crate) mod options;
pub(crate) mod password_file;
pub(crate) mod pool;
pub(crate) mod server;
pub(crate) mod tls;
pub(crate) mod url;
pub(crate) mod worker;
