//! Runs one call: admission, the side effect, its time limit, retries, abort and cap.
//!
//! However a host behaves, a call has exactly one result, within its time limit. It must never start a call after the abort,
//! and never wait for a host that ignores its signal.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Ticket, ToolAnswer, result_cap};
use model::{OUTCOME_UNKNOWN_TEXT, ReplayClass, ToolDefinition};

/// One execution, as the host receives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    /// The engine's ULID of the call: the idempotency key, the same in every retry.
    pub call_id: String,
    /// The provider's id of the call.
    pub provider_call_id: String,
    /// The run.
    pub run_id: String,
    /// Its turn.
    pub turn_id: String,
    /// Its session.
    pub session_label: String,
    /// The assistant message with the call.
    pub message_id: String,
    /// The tool.
    pub tool_name: String,
    /// The arguments: JSON text of an object, valid by the tool's schema.
    pub arguments_json: String,
}

/// An execution under way. Dropping it discards the result.
pub type ToolFuture = Pin<Box<dyn Future<Output = ToolAnswer> + Send>>;

/// The report of a tool about a call in doubt after a crash.
#[derive(Debug, Clone)]
pub enum Reconciled {
    /// It had its effect, and this is its result.
    Done(ToolAnswer),
    /// It had no effect: it may run.
    NotDone,
    /// The tool does not know.
    Unknown,
}

/// A reconciliation under way. Dropping it discards the report.
pub type ReconcileFuture = Pin<Box<dyn Future<Output = Reconciled> + Send>>;

/// What the host decides about a call before it may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It runs.
    Allow,
    /// It does not; the text is for the model.
    Deny(String),
    /// It runs with these arguments, JSON text, if they are valid.
    Params(String),
    /// It waits for an approval.
    Ask(Ask),
}

/// A call that the host lets wait for an approval.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ask {
    /// The arguments to approve, JSON text, if others than those of the model.
    pub params: Option<String>,
    /// What the person who decides reads.
    pub question: Option<String>,
    /// After how many milliseconds the approval expires.
    pub expires_ms: Option<u64>,
}

/// A decision under way.
pub type VerdictFuture = Pin<Box<dyn Future<Output = Verdict> + Send>>;

/// Whether the run stops before its next call of the model.
pub type StopFuture = Pin<Box<dyn Future<Output = bool> + Send>>;

/// What changes for the next call of the model.
pub type StepFuture = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// Why the host does not accept an answer as the output of the run.
pub type OutputFuture = Pin<Box<dyn Future<Output = Option<String>> + Send>>;

/// Runs tools, and decides about them: JavaScript, or a script in tests.
pub trait ToolHost: Send + Sync {
    /// Whether [`ToolHost::decide`] is to be called before each call.
    fn decides(&self) -> bool {
        false
    }

    /// Decides about a valid call that has not started.
    fn decide(&self, invocation: Invocation) -> VerdictFuture {
        drop(invocation);
        Box::pin(std::future::ready(Verdict::Allow))
    }

    /// Whether [`ToolHost::stops`] is to be called between an answer with tools and the next one.
    fn may_stop(&self) -> bool {
        false
    }

    /// Whether the run stops after `step`, JSON text.
    fn stops(&self, step: String) -> StopFuture {
        drop(step);
        Box::pin(std::future::ready(false))
    }

    /// Whether [`ToolHost::prepare_step`] is to be called before each answer.
    fn prepares(&self) -> bool {
        false
    }

    /// What changes for the next call of the model, JSON text; `None` for nothing. `step` is JSON text.
    fn prepare_step(&self, step: String) -> StepFuture {
        drop(step);
        Box::pin(std::future::ready(None))
    }

    /// The plan for `context`, both JSON text; `None` where the host has none.
    fn plan(&self, context: String) -> StepFuture {
        drop(context);
        Box::pin(std::future::ready(None))
    }

    /// Stores a result of `tool` that is too long for the model, and how the model reads it; `None` where it cannot.
    fn spill(&self, tool: String, text: String) -> Option<StepFuture> {
        drop((tool, text));
        None
    }

    /// Why the host does not accept the text of an answer as the run's output; `None` where it does.
    fn output_problems(&self, text: String) -> OutputFuture {
        drop(text);
        Box::pin(std::future::ready(None))
    }

