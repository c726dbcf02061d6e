//! The ledger in PostgreSQL: the ports of `model` over a server that many machines share.
//!
//! Owns the connections, the schema and every statement of it. It must never depend on the ledger in a file, hold a
//! transaction while JavaScript runs, or decide by the clock of a client who owns a session.

mod connect;
mod deletion;
mod events;
mod handle;
mod journal;
mod maintenance;
mod memory;
mod queue;
mod reading;
mod rows;
mod schema;
mod sessions;
mod transfer;

#[cfg(test)]
mod tests;

pub use self::connect::options::{
    Password, PasswordFuture, PasswordSource, PostgresFields, PostgresOptions,
};
pub use self::handle::postgres::Postgres;
