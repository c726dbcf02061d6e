//! The known services, and their defaults. It must never send a key.

mod entry;
mod lookup;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use entry::Service;
