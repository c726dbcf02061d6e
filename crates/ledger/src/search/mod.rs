//! Full-text search: the index, which is filled after the commits, and the search. It must never delay a commit.

pub(crate) mod message_search;
pub(crate) mod search_indexer;
