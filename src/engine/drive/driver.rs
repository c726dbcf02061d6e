//! What drives one run: the run, its fallback models, and the host of its tools.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::active_run::ActiveRun;
use crate::engine::compaction::{Compactor, PruningOptions};
use crate::engine::context::SessionReader;
use crate::engine::state::ModelTarget;
use crate::tools::ToolHost;

/// A model of a run's fallback chain, with its summariser.
#[derive(Clone)]
pub(crate) struct Fallback {
    pub(crate) target: ModelTarget,
    /// What makes room in a full window; `None` where nothing may.
    pub(crate) compactor: Option<Arc<Compactor>>,
}

/// Everything that one run is driven with.
pub(crate) struct Driver {
    pub(crate) active: ActiveRun,
    /// The models it may call, in the plan's order.
    pub(crate) fallbacks: Vec<Fallback>,
    /// The summariser of the model that is called now.
    pub(crate) compactor: Option<Arc<Compactor>>,
    pub(crate) pruning: Option<PruningOptions>,
    pub(crate) host: Arc<dyn ToolHost>,
    /// The limit of a tool that names none.
    pub(crate) tool_timeout: Option<Duration>,
    /// Whether the engine answers calls of `recall` itself.
    pub(crate) recalls: bool,
}

impl Driver {
    /// Where the run's session is read from.
    pub(super) fn session_reader(&self) -> SessionReader<'_> {
        let shared = &self.active.shared;
        SessionReader {
            journal: shared.journal.as_ref(),
            prefixes: &shared.prefixes,
            chains: &shared.chains,
        }
    }
}
