//! Messages between agents: which are refused, what a task may spend, how it has ended, and what an agent reads of another one.

mod admit;
mod budget;
mod texts;

pub use admit::{MAX_HOPS, Standing, TaskEnd, admit_message, admit_task, task_end};
pub use budget::task_budget;
pub use texts::{agent_message, capped, result_message};
