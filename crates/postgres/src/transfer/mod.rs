//! Export to files and import from them: the formats are `portable`'s. It must never move a session that existed before an import.

pub(crate) mod export;
pub(crate) mod rows;
mod table_rows;
pub(crate) mod target;
mod turns;
