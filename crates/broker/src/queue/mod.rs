//! A session's queue of messages: what is queued, what runs next, and what becomes of a message whose turn has ended.

mod admit;
mod decide;
mod end;
mod overflow_note;
#[cfg(test)]
mod reference;
mod rows;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;

pub use admit::{Admission, Counted, admit, is_debounced};
pub use decide::{Decision, SessionRun, decide, follows};
pub use end::{ItemEnd, TurnEnd, after_turn};
pub use overflow_note::overflow_note;
pub use rows::{EVENTS_MS, answer, event_source, how_ended, new_row};
