//! Whole runs with the scripted provider, without JavaScript: every end, every abort point, the order of the events.

mod commit_points;
mod failover;
mod hooks;
mod long_histories;
mod reservations;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::sync::Notify as Signal;
use tokio_util::sync::CancellationToken;

use super::*;
use base::clock::Clock;
use model::{
    CallCost, CallStep, Catalogue, CommitReceipt, CompactionCommit, Defaults, EventGroup, Expense,
    HistoryBase, HistoryTurn, Journal, Message, OpenTurn, Opened, Overdrawn, PortFuture,
    Reservation, Reserved, SessionHistory, SpentBy, StorageError, StorageErrorKind, ToolCallRecord,
    TurnEnd, TurnLease, TurnOpening, TurnStep, parse_context,
};
use provider::{Provider, ProviderKeys, Script, ScriptedProvider};
use tools::{Invocation, ToolAnswer, ToolFuture, ToolHost};

/// A journal in memory: the committed turns, and the head.
#[derive(Default)]
struct Memory {
    turns: Mutex<Vec<TurnEnd>>,
    /// The written part of the running turn.
    open: Mutex<Option<(Vec<Message>, Vec<ToolCallRecord>)>>,
    /// What each step wrote, as text.
    steps: Mutex<Vec<String>>,
    /// How steps are refused.
    refuses: Mutex<Option<StorageErrorKind>>,
    full: std::sync::atomic::AtomicBool,
    accounts: Mutex<Accounts>,
}

/// One account, whatever it is called: what is reserved in it, by call, and what was spent, in tokens.
#[derive(Default)]
struct Accounts {
    reserved: HashMap<String, u64>,
    spent: u64,
}

impl Accounts {
    fn reserve(&mut self, reservation: &Reservation) -> Result<(), Overdrawn> {
        let Reservation { call_id, most, accounts } = reservation;
        let used = self.spent + self.reserved.values().sum::<u64>();
        let left = accounts[0].max_tokens.unwrap() - used;
        if most.tokens > left {
            return Err(Overdrawn { account: 0, left, is_cost: false });
        }
        assert!(self.reserved.insert(call_id.clone(), most.tokens).is_none(), "reserved once");
        Ok(())
    }
}

