//! The migrations that need code; the others are the `.sql` files in this folder. A released migration must never be edited.

pub(crate) mod journal;
pub(crate) mod rows_of_turns;
pub(crate) mod step;
