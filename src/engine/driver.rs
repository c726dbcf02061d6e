//! The driver of one run: does what the machine says, and feeds back what happened.
//!
//! It owns the run's task. It must never decide: deciding is `turn/machine`.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::telemetry::Instrument as _;
use tokio::time::Instant;

use super::attempt::Attempt;
use super::control::RunControl;
use super::conversation::Conversation;
use super::outcome::{self, Ended};
use super::prefix::PrefixKey;
use super::sessions::{Lane, Place};
use super::sink::{EventQueue, RecordKind};
use super::{Core, batch};
use crate::model::ModelInfo;
use crate::model::{
    AgentError, AgentErrorKind, AgentPhase, AgentResult, AssembledContext, Attempt as AttemptRow,
    ErrorDetail, Failure, FailureKind, HistoryBase, Provenance, ReportedUsage, StopReason,
    StorageError, StorageErrorKind, StreamEvent, TurnCommit,
};
use crate::provider::{Credential, ModelRequest, Provider};
use crate::telemetry;
use crate::tools::{ToolHost, ToolSet};
use crate::turn::estimate;
use crate::turn::machine::{Event, Interrupt, Machine, PendingCall, Reply, Step, Tick};
use crate::turn::transcript::Target;

/// Everything a run is made of.
pub(crate) struct Run {
    pub(crate) core: Arc<Core>,
    pub(crate) context: AssembledContext,
    pub(crate) turn_id: String,
    pub(crate) tool_set: Arc<ToolSet>,
    pub(crate) provider: Arc<dyn Provider>,
    pub(crate) credential: Result<Option<Arc<Credential>>, Failure>,
    pub(crate) model: Arc<ModelInfo>,
    pub(crate) queue: Arc<EventQueue>,
    pub(crate) control: Arc<RunControl>,
    pub(crate) host: Arc<dyn ToolHost>,
    pub(crate) started: Instant,
    pub(crate) started_ms: i64,
}

/// What the calls of a run have cost, and how each attempt went.
struct Spent {
    attempts: Vec<AttemptRow>,
    /// US dollars over all calls; `None` once a price was unknown. Prices go by call, so it is the sum of the calls' costs.
    cost: Option<f64>,
}

impl Spent {
    fn of(model: &ModelInfo) -> Self {
        Self { attempts: Vec::new(), cost: model.cost.as_ref().map(|_| 0.0) }
    }

    fn add(&mut self, call: Option<f64>) {
        self.cost = self.cost.zip(call).map(|(sum, call)| sum + call);
    }
}

/// What is known of the session a run continues.
struct Session {
    conversation: Conversation,
    /// The head that `conversation` ends at, before this run's own messages.
    expected_head: Option<String>,
    parent_turn_id: Option<String>,
    _lane: Option<Lane>,
}

impl Run {
    /// Runs to the end: commit, terminal event, result. `place` is the run's in its session's queue, where there is one.
    pub(crate) async fn drive(self, place: Option<Place>) {
        let mut spent = Spent::of(&self.model);
        let mut machine =
            Machine::new(self.context.current_message.clone(), self.context.max_iterations);
        let mut session = match self.guard(self.open_session(place)).await {
            Ok(Ok(session)) => Some(session),
            Ok(Err(error)) => {
                self.feed(&mut machine, Event::Broken(storage_error(&error)));
                None
            }
            Err(cause) => {
                self.feed(&mut machine, Event::Interrupted { cause, partial: None });
                None
            }
        };
        let mut undelivered = Vec::new();
        if let Some(session) = &mut session {
            undelivered = self.turn(&mut machine, session, &mut spent).await;
        }
        undelivered.extend(self.control.close());
        self.finish(machine, session, spent, undelivered).await;
    }