impl Journal for Memory {
    fn spent(&self, _by: SpentBy) -> PortFuture<'static, Expense> {
        Box::pin(std::future::ready(Ok(Expense::default())))
    }

    fn reserve(&self, reservation: Box<Reservation>) -> PortFuture<'static, Reserved> {
        let outcome = self.admit(&reservation);
        let what = if outcome.is_ok() { "reserved" } else { "refused" };
        self.steps.lock().unwrap().push(what.to_owned());
        Box::pin(std::future::ready(Ok(Some(outcome))))
    }

    fn begin_reserving(
        &self,
        opening: Box<TurnOpening>,
        reservation: Box<Reservation>,
    ) -> PortFuture<'static, (Opened<i64>, Reserved)> {
        let begun = self.begin(opening);
        let outcome = self.admit_with_step(&reservation);
        Box::pin(async move { Ok((begun.await?, Some(outcome))) })
    }

    fn record_reserving(
        &self,
        step: Box<TurnStep>,
        reservation: Box<Reservation>,
    ) -> PortFuture<'static, Reserved> {
        let recorded = self.record(step);
        let outcome = self.admit_with_step(&reservation);
        Box::pin(async move { recorded.await.map(|()| Some(outcome)) })
    }

    fn settle(&self, call_id: String, used: CallCost) {
        let mut accounts = self.accounts.lock().unwrap();
        accounts.reserved.remove(&call_id);
        accounts.spent += used.tokens;
        self.steps.lock().unwrap().push(format!("settle {}", used.tokens));
    }

    fn history<'a>(
        &'a self,
        _session_label: &'a str,
        _at: Option<&'a str>,
        known: Option<&'a str>,
    ) -> PortFuture<'a, SessionHistory> {
        Box::pin(async move {
            let turns = self.turns.lock().unwrap();
            let after = known
                .and_then(|known| turns.iter().position(|turn| turn.turn_id == known))
                .map_or(0, |at| at + 1);
            Ok(SessionHistory {
                exists: !turns.is_empty(),
                head: turns.last().map(|turn| turn.turn_id.clone()),
                base: if after > 0 { HistoryBase::Known } else { HistoryBase::Root },
                summarised: false,
                turns: turns[after..]
                    .iter()
                    .map(|turn| HistoryTurn {
                        id: turn.turn_id.clone(),
                        status: turn.status,
                        edited: false,
                        edited_messages: 0,
                        messages: turn.messages.clone(),
                    })
                    .collect(),
            })
        })
    }

    fn id(&self) -> String {
        format!("{:p}", self)
    }

    fn head<'a>(&'a self, _session_label: &'a str) -> PortFuture<'a, Option<String>> {
        Box::pin(
            async move { Ok(self.turns.lock().unwrap().last().map(|turn| turn.turn_id.clone())) },
        )
    }

    fn session_named<'a>(&'a self, label: &'a str) -> PortFuture<'a, String> {
        Box::pin(std::future::ready(Ok(label.to_owned())))
    }

    fn answered_with<'a>(
        &'a self,
        _turn_id: &'a str,
        _provider: &'a str,
    ) -> PortFuture<'a, Option<String>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    fn agent_of<'a>(
        &'a self,
        _label: &'a str,
        _follows: Option<&'a str>,
    ) -> PortFuture<'a, String> {
        Box::pin(std::future::ready(Ok("default".to_owned())))
    }

    fn begin(&self, opening: Box<TurnOpening>) -> PortFuture<'static, Opened<i64>> {
        let mut open = self.open.lock().unwrap();
        let began = if self.full.load(Ordering::Relaxed) {
            Err(StorageError::new(StorageErrorKind::Full, "the disk is full"))
        } else {
            assert!(open.is_none(), "one run at a time");
            *open = Some((opening.messages, Vec::new()));
            self.steps.lock().unwrap().push("W0".to_owned());
            Ok(Opened::Leased(1))
        };
        Box::pin(std::future::ready(began))
    }

    fn record(&self, step: Box<TurnStep>) -> PortFuture<'static, ()> {
        let said = |message: &Message| message.role.as_str().to_owned();
        let call = |call: &CallStep| format!("{} {}", call.row.tool_name, call.row.status.as_str());
        let what: Vec<String> =
            step.messages.iter().map(said).chain(step.calls.iter().map(call)).collect();
        self.steps.lock().unwrap().push(what.join(", "));
        if let Some(kind) = *self.refuses.lock().unwrap() {
            return Box::pin(std::future::ready(Err(StorageError::new(kind, "refused"))));
        }
        let mut open = self.open.lock().unwrap();
        let (messages, calls) = open.as_mut().unwrap();
        for message in step.messages {
            assert!(messages.iter().all(|other| other.id != message.id), "written once");
            messages.push(message);
        }
        for call in step.calls {
            calls.retain(|other| other.call_id != call.row.call_id);
            calls.push(call.row);
        }
        Box::pin(std::future::ready(Ok(())))
    }

    fn release(&self, _session_label: &str, _lease: &TurnLease) {
        *self.open.lock().unwrap() = None;
    }

    fn stop_waiting(&self, _session_label: &str) {}

    fn interrupted(&self, _turn_id: Option<&str>) -> PortFuture<'static, Vec<OpenTurn>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn reopen(&self, _turn_id: &str) -> PortFuture<'static, Opened<Box<OpenTurn>>> {
        Box::pin(std::future::ready(Ok(Opened::Busy)))
    }

    fn compact(&self, _commit: Box<CompactionCommit>) -> PortFuture<'static, ()> {
        let refused = StorageError::new(StorageErrorKind::Full, "the disk is full");
        Box::pin(std::future::ready(Err(refused)))
    }

    fn commit(&self, turn: Box<TurnEnd>) -> PortFuture<'static, CommitReceipt> {
        Box::pin(std::future::ready(self.keep(turn)))
    }
}

