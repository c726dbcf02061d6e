//! The outcome of one attempt at an answer, in the form that the run's machine receives. It must never decide.

use std::time::Duration;

use crate::engine::call::{Called, Ending};
use model::{AgentError, Completion, Failure, FailureKind};
use turn::machine::{Event, Interrupt, Reply};

/// An attempt that has failed.
#[derive(Debug)]
pub(super) struct FailedAttempt {
    pub(super) failure: Failure,
    /// The content received before.
    pub(super) partial: Option<Reply>,
    /// Whether a token of it was emitted.
    pub(super) emitted: bool,
}

/// The outcome of one attempt, and what follows it.
#[derive(Debug)]
pub(super) enum AttemptOutcome {
    Answered {
        completion: Completion,
        reply: Reply,
    },
    /// Another attempt is made after the delay.
    Retried {
        failed: FailedAttempt,
        delay: Duration,
    },
    /// The run ends with the failure.
    Failed(FailedAttempt),
    Interrupted {
        cause: Interrupt,
        partial: Option<Reply>,
    },
    /// The run ends before a request was sent.
    Broken(AgentError),
}

impl AttemptOutcome {
    /// No request was sent: there is no model to call.
    pub(super) fn unsent(failure: Failure) -> Self {
        Self::Failed(FailedAttempt { failure, partial: None, emitted: false })
    }

    /// The run was ended while no call was under way.
    pub(super) fn interrupted(cause: Interrupt) -> Self {
        Self::Interrupted { cause, partial: None }
    }

    /// The outcome of a call that needs no decision: its answer, or its interruption.
    pub(super) fn of(called: Called) -> Self {
        let Called { ending, reply, emitted, .. } = called;
        match (ending, reply) {
            (Ending::Completed(completion), Some(reply)) => Self::Answered { completion, reply },
            (Ending::Interrupted(cause), partial) => Self::Interrupted { cause, partial },
            (Ending::Failed(failure), partial) => {
                Self::Failed(FailedAttempt { failure, partial, emitted })
            }
            (Ending::Completed(_) | Ending::Counted(_) | Ending::Embedded(_), _) => {
                let message = "the call ended without a reply";
                let failure = Failure::new(FailureKind::Unknown, "no_reply", message);
                Self::Failed(FailedAttempt { failure, partial: None, emitted })
            }
        }
    }

    pub(super) fn into_event(self) -> Event {
        match self {
            Self::Answered { completion: Completion { stop, stop_raw, .. }, reply } => {
                Event::Replied { reply, stop, stop_raw }
            }
            Self::Retried { failed, delay } => failed.into_event(Some(delay)),
            Self::Failed(failed) => failed.into_event(None),
            Self::Interrupted { cause, partial } => Event::Interrupted { cause, partial },
            Self::Broken(error) => Event::Broken(error),
        }
    }
}

impl FailedAttempt {
    fn into_event(self, again: Option<Duration>) -> Event {
        let Self { failure, partial, emitted } = self;
        Event::AttemptFailed { failure, partial, emitted, again }
    }
}
