//! All problems of what routes and prompts depend on: what an error lists beside the first one.
//!
//! It must never route a message.

use base::error::{EngineError, ErrorCode};
use broker::prompt::PromptParts;
use broker::routing::{AgentDirectory, RoutingTarget};
use model::{InputError, all_problems, from_json};
use napi::Result;
use napi_derive::napi;
use serde::Deserialize;

use super::super::engine::NativeEngine;
use super::super::errors::js_error;
use super::super::input::Problem;
use super::super::reply::json;
use super::decisions::session_of;

#[derive(Deserialize)]
struct RouteArgs {
    config: AgentDirectory,
    /// Absent where only the configuration is read.
    #[serde(default)]
    to: Option<RoutingTarget>,
}

#[derive(Deserialize)]
struct PromptArgs {
    #[expect(dead_code, reason = "it is only read")]
    parts: PromptParts,
}

#[napi]
impl NativeEngine {
    /// The problems of what routes depend on, and of a target: a JSON array of `{ code, path, message }`. `args`: the JSON of
    /// `{ config, to }`.
    #[napi(catch_unwind)]
    pub fn route_problems(args: String) -> Result<String> {
        let problems = all_problems(&args, |text| match from_json::<RouteArgs>(text) {
            Ok(RouteArgs { config, to }) => to.and_then(|to| session_of(&config, &to).err()),
            Err(error) => Some(error),
        });
        listed(problems)
    }

    /// The problems of the parts of a system prompt, as [`Self::route_problems`] returns them. `args`: the JSON of `{ parts }`.
    #[napi(catch_unwind)]
    pub fn prompt_problems(args: String) -> Result<String> {
        listed(all_problems(&args, |text| from_json::<PromptArgs>(text).err()))
    }
}

fn listed(problems: Vec<InputError>) -> Result<String> {
    let problem = |error: InputError| {
        let is_target = error.path == "to" || error.path.starts_with("to.");
        let code = if is_target { ErrorCode::InvalidTarget } else { ErrorCode::InvalidOptions };
        Problem::of(EngineError::at(code, error))
    };
    let problems: Vec<Problem> = problems.into_iter().map(problem).collect();
    json(&problems).map_err(|error| js_error(&error))
}