impl Memory {
    fn admit(&self, reservation: &Reservation) -> Result<(), Overdrawn> {
        self.accounts.lock().unwrap().reserve(reservation)
    }

    /// Reserves a call with the newest step.
    fn admit_with_step(&self, reservation: &Reservation) -> Result<(), Overdrawn> {
        let outcome = self.admit(reservation);
        let what = if outcome.is_ok() { " + reserved" } else { " + refused" };
        self.steps.lock().unwrap().last_mut().unwrap().push_str(what);
        outcome
    }

    fn keep(&self, mut turn: Box<TurnEnd>) -> Result<CommitReceipt, StorageError> {
        if self.full.load(Ordering::Relaxed) {
            return Err(StorageError::new(StorageErrorKind::Full, "the disk is full"));
        }
        if turn.epoch.is_some() {
            // The facts of earlier steps and of this one.
            let opened = self.open.lock().unwrap().take().unwrap();
            let (messages, calls) = (turn.messages, turn.tool_calls);
            (turn.messages, turn.tool_calls) = opened;
            turn.messages.extend(messages);
            turn.messages.sort_by_key(|message| message.sequence);
            turn.tool_calls.retain(|old| calls.iter().all(|new| new.call_id != old.call_id));
            turn.tool_calls.extend(calls);
            turn.tool_calls.sort_by_key(|call| call.sequence);
        }
        assert_eq!(turn.tool_calls.len(), turn.tool_call_count);
        {
            let mut turns = self.turns.lock().unwrap();
            let head = turns.last().map(|turn| turn.turn_id.clone());
            if turn.move_pointer {
                assert_eq!(head, turn.header.expected_head, "the run knew the session's head");
            }
            let turn_id = turn.turn_id.clone();
            turns.push(*turn);
            Ok(CommitReceipt { turn_id: turn_id.clone(), head: Some(turn_id), stale_head: None })
        }
    }
}

/// Tools: `echo` returns, `hang` never does, `fail` fails.
#[derive(Default)]
struct Host {
    calls: Arc<AtomicUsize>,
    hanging: Arc<Signal>,
}

impl ToolHost for Host {
    fn execute(&self, invocation: Invocation, _cancel: CancellationToken) -> ToolFuture {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let hanging = Arc::clone(&self.hanging);
        Box::pin(async move {
            match invocation.tool_name.as_str() {
                "hang" => {
                    hanging.notify_one();
                    std::future::pending().await
                }
                "fail" => ToolAnswer::error("it broke"),
                _ => ToolAnswer::text(invocation.arguments_json),
            }
        })
    }
}

#[derive(Default)]
struct TestNotify(Signal);

impl Notify for TestNotify {
    fn ready(&self, _queue: &Arc<EventQueue>, _emitted: bool, _urgent: bool) {
        self.0.notify_one();
    }
}

struct Rig {
    engine: Engine,
    provider: Arc<ScriptedProvider>,
    journal: Arc<Memory>,
    host: Arc<Host>,
}

fn scripted(script: &Value) -> ScriptedProvider {
    let script: Script = serde_json::from_value(script.clone()).unwrap();
    ScriptedProvider::new(script)
}

/// An engine with the provider `test`.
fn engine(entry: ProviderEntry, journal: Option<Arc<dyn Journal>>, clock: Clock) -> Engine {
    engine_with(entry, journal, clock, Budgets::default())
}

fn engine_with(
    entry: ProviderEntry,
    journal: Option<Arc<dyn Journal>>,
    clock: Clock,
    budgets: Budgets,
) -> Engine {
    let declared = serde_json::from_value(
        json!([{ "provider": "test", "id": "m", "contextWindow": 100_000 }]),
    )
    .unwrap();
    Engine::new(EngineParts {
        approvals: None,
        providers: HashMap::from([("test".to_owned(), entry)]),
        catalogue: Catalogue::with_declared(declared).unwrap(),
        journal,
        journal_mode: JournalMode::Full,
        clock,
        tasks: Tasks::on(Handle::current()),
        tool_timeout_ms: None,
        compaction: Some(CompactionOptions::default()),
        pruning: None,
        guard: ContextGuard::default(),
        budgets,
        policies: Vec::new(),
        planner: None,
        failover: FailoverOptions::default(),
        governor: Some(GovernorOptions { max_wait: Duration::from_secs(60) }),
        profiles: None,
        ratios: None,
    })
}

