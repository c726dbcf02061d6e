//! What JavaScript passes in: contexts, the beginnings of their histories, and all problems of what is refused. It must never
//! start a run.

mod allowed_hosts;
mod contexts;
mod engine_options;
mod given_histories;
mod problems;

pub(super) use engine_options::ReadOptions;
pub(super) use given_histories::{CrossingContext, GivenHistories, KnownHistory, RunFlags};
pub(super) use problems::Problem;
