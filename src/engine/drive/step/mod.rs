//! What is decided before a call of the model: by the host (`prepare`), and by a planner (`planning`).

mod planning;
mod prepare;

pub(super) use planning::{Planned, PlannedAt, is_question, plan};
pub(super) use prepare::{may_stop, prepare, stops};