struct Started {
    control: Arc<RunControl>,
    queue: Arc<EventQueue>,
    notify: Arc<TestNotify>,
    seen: Vec<(u32, String)>,
}

impl Rig {
    fn new(script: &Value) -> Self {
        Self::with(script, Clock::default(), ProviderKeys::default())
    }

    fn with(script: &Value, clock: Clock, keys: ProviderKeys) -> Self {
        Self::budgeted(script, clock, keys, Budgets::default())
    }

    fn budgeted(script: &Value, clock: Clock, keys: ProviderKeys, budgets: Budgets) -> Self {
        let provider = Arc::new(scripted(script));
        let entry = ProviderEntry { provider: Arc::clone(&provider) as Arc<dyn Provider>, keys };
        let journal = Arc::new(Memory::default());
        let stored = Some(Arc::clone(&journal) as Arc<dyn Journal>);
        let engine = engine_with(entry, stored, clock, budgets);
        Self { engine, provider, journal, host: Arc::default() }
    }

    /// Waits until the provider has received this many requests.
    async fn requests(&self, times: usize) {
        let count = || -> usize {
            let requests: Value = serde_json::from_str(&self.provider.requests_json()).unwrap();
            requests.as_array().unwrap().len()
        };
        while count() < times {
            tokio::task::yield_now().await;
        }
    }

    fn start(&self, changes: &Value) -> Started {
        start(&self.engine, &self.host, changes)
    }
}

/// Starts a run of a context with these changes.
fn start(engine: &Engine, host: &Arc<Host>, changes: &Value) -> Started {
    start_with(engine, Arc::clone(host) as Arc<dyn ToolHost>, changes)
}

fn start_with(engine: &Engine, host: Arc<dyn ToolHost>, changes: &Value) -> Started {
    let tool = |name: &str, mode: &str| json!({ "name": name, "parameters": { "type": "object" }, "executionMode": mode });
    let mut context = json!({
        "systemPrompt": "s", "currentMessage": { "role": "user", "content": "hi" },
        "tools": [tool("echo", "sequential"), tool("hang", "parallel"), tool("fail", "parallel")],
        "model": "m", "provider": "test", "timeoutMs": 60_000, "runId": "r", "sessionLabel": "s",
        "role": "unified", "toolsetName": "t", "permissionsGranted": [], "workspacePath": "/",
    });
    for (key, value) in changes.as_object().unwrap() {
        context[key] = value.clone();
    }
    let clock = Clock::default();
    let mut new_id = || clock.new_id();
    let context =
        parse_context(&context.to_string(), &mut Defaults { new_id: &mut new_id, now_ms: 0 })
            .unwrap();
    let notify = Arc::new(TestNotify::default());
    let queue = EventQueue::new(
        1,
        Delivery { coalesce: true, phases: true, skipped: EventGroup::Usage as u32 },
        Arc::clone(&notify) as Arc<dyn Notify>,
    );
    let control = Arc::new(RunControl::default());
    let handles = RunHandles {
        joining: None,
        host,
        queue: Arc::clone(&queue),
        control: Arc::clone(&control),
        hook: None,
        queued: None,
    };
    engine.start(context, handles).unwrap();
    Started { control, queue, notify, seen: Vec::new() }
}

impl Started {
    fn read(&mut self) {
        let mut batch = RecordBatch::default();
        self.queue.drain(&mut batch, usize::MAX);
        let units: Vec<u16> = batch.text.encode_utf16().collect();
        let mut start = 0;
        for row in batch.rows.chunks(RecordBatch::WIDTH) {
            let end = row[4] as usize;
            self.seen.push((row[1], String::from_utf16(&units[start..end]).unwrap()));
            start = end;
        }
    }

