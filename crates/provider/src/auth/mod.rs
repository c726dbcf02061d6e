//! Keys: from the options, from functions of the host, and Amazon's signatures.
//!
//! It must never print a key.

pub(crate) mod aws;
pub(crate) mod keys;
pub(crate) mod profile;
