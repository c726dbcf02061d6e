//! Tests of what only a host does: its metadata, its lists. They must never open a turn by hand where a commit is enough.

use super::*;

mod metadata;
mod turn_lists;
