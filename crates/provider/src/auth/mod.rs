//! Keys: what the options name, what the host gives out when it is needed, and Amazon's signatures.
//!
//! It must never print a key.

pub(crate) mod aws;
pub(crate) mod keys;
pub(crate) mod profile;
