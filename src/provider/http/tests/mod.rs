//! The transport against servers with scripted bytes: every fault of FAULTS §1 that a socket can make.

mod faults;
mod headers;
mod reuse;
mod server;
mod tls;
