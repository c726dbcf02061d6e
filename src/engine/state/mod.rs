//! The state of a run: data that the other submodules read and change.
//!
//! It must never use another submodule.

mod bounds;
mod control;
mod lanes;
mod pauses;
mod recorder;
mod request_template;
mod run;
mod session_head;
mod target;
mod usage;

pub(crate) use bounds::{Bounds, Unfinished, millis};
pub(crate) use control::{ParkingStep, RunControl, Steered};
pub(crate) use lanes::{LaneTicket, SessionLanes};
pub(crate) use recorder::{
    JournalState, LeasedTurn, Recorder, Starting, arguments_hash, needs_record,
};
pub(crate) use request_template::RequestTemplate;
pub(crate) use run::{PromptSource, Run, StepChanges, TurnItems};
pub(crate) use session_head::SessionHead;
pub(crate) use target::ModelTarget;
pub(crate) use usage::RunUsage;
