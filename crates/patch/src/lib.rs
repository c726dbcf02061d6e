//! Reads patches (unified diffs and the `*** Begin Patch` form) and applies them to files in memory (docs/rules/patches.md).
//!
//! A patch is applied whole or not at all, in a number of steps that is proportional to its size and that of its files. It must
//! never do I/O: the caller reads the files, and writes the result.

mod apply;
mod error;
mod parse;
mod patch;

pub use apply::{ChangeKind, FileChange, HunkReport, Leniency, apply};
pub use error::{PatchError, Problem};
pub use parse::parse;
pub use patch::{Patch, PatchPaths};
