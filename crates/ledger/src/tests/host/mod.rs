//! Tests of what only a host does: its metadata, its lists, its deletions. They must never open a turn by hand where a commit is enough.

use super::*;

mod copying;
mod deletion;
mod memory;
mod metadata;
mod owned_rows;
mod turn_lists;