    /// The loop. Returns steered messages that no call will see.
    async fn turn(
        &self,
        machine: &mut Machine,
        session: &mut Session,
        spent: &mut Spent,
    ) -> Vec<String> {
        let mut sent = 0;
        let mut step = machine.step();
        loop {
            step = match step {
                // A tool's limit may end with the run's: the next call would be sent for nothing.
                Step::CallModel if self.remaining().is_zero() => self
                    .feed(machine, Event::Interrupted { cause: Interrupt::Timeout, partial: None }),
                Step::CallModel => {
                    let steered = self.control.take();
                    if !steered.is_empty() {
                        self.feed(machine, Event::Steered(steered));
                    }
                    let fresh = machine.messages().get(sent..).unwrap_or_default();
                    session.conversation.push_current(fresh, self.provider.as_ref());
                    sent = machine.messages().len();
                    let event = self.call_model(&session.conversation, spent).await;
                    let next = self.feed(machine, event);
                    if matches!(next, Step::RunTools(_) | Step::CallModel) {
                        self.message_ended(false);
                    }
                    next
                }
                Step::RunTools(calls) => self.run_tools(machine, calls).await,
                Step::Wait(delay) => match self.guard(tokio::time::sleep(delay)).await {
                    Ok(()) => self.feed(machine, Event::Waited),
                    Err(cause) => self.feed(machine, Event::Interrupted { cause, partial: None }),
                },
                // Every call of a batch is run to its end before the next step is asked for.
                Step::AwaitTools => self
                    .feed(machine, Event::Interrupted { cause: Interrupt::Abort, partial: None }),
                Step::Done => {
                    let goes_on = machine.outcome().is_some_and(|outcome| {
                        matches!(outcome.stop_reason, StopReason::EndTurn | StopReason::MaxTokens)
                    });
                    if !goes_on {
                        return Vec::new();
                    }
                    let steered = self.control.take_or_close();
                    if steered.is_empty() {
                        return Vec::new();
                    }
                    match self.feed(machine, Event::Steered(steered.clone())) {
                        Step::Done => return steered,
                        next => {
                            self.message_ended(false);
                            next
                        }
                    }
                }
            };
        }
    }

    /// Waits for `work`, an abort, or the end of the run's time, whichever comes first.
    pub(crate) async fn guard<T>(&self, work: impl Future<Output = T>) -> Result<T, Interrupt> {
        tokio::select! {
            biased;
            () = self.control.aborted() => Err(Interrupt::Abort),
            done = work => Ok(done),
            () = tokio::time::sleep_until(self.deadline()) => Err(Interrupt::Timeout),
        }
    }

    fn remaining(&self) -> Duration {
        self.deadline().saturating_duration_since(self.core.clock.instant())
    }

    pub(crate) fn feed(&self, machine: &mut Machine, event: Event) -> Step {
        let clock = &self.core.clock;
        let mut tick = Tick {
            now_ms: clock.now_ms(),
            new_id: &mut || clock.new_id(),
            remaining: self.remaining(),
            dice: clock.dice(),
        };
        machine.feed(event, &mut tick)
    }

    fn message_ended(&self, last: bool) {
        self.queue.event(|seq| StreamEvent::StreamEnd {
            run_id: self.context.run_id.clone(),
            r#final: last,
            seq,
        });
    }

    fn prefix_key(&self) -> PrefixKey {
        PrefixKey {
            session_label: self.context.session_label.clone(),
            api: self.provider.api(),
            provider: self.context.provider.clone(),
            model: self.context.model.clone(),
        }
    }

    /// Waits for the session's turn, then reads what its history has become.
    async fn open_session(&self, place: Option<Place>) -> Result<Session, StorageError> {
        let provider = self.provider.as_ref();
        let target = Target {
            api: provider.api(),
            provider: self.context.provider.clone(),
            model: self.context.model.clone(),
        };
        let (Some(journal), Some(place)) = (&self.core.journal, place) else {
            let mut conversation = Conversation::new(target);
            conversation.push_flat(self.context.history.as_deref().unwrap_or_default(), provider);
            return Ok(Session {
                conversation,
                expected_head: None,
                parent_turn_id: self.context.parent_turn_id.clone(),
                _lane: None,
            });
        };
        let label = &self.context.session_label;
        let lane = place.enter().await;
        if let Some(history) = &self.context.history {
            let head = journal.head(label).await?;
            let parent = self.parent(&head)?;
            if head.is_none() && parent.is_some() {
                // A session that begins at a turn of another one, which must be there before anything is sent.
                journal.history(label, parent.as_deref(), None).await?;
            }
            let mut conversation = Conversation::new(target);
            conversation.push_flat(history, provider);
            return Ok(Session {
                conversation,
                expected_head: head,
                parent_turn_id: parent,
                _lane: Some(lane),
            });
        }
        let kept = self.core.prefixes.take(&self.prefix_key());
        let known = kept.as_ref().map(|(head, _)| head.as_str());
        let mut history = journal.history(label, None, known).await?;
        let head = history.head.clone();
        let parent = self.parent(&head)?;
        if head.is_none() && parent.is_some() {
            // A session that begins at a turn of another one.
            history = journal.history(label, parent.as_deref(), None).await?;
        }
        let mut conversation = match (history.base, kept) {
            (HistoryBase::Known, Some((_, conversation))) => conversation,
            (HistoryBase::Known, None) | (HistoryBase::Root, _) => Conversation::new(target),
        };
        for turn in &history.turns {
            conversation.push_turn(turn, provider);
        }
        if let Some(head) = &head {
            // Kept as it is before this run's own messages: what they come to is read back from the ledger.
            self.core.prefixes.put(self.prefix_key(), head.clone(), conversation.clone());
        }
        Ok(Session { conversation, expected_head: head, parent_turn_id: parent, _lane: Some(lane) })
    }

