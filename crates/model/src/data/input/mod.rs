//! What a host hands in as JSON: its texts, its fields, and how a refusal quotes them.

pub(crate) mod context;
pub(crate) mod json;
pub(crate) mod quote;
