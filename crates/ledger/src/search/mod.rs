//! Full-text search: what a word is, the index behind the commits, and the search itself. It must never delay a commit.

pub(crate) mod message_search;
pub(crate) mod search_indexer;
