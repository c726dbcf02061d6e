//! One call of a model: the API it uses, what it is asked with, what it answers and counts, and what its cache held.

pub(crate) mod api;
pub(crate) mod cache;
pub(crate) mod options;
pub(crate) mod rate;
pub(crate) mod response;
pub(crate) mod usage;
