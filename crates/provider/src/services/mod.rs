//! The services everyone uses, and what need not be configured for them.

mod entry;
mod lookup;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use entry::Service;
