//! One call of a model: the API, the options, the response with its usage, and the state of the cache.

pub(crate) mod api;
pub(crate) mod cache;
pub(crate) mod options;
pub(crate) mod plan;
pub(crate) mod rate;
pub(crate) mod response;
pub(crate) mod usage;
