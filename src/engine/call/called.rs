//! The outcome of one call. It must never decide whether the call is repeated.

use std::time::Duration;

use model::{Attempt, Completion, Failure, FailureKind, Stop, TokenUsage};
use provider::EmbedAnswer;
use turn::machine::{Interrupt, Reply};

/// How a call ended.
#[derive(Debug)]
pub(crate) enum Ending {
    Completed(Completion),
    /// The number of tokens; `None` where the API cannot count.
    Counted(Option<u64>),
    /// Vectors.
    Embedded(EmbedAnswer),
    Failed(Failure),
    Interrupted(Interrupt),
}

/// A call that has ended.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) ending: Ending,
    /// What was received, whole or cut; `None` where nothing was sent.
    pub(crate) reply: Option<Reply>,
    /// Whether a token of it was emitted.
    pub(crate) emitted: bool,
    /// `None` where nothing was sent.
    pub(crate) attempt: Option<Attempt>,
    /// US dollars; `None` where the price is unknown.
    pub(crate) cost: Option<f64>,
}

/// The profile of a call was refused while the call waited in the rate queue: the caller chooses again.
#[derive(Debug)]
pub(crate) struct Dismissed {
    /// How long it has waited so far.
    pub(crate) held: Duration,
}

/// The result of a call in its attempt row.
pub(super) struct Verdict {
    pub(super) ok: bool,
    pub(super) status: Option<u16>,
    pub(super) reason: Option<FailureKind>,
}

impl Called {
    /// A call that ended before anything was sent.
    pub(crate) fn unsent(ending: Ending) -> Self {
        Self { ending, reply: None, emitted: false, attempt: None, cost: None }
    }

    /// Its usage.
    pub(crate) fn tokens(&self) -> TokenUsage {
        self.reply.as_ref().map(|reply| reply.usage).unwrap_or_default()
    }

    /// Whether its usage is partly estimated.
    pub(crate) fn is_estimated(&self) -> bool {
        self.reply.as_ref().is_some_and(|reply| reply.usage_estimated)
    }
}

impl Ending {
    /// Whether the call was answered, its HTTP status, and the reason of a failure.
    pub(super) fn verdict(&self) -> Verdict {
        match self {
            Self::Completed(completion) => {
                let refused = matches!(completion.stop, Stop::Refusal | Stop::ContentFilter);
                let reason = refused.then_some(FailureKind::Refusal);
                Verdict { ok: true, status: Some(completion.status), reason }
            }
            Self::Counted(_) | Self::Embedded(_) => {
                Verdict { ok: true, status: Some(200), reason: None }
            }
            Self::Failed(failure) => {
                Verdict { ok: false, status: failure.status, reason: Some(failure.kind) }
            }
            Self::Interrupted(cause) => {
                let reason = match cause {
                    Interrupt::Abort => FailureKind::Aborted,
                    Interrupt::Timeout | Interrupt::Expired => FailureKind::Timeout,
                };
                Verdict { ok: false, status: None, reason: Some(reason) }
            }
        }
    }
}
