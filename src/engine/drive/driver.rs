//! The parts that drive one run: the run, its fallback models, and the host of its tools. Plain data.

use std::sync::Arc;
use std::time::Duration;

use super::output::OutputCheck;
use crate::engine::active_run::{ActiveRun, Registered};
use crate::engine::compaction::{Compactor, PruningOptions};
use crate::engine::context::SessionReader;
use crate::engine::state::ModelTarget;
use tools::ToolHost;

/// A model of a run's fallback chain, with its summariser.
#[derive(Clone)]
pub(crate) struct Fallback {
    pub(crate) target: ModelTarget,
    /// The compactor for a full window; `None` where compaction is off.
    pub(crate) compactor: Option<Arc<Compactor>>,
}

/// The parts that drive one run.
pub(crate) struct Driver {
    pub(crate) active: ActiveRun,
    /// The models it may call, in the plan's order.
    pub(crate) fallbacks: Vec<Fallback>,
    /// The compactor of the current model.
    pub(crate) compactor: Option<Arc<Compactor>>,
    pub(crate) pruning: Option<PruningOptions>,
    pub(crate) host: Arc<dyn ToolHost>,
    /// The time limit of a tool without its own.
    pub(crate) tool_timeout: Option<Duration>,
    /// The output that the run asks for.
    pub(crate) output: Option<Box<OutputCheck>>,
    /// Whether the engine runs `recall` itself.
    pub(crate) recalls: bool,
    /// Lets other processes reach the run.
    pub(crate) registration: Option<Registered>,
    /// The turn was parked in this run, which continues it.
    pub(crate) continues: bool,
}

impl Driver {
    /// The journal that the session is read from.
    pub(super) fn session_reader(&self) -> SessionReader<'_> {
        let shared = &self.active.shared;
        SessionReader {
            journal: shared.journal.as_ref(),
            prefixes: &shared.prefixes,
            chains: &shared.chains,
            given: &shared.given,
        }
    }
}
