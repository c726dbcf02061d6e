//! Sessions: pointers and their history, aliases, personas, forks, what a host sets. It must never write a turn.

pub(crate) mod aliases;
pub(crate) mod changes;
pub(crate) mod fork;
pub(crate) mod moved;
pub(crate) mod moves;
pub(crate) mod persona;
pub(crate) mod pointers;
pub(crate) mod prompt_files;