    /// Runs one call. `cancel` is cancelled at the call's time limit and at the run's abort; the result of a host that ignores
    /// it is discarded.
    fn execute(&self, invocation: Invocation, cancel: CancellationToken) -> ToolFuture;

    /// Requests the outcome of a call that was started before a crash, by its idempotency key.
    fn reconcile(&self, invocation: Invocation, cancel: CancellationToken) -> ReconcileFuture {
        drop((invocation, cancel));
        Box::pin(std::future::ready(Reconciled::Unknown))
    }
}

/// The first step of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum First {
    /// Run it.
    Run,
    /// Reconcile it: it may have run before a crash.
    Reconcile,
}

/// A call to run, and its first step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRequest {
    /// The execution.
    pub invocation: Invocation,
    /// Its first step.
    pub first: First,
}

/// The limits of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The limit of one execution; `None` where only the deadline applies.
    pub timeout: Option<Duration>,
    /// The end of the run's time.
    pub deadline: Option<Instant>,
    /// How often a failed execution is retried.
    pub retries: u32,
    /// The maximum characters of the result for the model.
    pub result_chars: usize,
}

impl Limits {
    /// The tool's own limit, else the engine's, else the run's remaining time
    /// (docs/rules/turns-and-streams.md#tool-time-limits). Retries only if the tool declares that a second execution is safe.
    #[must_use]
    pub fn of(
        tool: &ToolDefinition,
        engine_timeout: Option<Duration>,
        deadline: Option<Instant>,
        window_tokens: Option<u64>,
    ) -> Self {
        Self {
            timeout: tool.timeout_ms.map(Duration::from_millis).or(engine_timeout),
            deadline,
            retries: match tool.replay {
                ReplayClass::Pure | ReplayClass::Idempotent => tool.retries,
                ReplayClass::Reconcilable | ReplayClass::Unsafe => 0,
            },
            result_chars: tool
                .max_result_chars
                .and_then(|chars| usize::try_from(chars).ok())
                .unwrap_or(usize::MAX)
                .min(result_cap(window_tokens)),
        }
    }
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It returned.
    Completed,
    /// It failed, and the result has the reason.
    Failed,
    /// It timed out; it may have had its effect.
    TimedOut,
    /// The run was aborted while it ran; it may have had its effect.
    Aborted,
    /// It had started before a crash, and its tool does not know the outcome.
    Unknown,
    /// The run was aborted, or its time ended, before it started: it had no effect.
    NotStarted,
}

/// The end of a call with its only result.
#[derive(Debug, Clone)]
pub struct CallEnd {
    /// How it ended.
    pub ending: Ending,
    /// The capped result for the model; an error for every ending except [`Ending::Completed`].
    pub answer: ToolAnswer,
    /// The number of images that were left out because no provider accepts them.
    pub unreadable_images: usize,
}

impl CallEnd {
    fn failed(ending: Ending, message: impl Into<String>) -> Self {
        Self { ending, answer: ToolAnswer::error(message), unreadable_images: 0 }
    }
}

/// Runs one call to its end. `begin` is awaited once, just before the side effect, and never for a call that does not
/// start; false prevents the start. Dropping the future before that cancels the call without any effect.
pub async fn run_call(
    host: &dyn ToolHost,
    CallRequest { invocation, first }: CallRequest,
    limits: Limits,
    ticket: Ticket,
    abort: &CancellationToken,
    begin: impl Future<Output = bool> + Send,
) -> CallEnd {
    let permit = tokio::select! {
        biased;
        () = abort.cancelled() => {
            return CallEnd::failed(Ending::NotStarted, "Not run: the run was aborted.");
        }
        () = until(limits.deadline) => {
            return CallEnd::failed(Ending::NotStarted, "Not run: the run's time is up.");
        }
        permit = ticket.admitted() => permit,
    };
    if !begin.await {
        return CallEnd::failed(Ending::NotStarted, "Not run: the run has ended.");
    }
    if first == First::Reconcile
        && let Some(end) = reconciled(host, invocation.clone(), limits, abort).await
    {
        return end;
    }
    let mut retries = limits.retries;
    let end = loop {
        match attempt(host, invocation.clone(), limits, abort).await {
            Attempt::Failed(_) if retries > 0 && !abort.is_cancelled() => retries -= 1,
            Attempt::Failed(end) | Attempt::Final(end) => break end,
        }
    };
    // Held until there is a result, and no longer: a host that ignores its time limit must not block the run.
    drop(permit);
    end
}

