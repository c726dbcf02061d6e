//! The options of providers and keys: read once, checked field by field. They must never print a key.

mod check;
mod fields;
mod known_service;
mod parse;
mod set;
#[cfg(test)]
mod tests;

pub use fields::ProviderOptions;
pub use parse::{parse_hosted_providers, parse_providers};
pub use set::{ProviderSet, ProviderSettings};
