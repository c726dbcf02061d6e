//! Tools in JavaScript: a call is a record of the run's queue, and its answer is returned by its number.
//!
//! It must never hold a JavaScript value: those stay in `index.js`.

use std::sync::Arc;

use base::error::{EngineError, ErrorCode};
use napi::Result;
use napi_derive::napi;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use tokio_util::sync::CancellationToken;

use super::answers::Answers;
use super::coding::{CodingHost, CodingTool};
use super::mcp::{McpCall, McpHost};
use crate::engine::{EventQueue, RecordKind};
use crate::node::errors::js_error;
use model::{Block, repair_text};
use tools::{
    Ask, Invocation, OutputFuture, ReconcileFuture, Reconciled, ResultSchema, StepFuture,
    StopFuture, ToolAnswer, ToolFuture, ToolHost, Verdict, VerdictFuture,
};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    execution: u32,
    call_id: &'a str,
    tool_call_id: &'a str,
    run_id: &'a str,
    turn_id: &'a str,
    session_label: &'a str,
    message_id: &'a str,
    name: &'a str,
    arguments: &'a RawValue,
    /// What JavaScript is to do, unless it runs the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    instead: Option<Instead>,
    /// What the tool returned, as a host's own tool returns it.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
}

/// What JavaScript does about a call, besides running its tool.
#[derive(Serialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum Instead {
    /// The tool's `reconcile` reports the outcome of the call.
    Reconcile,
    /// `beforeToolCall` decides about it.
    Decide,
    /// `afterToolCall` may replace its result.
    Replace,
}

/// What JavaScript decides about between two answers.
#[derive(Serialize)]
struct StopRequest<'a> {
    execution: u32,
    step: &'a RawValue,
    /// `prepareStep` is called, not `stopWhen`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    prepares: bool,
}

/// The situation that JavaScript plans in.
#[derive(Serialize)]
struct PlanRequest<'a> {
    execution: u32,
    plan: &'a RawValue,
}

/// The text of an answer that JavaScript checks.
#[derive(Serialize)]
struct OutputRequest<'a> {
    execution: u32,
    output: &'a str,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(default)]
    content: Vec<Block>,
    #[serde(default)]
    result_json: Option<String>,
    #[serde(default)]
    is_error: bool,
    /// The session of the agent that the call has started.
    #[serde(default)]
    spawned_session_label: Option<String>,
    /// What `beforeToolCall` or `stopWhen` decided.
    #[serde(default)]
    decision: Option<Decision>,
    /// The outcome of a call that the tool reconciles.
    #[serde(default)]
    outcome: Option<Outcome>,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(in crate::node) enum Outcome {
    Done,
    NotDone,
    Unknown,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::node) enum Decision {
    /// The call runs.
    Allow,
    /// It does not run, for this reason.
    Deny(String),
    /// It runs with these arguments: JSON text.
    Params(String),
    /// It waits for an approval.
    Ask(AskFields),
    /// The run stops, or goes on.
    Stop(bool),
    /// What changes for the next call of the model: JSON text.
    Prepare(Option<String>),
    /// The plan for the turn: JSON text.
    Plan(Option<String>),
    /// The answer is not the output, for these reasons; `None` where it is.
    Problems(Option<String>),
}

/// How a call waits for an approval.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::node) struct AskFields {
    /// JSON text.
    #[serde(default)]
    params: Option<String>,
    #[serde(default)]
    question: Option<String>,
    #[serde(default)]
    expires_ms: Option<u64>,
}

/// The answer of an execution.
pub(in crate::node) struct Returned {
    answer: ToolAnswer,
    outcome: Option<Outcome>,
    decision: Option<Decision>,
}

/// The executions of one run that JavaScript has not answered yet. A retry of a call is a new execution with a new number.
pub(in crate::node) type ToolAnswers = Answers<Returned>;

impl Answers<Returned> {
    /// Delivers an answer; a late one is dropped (docs/rules/abort-usage.md#abort). Lone surrogates, which remain where a
    /// JavaScript string was cut, become U+FFFD.
    pub(in crate::node) fn answer(&self, execution: u32, json: &str) {
        let Some(waiting) = self.take(execution) else { return };
        let returned = serde_json::from_str::<Answer>(&repair_text(json)).map_or_else(
            |error| failed(&format!("the tool's answer could not be read: {error}")),
            |answer| Returned {
                answer: ToolAnswer {
                    content: answer.content,
                    result_json: answer.result_json.and_then(|text| {
                        RawValue::from_string(repair_text(&text).into_owned()).ok()
                    }),
                    is_error: answer.is_error,
                    spawned_session_label: answer.spawned_session_label,
                },
                outcome: answer.outcome,
                decision: answer.decision,
            },
        );
        // The run may have ended while the tool worked; then the answer is dropped.
        let _ = waiting.send(returned);
    }
}

