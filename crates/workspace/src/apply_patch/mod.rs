//! The tool `apply_patch`: `tool` reads the files and applies the patch in memory, `journal` makes the changes on disk, all or
//! none, by its `plan`, `recovery` undoes what a crash left, and `report` is the result.

mod journal;
mod lock;
mod plan;
mod recovery;
mod report;
mod slot;
mod tool;

pub(crate) use recovery::recover;
pub(crate) use tool::{apply_patch, outcome};

/// A moment at which a crash must leave all of a patch or nothing. Tests end the process here.
fn crash_point() {
    #[cfg(test)]
    crate::tests::crash_point();
}
