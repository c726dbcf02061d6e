//! Checks the structure of the project: which module and which submodule may use which (by the tables in `ARCHITECTURE.md`),
//! circles between files, the owners of calls that `clippy.toml` bans, the length of files, the size of folders, and the
//! header of each file.
//! It only reads text: it must never need the crate, a network, or a build.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test: what is missing here should stop it"
)]

mod circles;
mod files;
mod modules;
mod source;
mod submodules;

/// Fails with the problems, a line each.
fn none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}
