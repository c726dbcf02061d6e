//! The decisions of a broker for JavaScript: JSON of the arguments in, the answer out. Nothing waits, and nothing is stored.

use napi::Result;
use napi_derive::napi;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::super::engine::NativeEngine;
use super::super::errors::js_error;
use super::super::reply::json;
use base::error::{EngineError, ErrorCode};
use broker::routing::{
    AgentDirectory, DmScope, RoutedEvent, RoutingTarget, SmartAnswer, SmartFallback, Target,
    TargetError, build_session_key, smart_route,
};
use model::{InputError, from_json, quoted};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SessionKeyArgs {
    event: RoutedEvent,
    options: SessionKeyOptions,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct SessionKeyOptions {
    #[serde(default)]
    agent_id: Option<String>,
    #[serde(default)]
    dm_scope: DmScope,
}

#[derive(Deserialize)]
struct DirectoryArgs {
    config: AgentDirectory,
}

#[napi]
impl NativeEngine {
    /// The label of an event's session. `args`: the JSON of `{ event, options }`.
    #[napi(catch_unwind)]
    pub fn build_session_key(args: String) -> Result<String> {
        let SessionKeyArgs { event, options } = checked(&args)?;
        let agent = options.agent_id.as_deref().unwrap_or("main");
        let refused = |error| js_error(&EngineError::option(error));
        if agent.is_empty() {
            return Err(refused(InputError::new("options.agentId", "is empty")));
        }
        named(&event, "event").map_err(refused)?;
        Ok(build_session_key(agent, &event, options.dm_scope))
    }

    /// The ids of the agents, as JSON. `args`: the JSON of `{ config }`.
    #[napi(catch_unwind)]
    pub fn list_agent_ids(args: String) -> Result<String> {
        let DirectoryArgs { config } = checked(&args)?;
        json(&config.agent_ids()).map_err(|error| js_error(&error))
    }

    /// The agent of a session. `args`: the JSON of `{ config }`.
    #[napi(catch_unwind)]
    pub fn resolve_session_agent_id(args: String, label: String) -> Result<String> {
        let DirectoryArgs { config } = checked(&args)?;
        Ok(config.session_agent_id(&label).to_owned())
    }

    /// What a session's label says about its prompt, as JSON. `args`: the JSON of `{ config }`.
    #[napi(catch_unwind)]
    pub fn session_scope(args: String, label: String) -> Result<String> {
        let DirectoryArgs { config } = checked(&args)?;
        json(&config.session_scope(&label)).map_err(|error| js_error(&error))
    }

    /// The session and the agent of a target, as JSON. `args`: the JSON of `{ config, to, smart }`.
    #[napi(catch_unwind)]
    pub fn resolve_route(args: String) -> Result<String> {
        let at = |error| js_error(&EngineError::at(ErrorCode::InvalidTarget, error));
        let routed = from_json(&args).and_then(routed).map_err(at)?;
        json(&routed).map_err(|error| js_error(&error))
    }

    /// An agent's models, as the JSON of an `AgentModel` or null. `args`: the JSON of `{ config }`.
    #[napi(catch_unwind)]
    pub fn resolve_agent_model(args: String, agent_id: String) -> Result<String> {
        let DirectoryArgs { config } = checked(&args)?;
        json(&config.agent_model(&agent_id)).map_err(|error| js_error(&error))
    }
}

/// A target, with the answer of a smart route where one was asked.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RouteArgs {
    config: AgentDirectory,
    #[serde(rename = "to")]
    target: RoutingTarget,
    #[serde(default)]
    smart: Option<SmartArgs>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SmartArgs {
    #[serde(default)]
    answer: Option<SmartAnswer>,
    /// Why there is no answer.
    #[serde(default)]
    failed: Option<SmartFallback>,
    /// Whether the ledger, or the configuration, has what it names.
    #[serde(default)]
    exists: bool,
    #[serde(default)]
    confidence: Option<f64>,
}

/// Where a message goes.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Routed {
    #[serde(skip_serializing_if = "Option::is_none")]
    thread: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    smart_fallback: Option<SmartFallback>,
}

fn routed(args: RouteArgs) -> std::result::Result<Routed, InputError> {
    let RouteArgs { config, target, smart } = args;
    // The given target is checked also where another one is taken.
    target.target().map_err(|error| no_target(&error))?;
    let (target, smart_fallback) = match smart {
        None => (target, None),
        Some(SmartArgs { answer, failed, exists, confidence }) => {
            let answer = failed.map_or(Ok(answer), Err);
            match smart_route(answer, confidence, |_| exists) {
                Ok(named) => (named, None),
                Err(fallback) => (target, Some(fallback)),
            }
        }
    };
    let session_label = session_of(&config, &target)?;
    let agent_id = session_label.as_deref().map(|label| config.session_agent_id(label).to_owned());
    let thread = if session_label.is_none() { target.thread } else { None };
    Ok(Routed { thread, session_label, agent_id, smart_fallback })
}

/// The session of a target; none for a thread, whose session the ledger knows.
pub(super) fn session_of(
    config: &AgentDirectory,
    target: &RoutingTarget,
) -> std::result::Result<Option<String>, InputError> {
    let label = match target.target().map_err(|error| no_target(&error))? {
        Target::Thread(_) => return Ok(None),
        Target::Session(label) => label.to_owned(),
        Target::Persona(id) => config.persona_session(id).ok_or_else(|| {
            let known = config.personas.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            InputError::new(
                "to.persona",
                format!("{} is not configured; known: {known}", quoted(id)),
            )
        })?,
        Target::Event(event) => {
            named(event, "to.event")?;
            build_session_key(config.event_agent_id(event), event, config.dm_scope)
        }
    };
    Ok(Some(label))
}

/// Checks that the other side of an event has an id: it is a part of a label.
fn named(event: &RoutedEvent, path: &str) -> std::result::Result<(), InputError> {
    match &event.peer {
        Some(peer) if peer.id.is_empty() => {
            Err(InputError::new(format!("{path}.peer.id"), "is empty"))
        }
        Some(_) | None => Ok(()),
    }
}

fn no_target(error: &TargetError) -> InputError {
    const FIELDS: &str = "`thread`, `session`, `persona` or `event`";
    match error {
        TargetError::Nothing => InputError::new("to", format!("names nothing; pass {FIELDS}")),
        TargetError::Several => {
            InputError::new("to", format!("names more than one thing; pass one of {FIELDS}"))
        }
        TargetError::Empty(field) => InputError::new(format!("to.{field}"), "is empty"),
    }
}

pub(super) fn checked<T: DeserializeOwned>(args: &str) -> Result<T> {
    from_json(args).map_err(|error| js_error(&EngineError::option(error)))
}
