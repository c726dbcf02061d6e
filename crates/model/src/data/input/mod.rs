//! What a host passes in as JSON: contexts, messages, fields, and how an error quotes them.

pub(crate) mod block;
pub(crate) mod context;
pub(crate) mod field;
pub(crate) mod json;
pub(crate) mod json_value;
pub(crate) mod message;
pub(crate) mod quote;
pub(crate) mod raw_context;
pub(crate) mod request;
