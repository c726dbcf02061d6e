//! The migrations that SQL alone cannot do; the others are the `.sql` files beside this one. What was released is never edited.

pub(crate) mod journal;
pub(crate) mod step;
