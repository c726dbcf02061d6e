//! Applies a patch to files in memory (docs/rules/patches.md#apply): all of it, or nothing with all problems.

mod files;
mod fold;
mod hunks;
mod index;
mod locate;
mod rewrite;
mod run;
mod text;
mod work;

#[cfg(test)]
mod tests;

pub use files::{ChangeKind, FileChange};
pub use fold::Leniency;
pub use hunks::HunkReport;
pub use run::apply;
