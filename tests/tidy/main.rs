//! Owns the shape of the house: which room and which inner room may use which (read from the tables in `ARCHITECTURE.md`),
//! which files use each other, who may call what `clippy.toml` bans, how long a file may be, how many lie side by side, and
//! that each begins with what it is for.
//! It reads text and nothing else: it must never need the crate, a network, or a build of anything.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test: what is missing here should stop it"
)]

mod circles;
mod files;
mod inner;
mod rooms;
mod source;

/// Fails with the problems, a line each.
fn none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}
