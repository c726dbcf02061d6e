//! What a host bounds: what may be spent, and what a run's tools may do.

pub(crate) mod budget;
pub(crate) mod policy;
