//! The planner of a run: what is decided before the model is called, and its record.
//!
//! It must never run a tool, and never fail a run: what is no plan is a warning, and then the model is called.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use super::super::driver::Driver;
use crate::engine::events::RecordKind;
use crate::engine::state::{RunUsage, arguments_hash, millis};
use model::{
    AgentPhase, Attempt, Block, PLANNED, PLANNER, Plan, PlanRecord, PlannerKind, Provenance, Role,
    RunWarning, TokenUsage,
};
use turn::machine::planner::{Situation, heuristic};
use turn::machine::{Event, Machine, Reply, Step};

/// A call of this turn that has its result, as a planner sees it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Observation<'a> {
    tool_name: &'a str,
    params: &'a RawValue,
    result: String,
    is_error: bool,
}

/// What a planner decides by. It has no id and no time: the same situation has the same hash.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanInput<'a> {
    message: String,
    step: u32,
    tools: Vec<&'a str>,
    observations: Vec<Observation<'a>>,
}

/// The input with all that the decision depends on besides.
#[derive(Serialize)]
struct Hashed<'a> {
    input: &'a PlanInput<'a>,
    planner: PlannerKind,
    keywords: &'a BTreeMap<String, String>,
    schemas: Vec<&'a RawValue>,
}

/// The input as the host's function receives it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PlanContext<'a> {
    run_id: &'a str,
    turn_id: &'a str,
    session_label: &'a str,
    input_hash: &'a str,
    #[serde(flatten)]
    input: &'a PlanInput<'a>,
}

/// The number of answers after which the planner was last asked; `None` before it was.
#[derive(Default)]
pub(in crate::engine::drive) struct PlannedAt(Option<usize>);

impl PlannedAt {
    /// Whether the planner decides about the next step: once before the first answer, and with `replan` after each round of
    /// tools. A retry of a call is the same step.
    pub(in crate::engine::drive) fn is_due(&mut self, driver: &Driver, machine: &Machine) -> bool {
        let Some(planner) = &driver.active.run.context.planner else { return false };
        let messages = machine.messages();
        let answers = messages.iter().filter(|it| it.role == Role::Assistant).count();
        let after_round = || messages.last().is_some_and(|it| it.role == Role::Tool);
        let due = self.0 != Some(answers) && (answers == 0 || (planner.replan && after_round()));
        if due {
            self.0 = Some(answers);
        }
        due
    }
}

/// What follows from a plan.
pub(in crate::engine::drive) enum Planned {
    /// The model is called.
    Direct,
    /// The machine continues with this step.
    Next(Step),
}

/// Asks the planner, and records what it decides.
pub(in crate::engine::drive) async fn plan(
    driver: &Driver,
    machine: &mut Machine,
    usage: &mut RunUsage,
) -> Planned {
    let active = &driver.active;
    let run = &active.run;
    let Some(planner) = &run.context.planner else { return Planned::Direct };
    let clock = &active.shared.clock;
    let began = clock.instant();
    let tools = run.tool_set.tools();
    let input = PlanInput {
        message: newest_message(machine),
        step: machine.progress().iterations.saturating_add(1),
        tools: tools.iter().map(|tool| tool.name.as_str()).collect(),
        observations: observations(machine),
    };
    let hashed = Hashed {
        input: &input,
        planner: planner.plan,
        keywords: &planner.keywords,
        schemas: tools.iter().map(|tool| tool.parameters.as_ref()).collect(),
    };
    let input_hash = to_raw_value(&hashed).map(|json| arguments_hash(&json)).unwrap_or_default();
    let plan = match planner.plan {
        PlannerKind::Heuristic => heuristic(&Situation {
            message: &input.message,
            tools,
            keywords: &planner.keywords,
            has_observation: !input.observations.is_empty(),
        }),
        PlannerKind::Function => {
            let context = PlanContext {
                run_id: &run.context.run_id,
                turn_id: &run.turn_id,
                session_label: &run.context.session_label,
                input_hash: &input_hash,
                input: &input,
            };
            let json = serde_json::to_string(&context).unwrap_or_default();
            match active.guard(driver.host.plan(json)).await {
                Ok(answer) => read(answer, usage),
                Err(cause) => {
                    let event = Event::Interrupted { cause, partial: None };
                    return Planned::Next(active.feed(machine, event));
                }
            }
        }
    };
    let mut record = PlanRecord {
        kind: plan.kind(),
        reason: plan.reason().to_owned(),
        input_hash,
        planner: planner.plan,
        message_id: None,
    };
    let blocks = blocks_of(plan);
    if !blocks.is_empty() {
        record.message_id = Some(clock.new_id());
    }
    let ms = millis(clock.instant().saturating_duration_since(began));
    usage.attempts.push(Attempt::of_plan(record.clone(), ms));
    let Some(message_id) = record.message_id else { return Planned::Direct };
    if let [Block::Text { text, .. }] = blocks.as_slice() {
        active.queue.phase(AgentPhase::Streaming, clock.now_ms());
        active.queue.message(&message_id);
        active.queue.delta(RecordKind::Token, text);
    }
    let reply = Reply {
        message_id,
        blocks,
        provenance: Provenance {
            provider: PLANNER.to_owned(),
            api: PLANNED.to_owned(),
            model: record.planner.as_str().to_owned(),
            response_id: None,
        },
        usage: TokenUsage::default(),
        usage_estimated: false,
    };
    Planned::Next(active.feed(machine, Event::Planned(reply)))
}

/// Whether the turn's answer is the question of a planner.
pub(in crate::engine::drive) fn is_question(machine: &Machine) -> bool {
    let answer = machine.messages().iter().rfind(|message| message.role == Role::Assistant);
    let provenance = answer.and_then(|answer| answer.provenance.as_ref());
    provenance.is_some_and(|from| from.provider == PLANNER && from.api == PLANNED)
}

/// The plan of the host's function, or a direct one.
fn read(answer: Option<String>, usage: &mut RunUsage) -> Plan {
    let parsed = match answer {
        Some(json) => Plan::parse(&json),
        None => return Plan::direct("the planner gave no plan"),
    };
    parsed.unwrap_or_else(|why| {
        usage.notes.push(RunWarning {
            code: "planner".to_owned(),
            field: Some("planner".to_owned()),
            message: format!("the model was called without a plan: {why}"),
        });
        Plan::direct("the planner gave no plan")
    })
}

/// The content of the message that stands for a plan; empty where the model is called.
fn blocks_of(plan: Plan) -> Vec<Block> {
    match plan {
        Plan::Direct { .. } => Vec::new(),
        Plan::Clarify { question, .. } => vec![Block::text(question)],
        Plan::Tools { calls, .. } => calls
            .into_iter()
            .map(|call| Block::ToolCall {
                // The machine gives it one.
                id: String::new(),
                name: call.tool_name,
                arguments_json: call.params.get().to_owned(),
                incomplete: false,
                provider_data: None,
            })
            .collect(),
    }
}

fn newest_message(machine: &Machine) -> String {
    let message = machine.messages().iter().rfind(|message| message.role == Role::User);
    message.map(model::Message::content).unwrap_or_default()
}

fn observations(machine: &Machine) -> Vec<Observation<'_>> {
    let answered = machine.calls().filter_map(|call| Some((call.row, call.answer?)));
    answered
        .map(|(row, answer)| Observation {
            tool_name: &row.tool_name,
            params: &row.params,
            result: answer.content(),
            is_error: answer.tool_result().is_some_and(|(_, is_error)| is_error),
        })
        .collect()
}