/// The end of a call in doubt; `None` where it had no effect and may run.
async fn reconciled(
    host: &dyn ToolHost,
    invocation: Invocation,
    limits: Limits,
    abort: &CancellationToken,
) -> Option<CallEnd> {
    let cancel = abort.child_token();
    let unwanted = cancel.clone().drop_guard();
    let reconciled =
        AssertUnwindSafe(async { host.reconcile(invocation, cancel.clone()).await }).catch_unwind();
    let known = tokio::select! {
        biased;
        known = reconciled => {
            unwanted.disarm();
            known.unwrap_or(Reconciled::Unknown)
        }
        () = abort.cancelled() => Reconciled::Unknown,
        () = until(limits.deadline) => Reconciled::Unknown,
        _ = elapsed(limits.timeout) => Reconciled::Unknown,
    };
    match known {
        Reconciled::Done(mut answer) => {
            let unreadable_images = answer.cap(limits.result_chars);
            let ending = if answer.is_error { Ending::Failed } else { Ending::Completed };
            Some(CallEnd { ending, answer, unreadable_images })
        }
        Reconciled::NotDone => None,
        Reconciled::Unknown => Some(CallEnd::failed(Ending::Unknown, OUTCOME_UNKNOWN_TEXT)),
    }
}

/// The outcome of one execution.
enum Attempt {
    /// A retryable failure.
    Failed(CallEnd),
    /// The result of the call.
    Final(CallEnd),
}

async fn attempt(
    host: &dyn ToolHost,
    invocation: Invocation,
    limits: Limits,
    abort: &CancellationToken,
) -> Attempt {
    let cancel = abort.child_token();
    // Notifies the host when its result is not needed any more, also when this future is dropped.
    let unwanted = cancel.clone().drop_guard();
    let tool_name = invocation.tool_name.clone();
    // A host may panic when it is called, or later; in both cases the tool has failed.
    let execution =
        AssertUnwindSafe(async { host.execute(invocation, cancel.clone()).await }).catch_unwind();
    tokio::select! {
        biased;
        // A result counts, even after an abort: the effect has happened.
        answer = execution => {
            unwanted.disarm();
            match answer {
                Ok(mut answer) => {
                    let spilled = spilled(host, &tool_name, &answer, limits).await;
                    let unreadable_images =
                        answer.cap_noting(limits.result_chars, spilled.as_deref());
                    if answer.is_error {
                        let ending = Ending::Failed;
                        Attempt::Failed(CallEnd { ending, answer, unreadable_images })
                    } else {
                        let ending = Ending::Completed;
                        Attempt::Final(CallEnd { ending, answer, unreadable_images })
                    }
                }
                Err(_) => Attempt::Failed(CallEnd::failed(
                    Ending::Failed,
                    format!("Tool {tool_name} panicked."),
                )),
            }
        }
        () = abort.cancelled() => Attempt::Final(CallEnd::failed(
            Ending::Aborted,
            "Aborted: the run was aborted before the tool answered.",
        )),
        () = until(limits.deadline) => Attempt::Final(CallEnd::failed(
            Ending::TimedOut,
            format!("Tool {tool_name} timed out: the run's time is up."),
        )),
        millis = elapsed(limits.timeout) => Attempt::Failed(CallEnd::failed(
            Ending::TimedOut,
            format!("Tool {tool_name} timed out after {millis} ms."),
        )),
    }
}

/// Puts a result that the model would read only in part where it can read the whole, and says how.
async fn spilled(
    host: &dyn ToolHost,
    tool: &str,
    answer: &ToolAnswer,
    limits: Limits,
) -> Option<String> {
    if !answer.exceeds(limits.result_chars) {
        return None;
    }
    host.spill(tool.to_owned(), answer.message())?.await
}

async fn elapsed(limit: Option<Duration>) -> u128 {
    match limit {
        Some(limit) => {
            tokio::time::sleep(limit).await;
            limit.as_millis()
        }
        None => std::future::pending().await,
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
