//! Compaction: room is made before a call that would not fit, and after one that did not.
//!
//! It owns when, and what becomes of a failure; what stays is `turn/compact`'s. A history is never replaced by less than
//! a summary that was checked and written down, and nothing is written after an abort.

pub(crate) mod fit;
mod manual;
mod options;
mod plan;
mod question;
mod summarise;
mod written;

use std::sync::Arc;

pub(crate) use fit::Fit;
pub use manual::ManualCompaction;
pub use options::{CompactionOptions, ContextGuard, Preset, Strategy};
pub(crate) use plan::{Scope, base_of};

use super::call::RunUsage;
use super::driver::Run;
use super::failover::Keyring;
use super::session::Session;
use super::{Engine, ProviderEntry};
use base::error::EngineError;
use model::{
    AgentError, AgentErrorKind, AgentPhase, ErrorDetail, FailureKind, ModelInfo, RunWarning,
};
use provider::Provider;
use turn::compact::{GuardVerdict, Trigger, share};
use turn::fallback::Seat;
use turn::machine::{Event, Interrupt, Machine};

/// A tool result over this share of the window is cut short when nothing else helps.
const LARGE_RESULT: u64 = 30;

/// Who summarises.
pub(crate) struct Compactor {
    pub(super) options: CompactionOptions,
    pub(super) provider: Arc<dyn Provider>,
    pub(super) keys: Arc<Keyring>,
    /// The profiles it is asked with.
    pub(super) seat: Seat,
    pub(super) provider_name: String,
    pub(super) model_name: String,
    pub(super) model: Arc<ModelInfo>,
}

/// What became of an attempt to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Room {
    Made,
    /// There was nothing to make it from.
    Nothing,
}

/// Why an attempt came to nothing.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// The run ends.
    Interrupted(Interrupt),
    /// It failed, and the history is as it was.
    Failed(String),
}

impl Engine {
    /// Who summarises for a run that asks `entry` for `model` by these names, with the pinned profile only where one is.
    pub(super) fn compactor(
        &self,
        (of, named): (&str, &str),
        entry: &ProviderEntry,
        model: &Arc<ModelInfo>,
        pin: Option<&str>,
    ) -> Result<Option<Arc<Compactor>>, EngineError> {
        let Some(options) = self.core.compaction.clone() else { return Ok(None) };
        let own = |field: &Option<String>, name: &str| field.as_deref().unwrap_or(name).to_owned();
        let provider_name = own(&options.provider, of);
        let model_name = own(&options.model, named);
        let same = provider_name == of && model_name == named;
        let entry = if same { entry } else { self.provider_named(&provider_name)? };
        let model = if same {
            Arc::clone(model)
        } else {
            self.model_named(&provider_name, &model_name, entry.provider.api())?
        };
        Ok(Some(Arc::new(Compactor {
            options,
            provider: Arc::clone(&entry.provider),
            keys: Arc::clone(&self.core.keys),
            seat: self.seat(&provider_name, &model, &model_name, entry, pin),
            provider_name,
            model_name,
            model,
        })))
    }
}

impl Run {
    /// Compacts what would not fit. The event is what the run ends with instead of a call.
    pub(super) async fn make_room(
        &self,
        machine: &Machine,
        session: &mut Session,
        spent: &mut RunUsage,
    ) -> Option<Event> {
        self.overhead(&mut session.fit);
        let budget = self.budget();
        let fits = session.fit.needed(&session.conversation) <= budget.limit();
        if !fits && session.fit.gave_up.is_none() && self.compactor.is_some() {
            match self.compact(machine, session, spent, Trigger::ContextLimit).await {
                Ok(Room::Made) => {
                    // What is still too large is not made smaller by the same means.
                    if session.fit.needed(&session.conversation) > budget.limit() {
                        session.fit.gave_up = Some(None);
                    }
                }
                Ok(Room::Nothing) => session.fit.gave_up = Some(None),
                Err(Stopped::Interrupted(cause)) => {
                    return Some(Event::Interrupted { cause, partial: None });
                }
                Err(Stopped::Failed(why)) => {
                    spent.notes.push(warning(
                        "compaction_failed",
                        format!("the run went on uncompacted: {why}"),
                    ));
                    session.fit.gave_up = Some(Some(why));
                }
            }
        }
        let used = session.fit.estimate(&session.conversation);
        spent.budget = Some(fit::token_budget(budget, used));
        self.guarded(session, spent, used)
    }

