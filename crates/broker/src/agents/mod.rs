//! Messages between agents: which are refused, how a task has ended, and what an agent reads of another one.

mod admit;
mod texts;

pub use admit::{MAX_HOPS, Standing, TaskEnd, admit_message, admit_task, task_end};
pub use texts::{agent_message, capped, result_message};
