//! The broker's driver for JavaScript: messages in, receipts out; turns that are to begin, and what became of messages, as
//! records of the hub.
//!
//! It must never decide anything, or hold a message.

use std::sync::{Arc, Weak};
use std::time::Duration;

use napi::Result;
use napi_derive::napi;
use serde::Deserialize;
use serde_json::json;

use super::super::engine::{Begin, NativeEngine};
use super::super::errors::js_error;
use super::super::hub::HubCore;
use super::super::input::{CrossingContext, KnownHistory, RunFlags};
use super::super::reply::{Answer, reply};
use super::decisions;
use super::json::{delivery_json, item_json, receipt_json, schedule_json};
use super::prompts::prompt_of;
use crate::dispatch::{
    Arming, DispatchParts, Dispatcher, EndedTurn, EnteringMessage, LaneLimits, SessionState,
    StartTurn, SteeredItems, TaskLimits, TurnHost,
};
use crate::engine::{QueuedTurn, Tasks};
use base::error::{EngineError, ErrorCode};
use model::{
    Defaults, DropPolicy, InputError, Message, NewItem, QueueItem, QueueLimits, QueueMode,
    QueueTarget, Role, Route, SpendingLimits, StorageError, StoredDelivery, StoredItem,
    StoredSchedule, TurnBudget, from_json, parse_message, session_label,
};

/// The options of a broker, as JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Options {
    cap: usize,
    drop: DropPolicy,
    debounce_ms: u32,
    main: usize,
    worker: usize,
    pulse_ms: u32,
    composes: bool,
}

/// A message that is sent, as JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Sent {
    id: String,
    #[serde(default)]
    session: Option<String>,
    #[serde(default)]
    thread: Option<String>,
    mode: QueueMode,
    source: String,
    #[serde(default)]
    route: Route,
    principal: String,
    #[serde(default)]
    is_system: bool,
    message: String,
    request: String,
    #[serde(default)]
    event_id: Option<String>,
}

struct JsTurnHost {
    hub: Weak<HubCore>,
    /// The number of the broker in its environment.
    number: u32,
}