    /// The turn this one follows: the session's head, which a given parent must agree with (RULES §5, "Pointer write").
    fn parent(&self, head: &Option<String>) -> Result<Option<String>, StorageError> {
        match (&self.context.parent_turn_id, head) {
            (None, head) => Ok(head.clone()),
            (Some(given), None) => Ok(Some(given.clone())),
            (Some(given), Some(head)) if given == head => Ok(Some(given.clone())),
            (Some(given), Some(head)) => Err(StorageError::new(
                StorageErrorKind::StaleHead,
                format!(
                    "`parentTurnId` is `{given}`, but the session's head is `{head}`; read the head again, or fork"
                ),
            )),
        }
    }

    /// One attempt at the model.
    async fn call_model(&self, conversation: &Conversation, spent: &mut Spent) -> Event {
        let credential = match &self.credential {
            Ok(credential) => credential.as_deref(),
            Err(failure) => {
                return Event::AttemptFailed {
                    failure: failure.clone(),
                    partial: None,
                    emitted: false,
                };
            }
        };
        if let Err(error) = conversation.sendable() {
            return Event::AttemptFailed {
                failure: error.to_failure(),
                partial: None,
                emitted: false,
            };
        }
        let max_tokens = self.max_tokens();
        let thinking = self.context.thinking_config.as_ref();
        let request = ModelRequest {
            model: self.context.model.clone(),
            system: self.context.system_prompt.clone(),
            tools: Arc::clone(self.tool_set.tools()),
            messages: conversation.pieces(self.provider.as_ref()),
            max_tokens,
            temperature: self.context.temperature.filter(|_| self.model.temperature),
            thinking: thinking.and_then(|asked| self.model.thinking_for(asked, max_tokens)),
            reasoning_model: self.model.reasoning,
        };
        let message_id = self.core.clock.new_id();
        let mut sink =
            Attempt::new(Arc::clone(&self.queue), self.core.clock.clone(), message_id.clone());
        let began = self.core.clock.instant();
        let attempt = u32::try_from(spent.attempts.len()).unwrap_or(u32::MAX).saturating_add(1);
        let span = telemetry::call_span(&self.context.provider, &self.context.model, attempt);
        let call = self.provider.stream(&request, credential, &mut sink).instrument(span);
        let answer = self.guard(call).await;
        let ms = millis(self.core.clock.instant().saturating_duration_since(began));
        let emitted = sink.emitted();
        let accumulated = sink.into_accumulator().finish();
        let ended = matches!(answer, Ok(Ok(_)));
        let estimated = accumulated.usage.is_none();
        let usage = accumulated.usage.unwrap_or_else(|| {
            if ended || !accumulated.blocks.is_empty() {
                ReportedUsage {
                    input: request.messages.iter().map(|piece| piece.len() as u64 / 4).sum(),
                    output: estimate::block_tokens(&accumulated.blocks),
                    ..ReportedUsage::default()
                }
            } else {
                ReportedUsage::default()
            }
        });
        let reply = Reply {
            message_id,
            blocks: accumulated.blocks,
            provenance: Provenance {
                provider: self.context.provider.clone(),
                api: self.provider.api().as_str().to_owned(),
                model: self.context.model.clone(),
                response_id: accumulated.response_id,
            },
            usage: usage.into(),
            usage_estimated: estimated && usage != ReportedUsage::default(),
        };
        let (status, reason) = match &answer {
            Ok(Ok(completion)) => (Some(completion.status), None),
            Ok(Err(failure)) => {
                let code = failure.code.as_deref().unwrap_or_default();
                let kind = failure.kind.as_str();
                telemetry::call_failed(&self.context.provider, kind, code, failure.status);
                (failure.status, Some(failure.kind))
            }
            Err(Interrupt::Abort) => (None, Some(FailureKind::Aborted)),
            Err(Interrupt::Timeout) => (None, Some(FailureKind::Timeout)),
        };
        spent.add(self.model.cost_of(&usage.into(), 0));
        spent.attempts.push(AttemptRow {
            provider: self.context.provider.clone(),
            model: self.context.model.clone(),
            profile_id: credential.map(|credential| credential.profile_id.clone()),
            ok: ended,
            status,
            reason,
            ms,
        });
        match answer {
            Ok(Ok(completion)) => {
                Event::Replied { reply, stop: completion.stop, stop_raw: completion.stop_raw }
            }
            Ok(Err(failure)) => Event::AttemptFailed { failure, partial: Some(reply), emitted },
            Err(cause) => Event::Interrupted { cause, partial: Some(reply) },
        }
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.started + Duration::from_millis(self.context.timeout_ms)
    }

