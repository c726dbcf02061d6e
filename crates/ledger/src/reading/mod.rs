//! Reads: lists, the tree of turns, the context of the next call, usage, and SQL of the host. It must never write.

pub(crate) mod expense;
pub(crate) mod history;
pub(crate) mod lists;
pub(crate) mod query;
pub(crate) mod recall;
pub(crate) mod runs;
pub(crate) mod turn_diff;
pub(crate) mod turn_lists;
pub(crate) mod turn_tree;
pub(crate) mod usage;
