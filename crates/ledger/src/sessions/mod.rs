//! Sessions: pointers and their history, aliases, personas, forks. It must never write a turn.

pub(crate) mod aliases;
pub(crate) mod fork;
pub(crate) mod persona;
pub(crate) mod pointers;