    /// The limit of a tool that names none.
    pub(crate) fn tool_timeout(&self) -> Option<Duration> {
        self.context.tool_timeout_ms.or(self.core.tool_timeout_ms).map(Duration::from_millis)
    }

    fn max_tokens(&self) -> u64 {
        /// What is asked for where the host names no cap: long answers are rare, and the reservation counts against limits.
        const DEFAULT_CAP: u64 = 32_000;
        self.context
            .max_response_tokens
            .unwrap_or(DEFAULT_CAP)
            .min(self.model.max_output_tokens)
            .max(1)
    }

    async fn run_tools(&self, machine: &mut Machine, calls: Vec<PendingCall>) -> Step {
        self.queue.phase(AgentPhase::ToolUse, self.core.clock.now_ms());
        batch::run(self, machine, calls).await
    }

    /// Commits, then tells the end: the terminal event comes after the commit, the result after the event.
    async fn finish(
        &self,
        machine: Machine,
        session: Option<Session>,
        spent: Spent,
        undelivered_steering: Vec<String>,
    ) {
        let clock = &self.core.clock;
        let Some(outcome) = machine.outcome().cloned() else { return };
        let ended = Ended {
            turn_id: self.turn_id.clone(),
            parent_turn_id: session
                .as_ref()
                .map_or(&self.context.parent_turn_id, |session| &session.parent_turn_id)
                .clone(),
            expected_head: session.as_ref().and_then(|session| session.expected_head.clone()),
            started_at: self.started_ms,
            completed_at: clock.now_ms(),
            duration_ms: millis(clock.instant().saturating_duration_since(self.started)),
            attempts: spent.attempts,
            cost: spent.cost,
            undelivered_steering,
        };
        let stop = outcome.stop_reason;
        let journal = self.core.journal.as_ref();
        let began = session.is_some();
        let (mut result, commit) =
            outcome::build(&self.context, machine, outcome, ended, journal.map(|_| began));
        if let (Some(journal), Some(mut commit)) = (journal, commit) {
            if !began && commit.parent_turn_id.is_none() {
                // It ended before the session was its own: the row stands beside the session's thread, which goes on.
                commit.parent_turn_id =
                    journal.head(&self.context.session_label).await.unwrap_or_default();
            }
            let span = telemetry::commit_span(&self.turn_id);
            let aside = TurnCommit { move_pointer: false, ..commit.as_ref().clone() };
            let mut committed = journal.commit(commit).instrument(span).await;
            if let Err(error) = &committed {
                telemetry::storage_failed(error.kind.code());
                result.persist_error = Some(outcome::persist_error(error));
                if error.kind == StorageErrorKind::StaleHead {
                    // Another process moved the session meanwhile: the turn is kept beside its thread, which is not forked.
                    committed = journal.commit(Box::new(aside)).await;
                }
            }
            result.persisted = committed.is_ok();
        }
        drop(session);
        telemetry::run_ended(&self.turn_id, stop.as_str(), result.duration_ms);
        self.tell_end(stop, &result);
    }

    fn tell_end(&self, stop: StopReason, result: &AgentResult) {
        self.queue.phase(AgentPhase::End, self.core.clock.now_ms());
        if outcome::is_failure(stop) {
            let error =
                result.error.as_ref().map(|error| error.message.clone()).unwrap_or_default();
            let partial = self.queue.spoke();
            self.queue.event(|seq| StreamEvent::StreamError { error, partial, seq });
        } else {
            self.message_ended(true);
        }
        let json = serde_json::to_string(result).unwrap_or_default();
        self.queue.host(RecordKind::Result, &json);
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn storage_error(error: &StorageError) -> AgentError {
    AgentError {
        kind: AgentErrorKind::Unknown,
        message: error.message.clone(),
        retryable: false,
        detail: ErrorDetail {
            kind: FailureKind::Storage,
            status: None,
            code: Some(error.kind.code().to_owned()),
            retry_after_ms: None,
        },
    }
}
