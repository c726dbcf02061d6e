//! What a journal says: the files of a patch as they were, and as the patch makes them. It is read back after a crash, by a later
//! version of this program too.

use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

/// The directory of a journal, in the workspace. It exists while a patch is applied, and after a crash.
pub(super) use crate::root::JOURNAL;
/// The file in it that makes it count: it is there from before the first change until after the last.
pub(super) const PLAN: &str = "plan.json";
pub(super) const FORMAT: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plan {
    pub(super) format: u32,
    pub(super) changes: Vec<PlannedChange>,
    /// Directories that the patch makes, the outer ones first.
    pub(super) new_directories: Vec<String>,
}

/// A change of one file. Its content before is `old-<n>` in the journal, its content after is `new-<n>` until it is moved away.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct PlannedChange {
    pub(super) path: String,
    pub(super) old: Option<Version>,
    pub(super) new: Option<Version>,
}

/// Which file it is, and whether it was written since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Version {
    device: u64,
    inode: u64,
    size: i64,
    seconds: i64,
    nanoseconds: i64,
}

impl Version {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            seconds: stat.st_mtime,
            nanoseconds: stat.st_mtime_nsec,
        }
    }
}

pub(super) fn old_name(number: usize) -> String {
    format!("old-{number}")
}

pub(super) fn new_name(number: usize) -> String {
    format!("new-{number}")
}