/// The tools of one run.
#[derive(Clone)]
pub(in crate::node) struct JsToolHost {
    pub(in crate::node) queue: Arc<EventQueue>,
    pub(in crate::node) answers: Arc<ToolAnswers>,
    /// It has a `beforeToolCall`.
    pub(in crate::node) decides: bool,
    /// It has a `stopWhen`.
    pub(in crate::node) stops: bool,
    /// It has a `prepareStep`.
    pub(in crate::node) prepares: bool,
    /// It has an `afterToolCall`.
    pub(in crate::node) replaces: bool,
    /// The tools of servers.
    pub(in crate::node) mcp: Option<Arc<McpHost>>,
    /// The tools that are called without JavaScript.
    pub(in crate::node) coding: Option<Arc<CodingHost>>,
    /// It has an `output` that only JavaScript can check.
    pub(in crate::node) checks_output: bool,
}

/// Notifies JavaScript that a call was cancelled, unless it was answered.
struct Outstanding<'a> {
    host: &'a JsToolHost,
    execution: u32,
    answered: bool,
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        if !self.answered {
            drop(self.host.answers.take(self.execution));
            self.host.queue.host(RecordKind::ToolCancel, &self.execution.to_string());
        }
    }
}

impl JsToolHost {
    /// Sends a request and waits for its answer. The caller cancels it by dropping this future; `tools` decides how a
    /// cancelled call ends.
    async fn request(self, invocation: Invocation, instead: Option<Instead>) -> Returned {
        self.request_about(invocation, instead, None).await
    }

    /// The same about a result.
    async fn request_about(
        self,
        invocation: Invocation,
        instead: Option<Instead>,
        result: Option<Box<RawValue>>,
    ) -> Returned {
        let Ok(arguments) = serde_json::from_str::<&RawValue>(&invocation.arguments_json) else {
            return failed("the arguments are not JSON");
        };
        let (execution, answer) = self.answers.expect();
        let mut outstanding = Outstanding { host: &self, execution, answered: false };
        let request = Request {
            execution,
            call_id: &invocation.call_id,
            tool_call_id: &invocation.provider_call_id,
            run_id: &invocation.run_id,
            turn_id: &invocation.turn_id,
            session_label: &invocation.session_label,
            message_id: &invocation.message_id,
            name: &invocation.tool_name,
            arguments,
            instead,
            result: result.as_deref(),
        };
        let json = serde_json::to_string(&request).unwrap_or_default();
        self.queue.host(RecordKind::Tool, &json);
        let answer = answer.await;
        outstanding.answered = answer.is_ok();
        answer.unwrap_or_else(|_| failed("the tool's JavaScript environment has ended"))
    }

    fn coding(&self, invocation: &Invocation) -> Option<CodingTool> {
        self.coding.as_ref()?.find(&invocation.tool_name)
    }

    fn mcp(&self, invocation: &Invocation) -> Option<McpCall> {
        self.mcp.as_ref()?.find(&invocation.tool_name)
    }

    /// The answer of a tool that was called without JavaScript, as `afterToolCall` leaves it.
    async fn replaced(self, invocation: Invocation, answer: ToolAnswer) -> ToolAnswer {
        if !self.replaces || answer.is_error {
            return answer;
        }
        let result = returned_json(&answer);
        self.request_about(invocation, Some(Instead::Replace), result).await.answer
    }

    /// Asks about the run between two answers.
    async fn between(self, step: String, prepares: bool) -> Option<Decision> {
        let step = serde_json::from_str::<&RawValue>(&step).ok()?;
        let (execution, answer) = self.answers.expect();
        let mut outstanding = Outstanding { host: &self, execution, answered: false };
        let request = StopRequest { execution, step, prepares };
        let json = serde_json::to_string(&request).unwrap_or_default();
        self.queue.host(RecordKind::Tool, &json);
        let answer = answer.await;
        outstanding.answered = answer.is_ok();
        answer.ok()?.decision
    }
}

impl JsToolHost {
    async fn planned(self, context: String) -> Option<String> {
        let plan = serde_json::from_str::<&RawValue>(&context).ok()?;
        let (execution, answer) = self.answers.expect();
        let mut outstanding = Outstanding { host: &self, execution, answered: false };
        let json = serde_json::to_string(&PlanRequest { execution, plan }).unwrap_or_default();
        self.queue.host(RecordKind::Tool, &json);
        let answer = answer.await;
        outstanding.answered = answer.is_ok();
        match answer {
            Ok(Returned { decision: Some(Decision::Plan(plan)), .. }) => {
                plan.map(|json| repair_text(&json).into_owned())
            }
            Ok(_) | Err(_) => None,
        }
    }

    async fn check_output(self, output: String) -> Option<String> {
        let (execution, answer) = self.answers.expect();
        let mut outstanding = Outstanding { host: &self, execution, answered: false };
        let request = OutputRequest { execution, output: &output };
        let json = serde_json::to_string(&request).unwrap_or_default();
        self.queue.host(RecordKind::Tool, &json);
        let answer = answer.await;
        outstanding.answered = answer.is_ok();
        match answer {
            Ok(Returned { decision: Some(Decision::Problems(problems)), .. }) => problems,
            // The environment has ended, and nobody reads the result.
            Ok(_) | Err(_) => None,
        }
    }
}

