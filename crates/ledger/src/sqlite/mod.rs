//! The SQLite file itself: connections, the schema and its migrations, the one writer, the readers, and the guard of the
//! open file. It must never depend on turns or messages.

pub(crate) mod checksum;
pub(crate) mod columns;
pub(crate) mod connection;
pub(crate) mod error;
pub(crate) mod fields;
pub(crate) mod file;
pub(crate) mod functions;
pub(crate) mod guard;
pub(crate) mod migrations;
pub(crate) mod readers;
pub(crate) mod schema;
pub(crate) mod sql;
pub(crate) mod synchronous;
pub(crate) mod writer;
