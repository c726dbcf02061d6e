//! The transport against servers with scripted bytes: every fault of docs/rules/faults.md#network-faults that a socket can
//! have.

#[cfg(target_os = "linux")]
mod erasure;
mod faults;
mod headers;
mod reuse;
mod server;
mod tls;