    /// Reads until a record of this kind has this text.
    async fn until(&mut self, kind: RecordKind, part: &str) {
        loop {
            self.read();
            if self.seen.iter().any(|(k, text)| *k == kind as u32 && text.contains(part)) {
                return;
            }
            self.notify.0.notified().await;
        }
    }

    /// Reads to the end: the result, and the events as one short line each.
    async fn end(&mut self) -> (Value, Vec<String>) {
        self.until(RecordKind::Result, "").await;
        let (last, result) = self.seen.last().cloned().unwrap();
        assert_eq!(last, RecordKind::Result as u32, "nothing comes after the result");
        let events = self
            .seen
            .iter()
            .filter_map(|(kind, text)| match kind {
                0 => Some(format!("token {text}")),
                1 => Some(format!("reasoning {text}")),
                3 => {
                    let event: Value = serde_json::from_str(text).unwrap();
                    let kind = event["type"].as_str().unwrap();
                    Some(match kind {
                        "tool_status" => format!(
                            "{} {}",
                            event["toolName"].as_str().unwrap(),
                            event["status"].as_str().unwrap()
                        ),
                        "stream_end" => format!("end {}", event["final"]),
                        "stream_error" => format!("error partial={}", event["partial"]),
                        other => other.to_owned(),
                    })
                }
                _ => None,
            })
            .collect();
        let mut result: Value = serde_json::from_str(&result).unwrap();
        for message in result["messages"].as_array_mut().unwrap() {
            // The content crosses only where it is not the text of the only block; the reader copies it.
            let [block] = message["blocks"].as_array().unwrap().as_slice() else { continue };
            if block["type"] == "text" {
                assert_eq!(message["content"], "", "a text crosses once");
                message["content"] = block["text"].clone();
            }
        }
        (result, events)
    }
}

fn call(name: &str) -> Value {
    json!({ "name": name, "arguments": {} })
}

