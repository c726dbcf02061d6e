//! A session's queue of messages: what is queued, what runs next, and what becomes of a message whose turn has ended.

mod admit;
mod decide;
mod end;
mod item;
mod overflow_note;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use admit::{Admission, DropPolicy, QueueLimits, admit};
pub use decide::{Decision, SessionRun, decide};
pub use end::{FailedReason, ItemEnd, TurnEnd, after_turn};
pub use item::{QueueItem, QueueMode, Route};
pub use overflow_note::overflow_note;
