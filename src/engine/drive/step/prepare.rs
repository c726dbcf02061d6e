//! What the host decides between the answers of a run: whether it stops, and with which model and tools the next call is made.
//!
//! It must never call the model.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::attempt_outcome::AttemptOutcome;
use super::super::driver::Driver;
use super::super::switch::{Switch, switch};
use crate::engine::context::Session;
use crate::engine::state::{RunUsage, StepChanges};
use model::{
    AgentToolCall, Block, InputError, Role, RunWarning, TokenUsage, ToolChoice, ToolDefinition,
    from_json, quoted,
};
use turn::machine::Machine;

/// The last answer and its calls, as the host receives them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LastStep<'a> {
    run_id: &'a str,
    turn_id: &'a str,
    session_label: &'a str,
    step: u32,
    message_id: &'a str,
    text: String,
    tool_calls: Vec<&'a AgentToolCall>,
    usage: TokenUsage,
}

/// The next call, as `prepareStep` receives it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NextStep<'a> {
    run_id: &'a str,
    turn_id: &'a str,
    session_label: &'a str,
    step: u32,
    provider: &'a str,
    model: &'a str,
    tools: Vec<&'a str>,
    usage: TokenUsage,
    last: Option<LastStep<'a>>,
}

/// What `prepareStep` changes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Plan {
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    tools: Option<Vec<String>>,
    #[serde(default)]
    tool_choice: Option<ToolChoice>,
}

fn last_step<'a>(driver: &'a Driver, machine: &'a Machine) -> Option<LastStep<'a>> {
    let run = &driver.active.run;
    let answers = machine.messages().iter().filter(|message| message.role == Role::Assistant);
    let answer = answers.clone().next_back()?;
    Some(LastStep {
        run_id: &run.context.run_id,
        turn_id: &run.turn_id,
        session_label: &run.context.session_label,
        step: u32::try_from(answers.count()).unwrap_or(u32::MAX),
        message_id: &answer.id,
        text: answer.blocks.iter().filter_map(Block::as_text).collect(),
        tool_calls: machine
            .calls()
            .map(|state| state.row)
            .filter(|call| call.message_id == answer.id)
            .collect(),
        usage: machine.usage().0,
    })
}

/// Whether the host is to be asked before the next call: after an answer, whose calls have their results.
pub(in crate::engine::drive) fn may_stop(driver: &Driver, machine: &Machine) -> bool {
    driver.host.may_stop() && machine.messages().iter().any(|it| it.role == Role::Assistant)
}

/// Whether the host stops the run after its last answer. A run that ends meanwhile is not stopped by it.
pub(in crate::engine::drive) async fn stops(driver: &Driver, machine: &Machine) -> bool {
    let Some(step) = last_step(driver, machine) else { return false };
    let json = serde_json::to_string(&step).unwrap_or_default();
    driver.active.guard(driver.host.stops(json)).await.unwrap_or(false)
}

/// Lets the host change the next call. What it changes wrongly is a warning, and then nothing is changed. A run that ends
/// meanwhile is not changed. The error is the event that ends the run.
pub(in crate::engine::drive) async fn prepare(
    driver: &mut Driver,
    machine: &Machine,
    session: &mut Session,
    usage: &mut RunUsage,
) -> Result<(), Box<AttemptOutcome>> {
    driver.active.run.step = StepChanges::default();
    let json = serde_json::to_string(&next_step(driver, machine)).unwrap_or_default();
    let prepared = driver.active.guard(driver.host.prepare_step(json)).await;
    let Ok(Some(plan)) = prepared else { return Ok(()) };
    let checked = from_json(&plan).and_then(|plan| check(driver, plan));
    match checked {
        Ok((changes, to)) => {
            driver.active.run.step = changes;
            if let Some(to) = to {
                let chosen = Switch { to, reason: None };
                return Box::pin(switch(driver, chosen, machine, session, usage)).await;
            }
        }
        Err(InputError { path, message }) => usage.notes.push(RunWarning {
            code: "prepare_step".to_owned(),
            field: Some(format!("prepareStep.{path}")),
            message: format!("`prepareStep` changed nothing: `{path}` {message}"),
        }),
    }
    Ok(())
}

fn next_step<'a>(driver: &'a Driver, machine: &'a Machine) -> NextStep<'a> {
    let run = &driver.active.run;
    let last = last_step(driver, machine);
    NextStep {
        run_id: &run.context.run_id,
        turn_id: &run.turn_id,
        session_label: &run.context.session_label,
        step: last.as_ref().map_or(0, |last| last.step).saturating_add(1),
        provider: &run.target.provider_name,
        model: &run.target.model_name,
        tools: run.tool_set.tools().iter().map(|tool| tool.name.as_str()).collect(),
        usage: machine.usage().0,
        last,
    }
}

/// The changes of a plan, and the number of the model that it switches to.
fn check(driver: &Driver, plan: Plan) -> Result<(StepChanges, Option<usize>), InputError> {
    let Plan { model, tools, tool_choice } = plan;
    let run = &driver.active.run;
    let all = run.tool_set.tools();
    let known = |name: &str| all.iter().any(|tool| tool.name == name);
    let tools: Option<Arc<[ToolDefinition]>> = match tools {
        None => None,
        Some(names) => {
            if let Some((at, name)) = names.iter().enumerate().find(|(_, name)| !known(name)) {
                let message = format!("{} is not one of the run's tools", quoted(name));
                return Err(InputError { path: format!("tools[{at}]"), message });
            }
            Some(all.iter().filter(|tool| names.contains(&tool.name)).cloned().collect())
        }
    };
    if let Some(ToolChoice::Tool { name }) = &tool_choice
        && !tools.as_ref().unwrap_or(all).iter().any(|tool| tool.name == *name)
    {
        let message = format!("{} is not one of the step's tools", quoted(name));
        return Err(InputError { path: "toolChoice.name".to_owned(), message });
    }
    let to = model.map(|name| number_of(driver, &name)).transpose()?;
    let current = to.filter(|to| {
        driver.fallbacks.get(*to).is_some_and(|other| other.target.name() != run.target.name())
    });
    Ok((StepChanges { tools, tool_choice }, current))
}

/// The number of a model among those of the run: `provider/model`, or the name of a model of the current provider.
fn number_of(driver: &Driver, name: &str) -> Result<usize, InputError> {
    let run = &driver.active.run;
    let is_named = |provider: &str, model: &str| {
        (provider == run.target.provider_name && model == name)
            || name.strip_prefix(provider).and_then(|rest| rest.strip_prefix('/')) == Some(model)
    };
    let names = driver.fallbacks.iter().map(|it| (&it.target.provider_name, &it.target.model_name));
    names.clone().position(|(provider, model)| is_named(provider, model)).ok_or_else(|| {
        let list: Vec<String> =
            names.map(|(provider, model)| format!("`{provider}/{model}`")).collect();
        let message = format!(
            "{} is not one of the run's models ({}); name it in `fallbacks`",
            quoted(name),
            list.join(", ")
        );
        InputError { path: "model".to_owned(), message }
    })
}
