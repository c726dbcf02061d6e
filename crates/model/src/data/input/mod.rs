//! What a host passes in as JSON: contexts, messages, fields, and how an error quotes them.

pub(crate) mod block;
pub(crate) mod context;
pub(crate) mod error_path;
pub(crate) mod field;
mod history;
pub(crate) mod json;
pub(crate) mod json_value;
pub(crate) mod message;
mod plain;
pub(crate) mod problems;
pub(crate) mod quote;
pub(crate) mod raw_context;
pub(crate) mod request;
mod type_words;