impl JsTurnHost {
    fn event(&self, event: &serde_json::Value) {
        if let Some(hub) = self.hub.upgrade() {
            hub.reply(&format!(r#"{{"id":0,"broker":{},"event":{event}}}"#, self.number));
        }
    }
}

impl TurnHost for JsTurnHost {
    fn is_alive(&self) -> bool {
        self.hub.upgrade().is_some_and(|hub| hub.is_open())
    }

    fn start(&self, turn: StartTurn) {
        let items: Vec<_> = turn.items.iter().map(item_json).collect();
        self.event(&json!({
            "type": "start", "turnId": turn.turn_id, "runId": turn.run_id, "sessionLabel": turn.session_label,
            "items": items, "dropped": turn.dropped, "note": turn.note, "timeoutMs": turn.limits.timeout_ms,
            "budget": turn.limits.budget.as_ref().map(budget_json),
        }));
    }

    fn resume(&self, turn_id: &str, session_label: &str, limits: TaskLimits) {
        let budget = limits.budget.as_ref().map(budget_json);
        self.event(&json!({
            "type": "resume", "turnId": turn_id, "sessionLabel": session_label,
            "timeoutMs": limits.timeout_ms, "budget": budget,
        }));
    }

    fn compose(&self, session_label: &str, turn_id: &str, items: Vec<StoredItem>) {
        let items: Vec<_> = items.iter().map(item_json).collect();
        self.event(&json!({
            "type": "compose", "turnId": turn_id, "sessionLabel": session_label, "items": items,
        }));
    }

    fn approvals_changed(&self, session_label: &str, turn_id: &str) {
        self.event(
            &json!({ "type": "approvals", "turnId": turn_id, "sessionLabel": session_label }),
        );
    }

    fn steered(&self, steered: SteeredItems) {
        self.event(
            &json!({ "type": "steered", "turnId": steered.turn_id, "items": steered.items }),
        );
    }

    fn ended(&self, turn: EndedTurn) {
        let items: Vec<_> = turn.items.iter().map(item_json).collect();
        self.event(&json!({ "type": "ended", "turnId": turn.turn_id, "items": items }));
    }

    fn ended_elsewhere(&self, items: Vec<StoredItem>) {
        // As those that have failed here: each has the turn in which it ended.
        self.failed(items);
    }

    fn abort_parked(&self, session_label: &str) {
        self.event(&json!({ "type": "abortParked", "sessionLabel": session_label }));
    }

    fn failed(&self, items: Vec<StoredItem>) {
        let items: Vec<_> = items.iter().map(item_json).collect();
        self.event(&json!({ "type": "failed", "items": items }));
    }

    fn deliver(&self, delivery: StoredDelivery) {
        self.event(&json!({ "type": "deliver", "delivery": delivery_json(&delivery) }));
    }

    fn delivery_parked(&self, delivery: StoredDelivery) {
        self.event(&json!({ "type": "parked", "delivery": delivery_json(&delivery) }));
    }

    fn due(&self, schedules: Vec<StoredSchedule>) {
        let schedules: Vec<_> = schedules.iter().map(schedule_json).collect();
        self.event(&json!({ "type": "due", "schedules": schedules }));
    }

    fn error(&self, error: &StorageError) {
        let (code, message) = (error.kind.code(), &error.message);
        self.event(&json!({ "type": "error", "code": code, "message": message }));
    }
}

/// The driver of a broker.
/// @internal
#[napi]
pub struct NativeBroker {
    pub(super) dispatcher: Arc<Dispatcher>,
    hub: Arc<HubCore>,
    tasks: Tasks,
}

impl NativeBroker {
    fn build(
        engine: &NativeEngine,
        options: &str,
        number: u32,
    ) -> std::result::Result<Self, EngineError> {
        let options: Options = from_json(options).map_err(EngineError::option)?;
        let ledger = engine.ledger.clone().ok_or_else(|| {
            EngineError::new(
                ErrorCode::NoLedger,
                "a broker stores its messages in the ledger of its engine; pass `ledger: { path }` to the engine",
            )
        })?;
        if !engine.engine().records_steps() {
            return Err(EngineError::option(InputError {
                path: "engine".to_owned(),
                message: "has `ledger.journal: 'final'`; a broker needs 'full', so that no message is answered twice"
                    .to_owned(),
            }));
        }
        let tasks = engine.tasks().sibling();
        let hub = Arc::clone(engine.hub());
        let dispatcher = Dispatcher::start(DispatchParts {
            store: ledger.queue,
            deliveries: ledger.deliveries,
            schedules: ledger.schedules,
            dispatches: ledger.dispatches,
            admin: ledger.admin,
            journal: ledger.journal,
            engine: Arc::clone(engine.engine()),
            host: Arc::new(JsTurnHost { hub: Arc::downgrade(&hub), number }),
            clock: engine.clock.clone(),
            tasks: tasks.sibling(),
            limits: QueueLimits {
                cap: options.cap,
                drop: options.drop,
                debounce_ms: i64::from(options.debounce_ms),
            },
            lanes: LaneLimits { main: options.main, worker: options.worker },
            pulse: Duration::from_millis(u64::from(options.pulse_ms.max(1))),
            composes: options.composes,
        });
        Ok(Self { dispatcher, hub, tasks })
    }

    pub(super) fn answer(&self, id: u32, work: impl Future<Output = Answer> + Send + 'static) {
        let hub = Arc::clone(&self.hub);
        self.tasks.spawn(async move { reply(&hub, id, work.await) });
    }
}

#[napi]
impl NativeBroker {
    /// `options` is the JSON of the queue's and the lanes' limits; `number` is the broker's in this environment.
    #[napi(constructor, catch_unwind)]
    pub fn new(engine: &NativeEngine, options: String, number: u32) -> Result<Self> {
        Self::build(engine, &options, number).map_err(|error| js_error(&error))
    }

    /// Queues a message; answers request `id` with its receipt.
    #[napi(catch_unwind)]
    pub fn send(&self, id: u32, args: String) -> Result<()> {
        let new = new_item(&args).map_err(|error| js_error(&error))?;
        let sent = self.dispatcher.send(new);
        self.answer(id, async move { Ok(receipt_json(&sent.await?)) });
        Ok(())
    }

    /// Begins turn `turn` of a session as run number `run`: `items` are its messages of the queue, `named` the dropped ones that it
    /// names, `earlier` the JSON of its user messages before the context's current one. The other arguments are those of
    /// `NativeEngine.run`.
    #[napi(catch_unwind)]
    pub fn run(
        &self,
        engine: &NativeEngine,
        run: u32,
        turn: QueuedTurnArgs,
        context: String,
        known: Option<KnownHistory>,
        flags: u32,
    ) -> Result<Option<i64>> {
        self.hub.expect_drain();
        let earlier = messages(&turn.earlier, &engine.clock).map_err(|error| js_error(&error))?;
        let crossing = CrossingContext { json: context, known };
        let (queued, arming) = self.queued(engine, &turn, earlier)?;
        let begun = engine.start(run, Begin::Queued(queued), &crossing, RunFlags(flags));
        self.begun(&turn, run, &arming, begun)
    }

    /// Resumes turn `turn` of a session as run number `run`, after its last event.
    #[napi(catch_unwind)]
    pub fn resume(
        &self,
        engine: &NativeEngine,
        run: u32,
        turn: QueuedTurnArgs,
        context: String,
        known: Option<KnownHistory>,
        flags: u32,
    ) -> Result<Option<i64>> {
        self.hub.expect_drain();
        let crossing = CrossingContext { json: context, known };
        let (queued, arming) = self.queued(engine, &turn, Vec::new())?;
        let begin = Begin::Resumed(turn.turn_id.clone(), u64::from(turn.last_event), Some(queued));
        let begun = engine.start(run, begin, &crossing, RunFlags(flags));
        self.begun(&turn, run, &arming, begun)
    }

    fn queued(
        &self,
        engine: &NativeEngine,
        turn: &QueuedTurnArgs,
        earlier: Vec<Message>,
    ) -> Result<(QueuedTurn, Arming)> {
        let prompt = turn
            .prompt
            .as_deref()
            .map(|args| prompt_of(engine, (&turn.session_label, &turn.turn_id), args))
            .transpose()?;
        let (guard, arming) = self.dispatcher.guard(&turn.session_label, &turn.turn_id);
        let queued = QueuedTurn {
            turn_id: turn.turn_id.clone(),
            items: turn.items.clone(),
            named: turn.named.clone(),
            earlier,
            leaves: turn.leaves.clone(),
            prompt,
            budget: turn.budget.as_ref().map(budget_of),
            ended: Box::new(guard),
        };
        Ok((queued, arming))
    }

    fn begun(
        &self,
        turn: &QueuedTurnArgs,
        run: u32,
        arming: &Arming,
        begun: std::result::Result<Option<i64>, EngineError>,
    ) -> Result<Option<i64>> {
        let begun = begun.map_err(|error| js_error(&error))?;
        if begun.is_none() {
            return Ok(None);
        }
        if let Some(control) = self.hub.with_run(run, |entry| Arc::clone(&entry.control)) {
            self.dispatcher.begun(&turn.session_label, &turn.turn_id, control);
        }
        arming.arm();
        Ok(begun)
    }

    /// Messages that were offered to a running turn enter it.
    #[napi(catch_unwind)]
    pub fn enter_turn(
        &self,
        session_label: String,
        turn_id: String,
        messages: Vec<ComposedMessage>,
    ) -> Result<()> {
        let entering = |it: ComposedMessage| -> Result<EnteringMessage> {
            let ComposedMessage { id, message, layers } = it;
            Ok(EnteringMessage { id, message, layers: Some(decisions::checked(&layers)?) })
        };
        let messages = messages.into_iter().map(entering).collect::<Result<Vec<_>>>()?;
        self.dispatcher.enter_turn(&session_label, turn_id, messages);
        Ok(())
    }

    /// A turn cannot begin: its messages fail with this reason.
    #[napi(catch_unwind)]
    pub fn refuse(&self, session_label: String, turn_id: String, detail: String) {
        self.dispatcher.refuse(&session_label, &turn_id, detail);
    }

    /// The engine closes: a turn is neither begun nor resumed, and its messages are left for the next broker.
    #[napi(catch_unwind)]
    pub fn abandon(&self, session_label: String, turn_id: String) {
        self.dispatcher.abandon(&session_label, &turn_id);
    }

    /// An interrupted turn cannot be resumed: it is closed.
    #[napi(catch_unwind)]
    pub fn close_turn(&self, session_label: String, turn_id: String) {
        self.dispatcher.close_turn(&session_label, &turn_id);
    }

    /// An interrupted turn is not this broker's to resume: it has ended, or another process runs it.
    #[napi(catch_unwind)]
    pub fn release_turn(&self, session_label: String, turn_id: String) {
        self.dispatcher.turn_ended(&session_label, &turn_id);
    }

    /// The messages of a session that wait or are in a turn; answers request `id`.
    #[napi(catch_unwind)]
    pub fn queue(&self, id: u32, label: String) -> Result<()> {
        let label = checked(&label)?;
        let store = Arc::clone(self.dispatcher.store());
        self.answer(id, async move {
            let items: Vec<_> = store.waiting_items(&label).await?.iter().map(item_json).collect();
            Ok(serde_json::Value::from(items).to_string())
        });
        Ok(())
    }

    /// Cancels a message that waits; answers request `id` with whether it did.
    #[napi(catch_unwind)]
    pub fn cancel(&self, id: u32, item: String) {
        let dispatcher = Arc::clone(&self.dispatcher);
        self.answer(id, async move { Ok(dispatcher.cancel(item).await?.to_string()) });
    }

    /// Cancels all messages of a session that wait; answers request `id`.
    #[napi(catch_unwind)]
    pub fn clear(&self, id: u32, label: String) -> Result<()> {
        let label = checked(&label)?;
        let dispatcher = Arc::clone(&self.dispatcher);
        self.answer(id, async move {
            dispatcher.clear(label).await?;
            Ok("null".to_owned())
        });
        Ok(())
    }

    /// Suspends a session's queue, or ends that; answers request `id`.
    #[napi(catch_unwind)]
    pub fn suspend(&self, id: u32, label: String, is_suspended: bool) -> Result<()> {
        let label = checked(&label)?;
        let dispatcher = Arc::clone(&self.dispatcher);
        self.answer(id, async move {
            dispatcher.suspend(label, is_suspended).await?;
            Ok("null".to_owned())
        });
        Ok(())
    }

    /// Aborts the turn of a session that runs here; false where none does.
    #[napi(catch_unwind)]
    pub fn abort(&self, label: String) -> bool {
        self.dispatcher.abort_turn(&label)
    }

    /// What a session is doing here.
    #[napi(catch_unwind)]
    pub fn state(&self, label: String) -> String {
        let name = match self.dispatcher.state_of(&label) {
            SessionState::Idle => "idle",
            SessionState::Running => "running",
            SessionState::Streaming => "streaming",
            SessionState::Compacting => "compacting",
        };
        name.to_owned()
    }

    /// Begins no turn from now on; answers request `id` when those that run have ended.
    #[napi(catch_unwind)]
    pub fn close(&self, id: u32) {
        self.dispatcher.close();
        let dispatcher = Arc::clone(&self.dispatcher);
        self.answer(id, async move {
            dispatcher.quiet().await;
            Ok("null".to_owned())
        });
    }

    /// Aborts all turns that run here.
    #[napi(catch_unwind)]
    pub fn abort_all(&self) {
        self.dispatcher.abort_all();
    }
}

/// A message that the host has composed for a running turn.
/// @internal
#[napi(object)]
pub struct ComposedMessage {
    /// Its id.
    pub id: String,
    /// Its JSON.
    pub message: String,
    /// The JSON of its layers.
    pub layers: String,
}

/// What a turn may spend.
/// @internal
#[napi(object)]
pub struct TurnBudgetArgs {
    /// Its account.
    pub account: String,
    /// In tokens.
    pub max_tokens: Option<i64>,
    /// In US dollars.
    pub max_cost: Option<f64>,
}

fn budget_of(args: &TurnBudgetArgs) -> TurnBudget {
    let tokens = args.max_tokens.map(|most| u64::try_from(most).unwrap_or(0));
    TurnBudget { account: args.account.clone(), limits: SpendingLimits::of(tokens, args.max_cost) }
}

fn budget_json(budget: &TurnBudget) -> serde_json::Value {
    let TurnBudget { account, limits } = budget;
    json!({ "account": account, "maxTokens": limits.tokens, "maxCost": limits.cost() })
}

/// A turn of a queue.
/// @internal
#[napi(object)]
pub struct QueuedTurnArgs {
    /// Its ULID.
    pub turn_id: String,
    /// Its session.
    pub session_label: String,
    /// Its messages of the queue.
    pub items: Vec<String>,
    /// The dropped messages that it names.
    pub named: Vec<String>,
    /// The JSON of the user messages before its current one.
    pub earlier: String,
    /// The head of its session, if the turn starts another thread in place of following it.
    pub leaves: Option<String>,
    /// How its system prompt is made again after a compaction, as JSON; absent where that never changes.
    pub prompt: Option<String>,
    /// What it may spend.
    pub budget: Option<TurnBudgetArgs>,
    /// The number of its newest stored event; 0 for a new turn.
    pub last_event: u32,
}

pub(super) fn checked(label: &str) -> Result<String> {
    session_label("label", label)
        .map_err(|error| js_error(&EngineError::at(ErrorCode::InvalidLabel, error)))
}

pub(super) fn new_item(args: &str) -> std::result::Result<NewItem, EngineError> {
    let sent: Sent = from_json(args).map_err(EngineError::option)?;
    let to = match (sent.thread, sent.session) {
        (Some(turn_id), _) => QueueTarget::Thread { turn_id, fork: format!("fork-{}", sent.id) },
        (None, session) => {
            let label = session.unwrap_or_default();
            let label = session_label("to.session", &label)
                .map_err(|error| EngineError::at(ErrorCode::InvalidLabel, error))?;
            QueueTarget::Session(label)
        }
    };
    Ok(NewItem {
        item: QueueItem {
            id: sent.id,
            mode: sent.mode,
            route: sent.route,
            principal: sent.principal,
            is_system: sent.is_system,
            tries: 0,
            failures: 0,
            not_before: 0,
        },
        to,
        source: sent.source,
        message: sent.message,
        request: sent.request,
        event_id: sent.event_id,
        sender: None,
    })
}

/// The user messages of a turn before its current one.
fn messages(
    json: &str,
    clock: &base::clock::Clock,
) -> std::result::Result<Vec<Message>, EngineError> {
    let raw: Vec<Box<serde_json::value::RawValue>> =
        from_json(json).map_err(EngineError::context)?;
    let mut new_id = || clock.new_id();
    let mut defaults = Defaults { new_id: &mut new_id, now_ms: clock.now_ms() };
    let mut messages = Vec::with_capacity(raw.len());
    for (at, raw) in raw.iter().enumerate() {
        let path = format!("earlier[{at}]");
        let message =
            parse_message(&path, raw.get(), &mut defaults).map_err(EngineError::context)?;
        if message.role != Role::User {
            let path = format!("{path}.role");
            let message = "cannot open a turn; pass `user`".to_owned();
            return Err(EngineError::context(InputError { path, message }));
        }
        messages.push(message);
    }
    Ok(messages)
}
