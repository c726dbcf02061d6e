//! All problems of a context or of options that were refused: what an error lists beside the first one.
//!
//! It must never start, write or send anything.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::super::engine::NativeEngine;
use super::super::errors::js_error;
use super::super::reply::json;
use super::ReadOptions;
use base::config::Environment;
use base::error::EngineError;
use model::{Defaults, GivenHistory, InputError, all_problems, parse_result, repair_surrogates};
use napi::Result;
use napi_derive::napi;
use provider::{KeyFuture, KeyHost};

/// One problem.
#[derive(Serialize)]
pub(in super::super) struct Problem {
    code: &'static str,
    path: String,
    message: String,
}

impl Problem {
    pub(in super::super) fn of(error: EngineError) -> Self {
        let path = error.field.unwrap_or_default();
        let message = match error.message.strip_prefix(&format!("`{path}`: ")) {
            Some(message) => message.to_owned(),
            None => error.message,
        };
        Self { code: error.code.as_str(), path, message }
    }
}

fn input_error(error: EngineError) -> InputError {
    let Problem { path, message, .. } = Problem::of(error);
    InputError { path, message }
}

/// A broker's own turn.
#[derive(Deserialize)]
struct OwnTurn<'a> {
    #[serde(borrow)]
    context: &'a RawValue,
    #[serde(borrow)]
    result: &'a RawValue,
}

/// The key functions of an engine that is only checked: none is called.
struct NoKeys;

impl KeyHost for NoKeys {
    fn key(&self, _: u32, _: bool, _: Option<&str>) -> KeyFuture {
        Box::pin(std::future::pending())
    }
}

#[napi]
impl NativeEngine {
    /// The problems of a context, the JSON of an `AssembledContext` with its whole history: a JSON array of `{ code, path,
    /// message }`.
    #[napi(catch_unwind)]
    pub fn context_problems(&self, context: String) -> Result<String> {
        let repaired = repair_surrogates(context.as_bytes());
        let context = std::str::from_utf8(&repaired).unwrap_or(&context);
        let mut usable = None;
        let problems = all_problems(context, |text| {
            let read = self.with_defaults(|defaults| {
                model::continue_context(text, GivenHistory::default(), defaults)
            });
            let error = read.and_then(|context| {
                let joining = self.mcp_host(&context).map(|mcp| mcp.join(&context, false, true));
                let may_join = joining.as_ref().map(|it| &*it.may_have as &dyn Fn(&str) -> bool);
                self.engine().check_tools(&context, may_join)?;
                usable = Some(context);
                Ok(())
            });
            error.err()
        });
        let named = |field: &str| problems.iter().any(|problem| problem.path == field);
        let names = usable
            .filter(|_| !named("provider") && !named("model"))
            .and_then(|context| self.engine().check_names(&context).err());
        let problems: Vec<Problem> =
            problems.into_iter().map(EngineError::context).chain(names).map(Problem::of).collect();
        json(&problems).map_err(|error| js_error(&error))
    }

    /// The problems of the fields of a context, without what depends on an engine, as [`Self::context_problems`] returns them.
    #[napi(catch_unwind)]
    pub fn field_problems(context: String) -> Result<String> {
        let repaired = repair_surrogates(context.as_bytes());
        let context = std::str::from_utf8(&repaired).unwrap_or(&context);
        let problems = all_problems(context, |text| {
            let mut new_id = String::new;
            let mut defaults = Defaults { new_id: &mut new_id, now_ms: 0 };
            model::continue_context(text, GivenHistory::default(), &mut defaults).err()
        });
        let problems: Vec<Problem> =
            problems.into_iter().map(EngineError::context).map(Problem::of).collect();
        json(&problems).map_err(|error| js_error(&error))
    }

    /// The problems of a broker's own turn, the JSON of its context and its result, as [`Self::context_problems`] returns them. The
    /// context must have none.
    #[napi(catch_unwind)]
    pub fn turn_problems(turn: String) -> Result<String> {
        let repaired = repair_surrogates(turn.as_bytes());
        let turn = std::str::from_utf8(&repaired).unwrap_or(&turn);
        let problems = all_problems(turn, |text| {
            let OwnTurn { context, result } = serde_json::from_str(text).ok()?;
            let mut new_id = String::new;
            let mut defaults = Defaults { new_id: &mut new_id, now_ms: 0 };
            let context =
                model::continue_context(context.get(), GivenHistory::default(), &mut defaults);
            parse_result(&context.ok()?, result.get(), &mut defaults).err()
        });
        let problems: Vec<Problem> =
            problems.into_iter().map(EngineError::context).map(Problem::of).collect();
        json(&problems).map_err(|error| js_error(&error))
    }

    /// The problems of options, the JSON of `AgentEngineOptions`, as [`Self::context_problems`] returns them.
    #[napi(catch_unwind)]
    pub fn option_problems(options: String) -> Result<String> {
        let environment = Environment::process();
        let host = Arc::new(NoKeys) as Arc<dyn KeyHost>;
        let problems = all_problems(&options, |text| {
            ReadOptions::of(text, Some(&host), &environment).err().map(input_error)
        });
        let problems: Vec<Problem> =
            problems.into_iter().map(EngineError::option).map(Problem::of).collect();
        json(&problems).map_err(|error| js_error(&error))
    }
}
