//! The conversion between rows and the values for a host: messages as columns, blobs, pages of a list. It must never decide
//! when a row is written.

pub(crate) mod blobs;
pub(crate) mod context_layers;
pub(crate) mod context_rows;
pub(crate) mod json;
pub(crate) mod message_codec;
pub(crate) mod message_columns;
pub(crate) mod message_rows;
pub(crate) mod metadata_rows;
pub(crate) mod narrow;
pub(crate) mod row_key;
pub(crate) mod session_rows;
pub(crate) mod tool_call_rows;
pub(crate) mod turn_columns;
pub(crate) mod turn_parents;
pub(crate) mod turn_rows;
