//! Messages between agents: which are refused, what a task may spend, how it has ended, and what an agent reads of another one.

mod admit;
mod budget;
mod tasks;
mod texts;

pub use admit::{MAX_HOPS, Standing, TaskEnd, admit_message, admit_task, task_end};
pub use budget::task_budget;
pub use tasks::{
    Ending, Inherited, depth_of, last_answer, new_dispatch, new_message, result_item, task_status,
};
pub use texts::{agent_message, capped, result_message};