#[tokio::test(start_paused = true)]
async fn the_events_of_a_turn_with_tools_are_in_order_and_its_commit_precedes_its_end() {
    let rig = Rig::new(&json!([
        { "thinking": "hm", "text": "let me see", "toolCalls": [call("echo"), call("fail")] },
        { "text": "done", "usage": { "inputTokens": 7, "outputTokens": 2 } },
    ]));
    let mut run = rig.start(&json!({}));
    let (result, events) = run.end().await;
    assert_eq!(
        events,
        [
            "stream_start",
            "reasoning hm",
            "token let me see",
            "end false",
            "echo started",
            "echo completed",
            "fail started",
            "fail failed",
            "token done",
            "end true",
        ]
    );
    assert_eq!(result["stopReason"], "end_turn");
    assert_eq!(result["persisted"], true);
    assert_eq!(result["contextTokens"], 9);
    let roles: Vec<&str> = result["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "tool", "tool", "assistant"]);
    let commit = rig.journal.turns.lock().unwrap()[0].clone();
    assert_eq!(commit.turn_id, result["turnId"].as_str().unwrap());
    assert!(commit.move_pointer);
    assert_eq!(commit.attempts.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_next_turn_of_a_session_has_the_last_one_in_its_context() {
    let rig = Rig::new(&json!(["one", "two"]));
    rig.start(&json!({})).end().await;
    rig.start(&json!({ "currentMessage": { "role": "user", "content": "again" } })).end().await;
    let requests: Value = serde_json::from_str(&rig.provider.requests_json()).unwrap();
    let said: Vec<Value> = requests[1]["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["blocks"][0]["text"].clone())
        .collect();
    assert_eq!(said, ["hi", "one", "again"]);
}

/// Aborts at one phase of a run that would otherwise hang there.
async fn aborted_at(
    script: Value,
    reach: impl AsyncFnOnce(&mut Started, &Rig),
) -> (Value, Vec<String>) {
    let rig = Rig::new(&script);
    let mut run = rig.start(&json!({}));
    reach(&mut run, &rig).await;
    let clock = Clock::default();
    let before = clock.instant();
    run.control.abort();
    let (result, events) = run.end().await;
    assert!(clock.instant() - before <= Duration::from_millis(250));
    assert_eq!(result["stopReason"], "aborted");
    assert_eq!(events.last().unwrap(), "end true");
    assert!(result.get("error").is_none());
    let commit = rig.journal.turns.lock().unwrap()[0].clone();
    assert_eq!(commit.status.as_str(), "aborted");
    for call in &commit.tool_calls {
        assert!(call.completed_at.is_some(), "every call is closed");
    }
    let requests = rig.provider.requests_json();
    tokio::time::advance(Duration::from_secs(100)).await;
    assert_eq!(rig.provider.requests_json(), requests, "no call of the model after the abort");
    (result, events)
}

#[tokio::test(start_paused = true)]
async fn an_abort_before_the_first_step_calls_no_model() {
    let (_, events) = aborted_at(json!(["x"]), async |_, _| {}).await;
    assert_eq!(events, ["stream_start", "end true"]);
}

#[tokio::test(start_paused = true)]
async fn an_abort_while_waiting_for_the_first_token() {
    let script = json!([{ "gate": "never", "text": "x" }]);
    let (_, events) = aborted_at(script, async |_, rig| {
        rig.requests(1).await;
    })
    .await;
    assert_eq!(events, ["stream_start", "end true"]);
}

#[tokio::test(start_paused = true)]
async fn an_abort_in_the_middle_of_text_retains_the_received_text() {
    let script = json!([{ "steps": [{ "text": "half" }, { "gate": "never" }] }]);
    let (result, _) =
        aborted_at(script, async |run, _| run.until(RecordKind::Token, "half").await).await;
    assert_eq!(result["messages"][1]["content"], "half");
}

#[tokio::test(start_paused = true)]
async fn an_abort_in_the_middle_of_a_call_never_runs_it() {
    let script =
        json!([{ "steps": [{ "text": "t" }, { "toolCall": call("echo") }, { "gate": "never" }] }]);
    let (result, events) =
        aborted_at(script, async |run, _| run.until(RecordKind::Token, "t").await).await;
    assert_eq!(events, ["stream_start", "token t", "end true"]);
    assert_eq!(result["toolCalls"][0]["error"], "aborted");
}

#[tokio::test(start_paused = true)]
async fn an_abort_while_a_tool_ignores_it() {
    let script = json!([{ "toolCalls": [call("hang"), call("echo")] }]);
    let (result, events) =
        aborted_at(script, async |_, rig| rig.host.hanging.notified().await).await;
    assert_eq!(events, ["stream_start", "end false", "hang started", "hang failed", "end true"]);
    let errors: Vec<&Value> =
        result["toolCalls"].as_array().unwrap().iter().map(|call| &call["error"]).collect();
    assert_eq!(errors, ["aborted", "aborted"]);
}

#[tokio::test(start_paused = true)]
async fn an_abort_during_the_wait_before_a_retry() {
    let script = json!([
        { "error": { "kind": "overloaded", "retryAfterMs": 30_000 } },
        "never said",
    ]);
    let (_, events) = aborted_at(script, async |_, rig| {
        rig.requests(1).await;
        tokio::task::yield_now().await;
    })
    .await;
    assert_eq!(events, ["stream_start", "retry", "waiting", "end true"]);
}

#[tokio::test(start_paused = true)]
async fn the_runs_time_ends_a_silent_model_as_timeout() {
    let rig = Rig::new(&json!([{ "gate": "never" }]));
    let mut run = rig.start(&json!({ "timeoutMs": 5_000 }));
    let (result, events) = run.end().await;
    assert_eq!(result["stopReason"], "timeout");
    assert_eq!(result["error"]["kind"], "timeout");
    assert_eq!(events, ["stream_start", "error partial=false"]);
    assert_eq!(rig.journal.turns.lock().unwrap()[0].status.as_str(), "failed");
    assert!(!rig.journal.turns.lock().unwrap()[0].move_pointer);
}

#[tokio::test(start_paused = true)]
async fn a_transient_failure_is_retried_and_every_attempt_is_recorded() {
    let rig =
        Rig::new(&json!([{ "error": { "status": 529 } }, { "error": { "status": 500 } }, "ok"]));
    let (result, _) = rig.start(&json!({})).end().await;
    assert_eq!(result["stopReason"], "end_turn");
    let reasons: Vec<&Value> =
        result["attempts"].as_array().unwrap().iter().map(|attempt| &attempt["ok"]).collect();
    assert_eq!(reasons, [false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_after_a_token_is_never_retried() {
    let rig = Rig::new(&json!([
        { "steps": [{ "text": "half" }, { "error": { "status": 500 } }] },
        "a second answer",
    ]));
    let (result, events) = rig.start(&json!({})).end().await;
    assert_eq!(events, ["stream_start", "token half", "error partial=true"]);
    assert_eq!(result["error"]["retryable"], true);
    assert_eq!(result["messages"][1]["content"], "half");
}

#[tokio::test(start_paused = true)]
async fn a_steered_message_skips_calls_that_have_not_started_and_is_in_the_next_request() {
    let rig = Rig::new(&json!([
        { "gate": "go", "toolCalls": [call("echo"), call("echo"), call("echo")] },
        "ok",
    ]));
    let mut run = rig.start(&json!({}));
    rig.requests(1).await;
    assert!(run.control.steer("stop that"));
    rig.provider.open_gate("go");
    let (result, events) = run.end().await;
    assert_eq!(
        events,
        [
            "stream_start",
            "end false",
            "echo started",
            "echo completed",
            "echo failed",
            "echo failed",
            "user_message",
            "token ok",
            "end true",
        ]
    );
    let contents: Vec<&str> = result["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    let skipped = "Skipped due to queued user message.";
    assert_eq!(contents, ["hi", "", "{}", skipped, skipped, "stop that", "ok"]);
    assert_eq!(rig.host.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_steered_into_the_last_answer_is_answered_in_the_same_turn() {
    let rig =
        Rig::new(&json!([{ "steps": [{ "text": "a" }, { "gate": "go" }, { "text": "b" }] }, "c"]));
    let mut run = rig.start(&json!({}));
    run.until(RecordKind::Token, "a").await;
    assert!(run.control.steer("and?"));
    rig.provider.open_gate("go");
    let (result, events) = run.end().await;
    assert_eq!(
        events,
        ["stream_start", "token a", "token b", "end false", "user_message", "token c", "end true"]
    );
    assert_eq!(result["messages"][2]["content"], "and?");
    assert!(!run.control.steer("too late"));
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_costs_the_commit_and_not_the_answer() {
    let rig = Rig::new(&json!(["answer"]));
    rig.journal.full.store(true, Ordering::Relaxed);
    let (result, events) = rig.start(&json!({})).end().await;
    assert_eq!(events.last().unwrap(), "end true");
    assert_eq!(result["stopReason"], "end_turn");
    assert_eq!(result["persisted"], false);
    assert_eq!(result["persistError"]["code"], "storage_full");
}

#[tokio::test(start_paused = true)]
async fn runs_of_one_session_follow_each_other() {
    let rig = Rig::new(&json!([{ "gate": "go", "text": "one" }, "two"]));
    let mut first = rig.start(&json!({}));
    let mut second = rig.start(&json!({}));
    rig.provider.open_gate("go");
    let (one, two) = (first.end().await.0, second.end().await.0);
    assert_eq!(one["messages"][1]["content"], "one");
    assert_eq!(two["messages"][1]["content"], "two");
    let turns = rig.journal.turns.lock().unwrap();
    assert_eq!(turns[1].header.parent_turn_id.as_ref(), Some(&turns[0].turn_id));
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_the_running_and_refuses_the_next() {
    let rig = Rig::new(&json!([{ "gate": "go", "text": "x" }]));
    let mut run = rig.start(&json!({}));
    let closing = rig.engine.close();
    tokio::pin!(closing);
    assert!(futures_util::poll!(&mut closing).is_pending());
    rig.provider.open_gate("go");
    closing.await;
    assert_eq!(run.end().await.0["persisted"], true);
}
