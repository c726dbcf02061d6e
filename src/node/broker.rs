//! The decisions of a broker for JavaScript: JSON of the arguments in, the answer out. Nothing waits, and nothing is stored.

use napi::Result;
use napi_derive::napi;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::engine::NativeEngine;
use super::errors::js_error;
use super::reply::json;
use base::error::EngineError;
use broker::prompt::{PromptParts, build_system_prompt};
use broker::routing::{AgentDirectory, DmScope, RoutedEvent, build_session_key};
use model::from_json;

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
struct PromptArgs {
    parts: PromptParts,
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
        Ok(build_session_key(agent, &event, options.dm_scope))
    }

    /// A system prompt. `args`: the JSON of `{ parts }`.
    #[napi(catch_unwind)]
    pub fn build_system_prompt(args: String) -> Result<String> {
        let PromptArgs { parts } = checked(&args)?;
        Ok(build_system_prompt(&parts))
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

    /// An agent's models, as the JSON of an `AgentModel` or null. `args`: the JSON of `{ config }`.
    #[napi(catch_unwind)]
    pub fn resolve_agent_model(args: String, agent_id: String) -> Result<String> {
        let DirectoryArgs { config } = checked(&args)?;
        json(&config.agent_model(&agent_id)).map_err(|error| js_error(&error))
    }
}

fn checked<T: DeserializeOwned>(args: &str) -> Result<T> {
    from_json(args).map_err(|error| js_error(&EngineError::option(error)))
}