    /// What the guard says of a prompt of `used` tokens; told once a run.
    fn guarded(&self, session: &mut Session, spent: &mut RunUsage, used: u64) -> Option<Event> {
        let budget = self.budget();
        let window = budget.window;
        let told = match self.core.guard.rules().judge(budget, used) {
            GuardVerdict::Fine => return None,
            GuardVerdict::SmallWindow => warning(
                "context_small_window",
                format!(
                    "a window of `{window}` tokens is small; long turns will be compacted often"
                ),
            ),
            GuardVerdict::NearLimit => warning(
                "context_near_limit",
                format!("the context has about `{used}` of `{window}` tokens"),
            ),
            GuardVerdict::WindowTooSmall | GuardVerdict::OverLimit => {
                return Some(Event::Broken(agent_error(
                    AgentErrorKind::ContextOverflow,
                    "context_guard",
                    format!(
                        "the context has about `{used}` tokens, and `contextGuard` allows no call with them; raise its limit, or send less"
                    ),
                )));
            }
        };
        if !std::mem::replace(&mut session.fit.warned, true) {
            spent.notes.push(told);
        }
        None
    }

    /// Makes room after the provider has refused the prompt's size (docs/rules/compaction.md#overflow-recovery).
    pub(super) async fn recover(
        &self,
        machine: &Machine,
        session: &mut Session,
        spent: &mut RunUsage,
    ) -> Result<Room, Stopped> {
        let Some(compactor) = &self.compactor else { return Ok(Room::Nothing) };
        if let Some(Some(why)) = &session.fit.gave_up {
            return Err(Stopped::Failed(why.clone()));
        }
        if session.fit.recoveries < compactor.options.max_overflow_recoveries {
            session.fit.recoveries += 1;
            let before = session.fit.estimate(&session.conversation);
            let room = self.compact(machine, session, spent, Trigger::Overflow).await?;
            if room == Room::Made && session.fit.estimate(&session.conversation) < before {
                return Ok(Room::Made);
            }
        }
        let least = session.fit.ratio.undo(share(self.budget().window, LARGE_RESULT));
        if session.fit.truncate.is_some_and(|already| already <= least) {
            return Ok(Room::Nothing);
        }
        session.fit.truncate = Some(least);
        let before = session.conversation.tokens();
        let scope = self.scope(session).await?;
        self.rebuild(machine, session, &scope);
        Ok(if session.conversation.tokens() < before { Room::Made } else { Room::Nothing })
    }

    /// Tells the whole conversation anew, as the model that is asked now reads it.
    pub(super) async fn retell(
        &self,
        machine: &Machine,
        session: &mut Session,
    ) -> Result<(), Stopped> {
        let scope = self.scope(session).await?;
        self.rebuild(machine, session, &scope);
        Ok(())
    }

    /// Compacts, and tells that it does: the phases, and that no message is taken meanwhile.
    async fn compact(
        &self,
        machine: &Machine,
        session: &mut Session,
        spent: &mut RunUsage,
        trigger: Trigger,
    ) -> Result<Room, Stopped> {
        let scope = self.scope(session).await?;
        let mut told = false;
        let done = self.compacted(machine, session, spent, trigger, scope, &mut told).await;
        if told {
            self.control.compacting(false);
            self.queue.phase(AgentPhase::CompactionEnd, self.core.clock.now_ms());
        }
        done
    }
}

pub(super) fn warning(code: &str, message: String) -> RunWarning {
    RunWarning { code: code.to_owned(), field: None, message }
}

/// The error of a context that does not fit and could not be made to.
pub(super) fn compaction_failure(why: &str) -> AgentError {
    agent_error(
        AgentErrorKind::CompactionFailure,
        "compaction_failed",
        format!("the context does not fit, and could not be compacted: {why}"),
    )
}

fn agent_error(kind: AgentErrorKind, code: &str, message: String) -> AgentError {
    AgentError {
        kind,
        message,
        retryable: false,
        detail: ErrorDetail {
            kind: FailureKind::ContextOverflow,
            status: None,
            code: Some(code.to_owned()),
            retry_after_ms: None,
            retry_after_source: None,
        },
    }
}