impl ToolHost for JsToolHost {
    fn decides(&self) -> bool {
        self.decides
    }

    fn decide(&self, invocation: Invocation) -> VerdictFuture {
        let host = self.clone();
        Box::pin(async move {
            let returned = host.request(invocation, Some(Instead::Decide)).await;
            match returned.decision {
                Some(Decision::Allow) => Verdict::Allow,
                Some(Decision::Deny(reason)) => Verdict::Deny(reason),
                Some(Decision::Params(json)) => Verdict::Params(repair_text(&json).into_owned()),
                Some(Decision::Ask(AskFields { params, question, expires_ms })) => {
                    let params = params.map(|json| repair_text(&json).into_owned());
                    Verdict::Ask(Ask { params, question, expires_ms })
                }
                Some(
                    Decision::Stop(_)
                    | Decision::Prepare(_)
                    | Decision::Plan(_)
                    | Decision::Problems(_),
                )
                | None => Verdict::Deny(UNDECIDED.to_owned()),
            }
        })
    }

    fn may_stop(&self) -> bool {
        self.stops
    }

    fn stops(&self, step: String) -> StopFuture {
        let host = self.clone();
        Box::pin(
            async move { matches!(host.between(step, false).await, Some(Decision::Stop(true))) },
        )
    }

    fn prepares(&self) -> bool {
        self.prepares
    }

    fn prepare_step(&self, step: String) -> StepFuture {
        let host = self.clone();
        Box::pin(async move {
            match host.between(step, true).await {
                Some(Decision::Prepare(plan)) => plan.map(|json| repair_text(&json).into_owned()),
                Some(
                    Decision::Allow
                    | Decision::Deny(_)
                    | Decision::Params(_)
                    | Decision::Ask(_)
                    | Decision::Stop(_)
                    | Decision::Plan(_)
                    | Decision::Problems(_),
                )
                | None => None,
            }
        })
    }

    fn plan(&self, context: String) -> StepFuture {
        Box::pin(self.clone().planned(context))
    }

    fn output_problems(&self, text: String) -> OutputFuture {
        if !self.checks_output {
            return Box::pin(std::future::ready(None));
        }
        Box::pin(self.clone().check_output(text))
    }

    fn spill(&self, tool: String, text: String) -> Option<StepFuture> {
        self.coding.as_ref()?.spill(&tool, text)
    }

    fn execute(&self, invocation: Invocation, _cancel: CancellationToken) -> ToolFuture {
        if let Some(call) = self.mcp(&invocation) {
            let host = self.clone();
            return Box::pin(async move {
                let answer = call.execute(&invocation, Arc::clone(&host.queue)).await;
                host.replaced(invocation, answer).await
            });
        }
        if let Some(tool) = self.coding(&invocation) {
            return Box::pin(tool.execute(invocation, Arc::clone(&self.queue)));
        }
        let host = self.clone();
        Box::pin(async move { host.request(invocation, None).await.answer })
    }

    fn reconcile(&self, invocation: Invocation, _cancel: CancellationToken) -> ReconcileFuture {
        if let Some(tool) = self.coding(&invocation) {
            return Box::pin(tool.reconcile(invocation));
        }
        let host = self.clone();
        Box::pin(async move {
            let returned = host.request(invocation, Some(Instead::Reconcile)).await;
            match returned.outcome {
                Some(Outcome::Done) => Reconciled::Done(returned.answer),
                Some(Outcome::NotDone) => Reconciled::NotDone,
                Some(Outcome::Unknown) | None => Reconciled::Unknown,
            }
        })
    }
}

/// The result of a call about which JavaScript gave no decision.
const UNDECIDED: &str = "This tool was not run: the decision about the call could not be read.";

/// An answer as the tools of a host return it: `{ content, details }`.
fn returned_json(answer: &ToolAnswer) -> Option<Box<RawValue>> {
    #[derive(Serialize)]
    struct Returned<'a> {
        content: &'a [Block],
        details: &'a Option<Box<RawValue>>,
    }
    let returned = Returned { content: &answer.content, details: &answer.result_json };
    to_raw_value(&returned).ok()
}

fn failed(message: &str) -> Returned {
    let answer = ToolAnswer::error(message);
    Returned { answer, outcome: None, decision: None }
}

/// The schema of what a tool returns, compiled, as JavaScript holds it.
/// @internal
#[napi]
pub struct NativeResultSchema {
    schema: ResultSchema,
}

#[napi]
impl NativeResultSchema {
    /// Compiles the schema with this JSON text. Throws why it cannot be used.
    #[napi(constructor, catch_unwind)]
    pub fn new(json: String) -> Result<Self> {
        let schema = ResultSchema::compile(&json)
            .map_err(|why| js_error(&EngineError::new(ErrorCode::InvalidTool, why)))?;
        Ok(Self { schema })
    }

    /// Why the value with this JSON text does not fit, a line for each path; null where it does.
    #[napi(catch_unwind)]
    pub fn mismatch(&self, json: String) -> Option<String> {
        self.schema.mismatch(&json)
    }
}
