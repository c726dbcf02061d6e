//! The coding tools for JavaScript: a call runs on a blocking thread, its answer comes through the hub.
//!
//! It must never touch a file on the JavaScript thread, except that a workspace's directories are opened when it is made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use napi::Result;
use napi_derive::napi;
use serde_json::json as object;

use super::errors::js_error;
use super::hosts::{CodingTools, blocking, repaired};
use super::hub::{HubCore, NativeHub};
use super::reply::{json, reply};
use base::error::EngineError;
use model::{InputError, from_json};
use workspace::{Cancel, OpenError, Outcome, Output, ToolError, Workspace, WorkspaceOptions};

/// An open workspace of coding tools.
/// @internal
#[napi]
pub struct NativeWorkspace {
    workspace: Arc<Workspace>,
    calls: Arc<Mutex<HashMap<u32, Cancel>>>,
}

#[napi]
impl NativeWorkspace {
    /// `options`: the JSON of `{ workspace, readRoots, protect, shell, temporary }`, with absolute paths.
    #[napi(constructor, catch_unwind)]
    pub fn new(options: String) -> Result<Self> {
        let options: WorkspaceOptions = from_json(&options).map_err(refused)?;
        let workspace = Workspace::open(&options)
            .map_err(|OpenError { field, message }| refused(InputError { path: field, message }))?;
        Ok(Self { workspace: Arc::new(workspace), calls: Arc::default() })
    }

    /// Runs a tool with the JSON of its parameters. The answer is its result, or `{ error }` with what the model is to read.
    /// `updates`: what a command prints comes before it, as `{ id, update }`.
    #[napi(catch_unwind)]
    pub fn call(&self, hub: &NativeHub, id: u32, tool: String, params: String, updates: bool) {
        let to: Option<Arc<HubCore>> = updates.then(|| Arc::clone(hub.core()));
        let update = move |output: Output| {
            if let Some(hub) = &to
                && let Ok(output) = json(&output)
            {
                hub.reply(&format!("{{\"id\":{id},\"update\":{output}}}"));
            }
        };
        let shells = tool == "bash";
        self.run(hub, id, shells, move |workspace, cancel| {
            let output = workspace.call_with_updates(&tool, &repaired(&params), cancel, &update)?;
            Ok(object!(output))
        });
    }

    /// Whether an `edit` or `apply_patch` of a call in doubt happened; the answer is `{ outcome, content }`, or `{ error }`.
    #[napi(catch_unwind)]
    pub fn outcome(&self, hub: &NativeHub, id: u32, tool: String, params: String) {
        self.run(hub, id, false, move |workspace, cancel| {
            Ok(match workspace.outcome(&tool, &repaired(&params), cancel)? {
                Outcome::Done(output) => object!({ "outcome": "done", "content": output.content }),
                Outcome::NotDone => object!({ "outcome": "not_done" }),
                Outcome::Unknown => object!({ "outcome": "unknown" }),
            })
        });
    }

    /// Ends a call early; a file that is already replaced stays replaced.
    #[napi(catch_unwind)]
    pub fn cancel(&self, id: u32) {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cancel) = calls.get(&id) {
            cancel.cancel();
        }
    }

    /// Run number `run`, which starts next, calls these tools without JavaScript. `names`: the names that they have in the run,
    /// and their own, as JSON of an object. `updates`: what a command prints is reported.
    #[napi(catch_unwind)]
    pub fn offer(&self, hub: &NativeHub, run: u32, names: String, updates: bool) -> Result<()> {
        let names: HashMap<String, String> = from_json(&names).map_err(refused)?;
        let tools = CodingTools { workspace: Arc::clone(&self.workspace), names, updates };
        hub.core().offer(run, tools);
        Ok(())
    }
}

impl NativeWorkspace {
    fn run(
        &self,
        hub: &NativeHub,
        id: u32,
        shells: bool,
        work: impl FnOnce(&Workspace, &Cancel) -> std::result::Result<serde_json::Value, ToolError>
        + Send
        + 'static,
    ) {
        let (core, workspace) = (Arc::clone(hub.core()), Arc::clone(&self.workspace));
        let calls = Arc::clone(&self.calls);
        let cancel = Cancel::default();
        calls.lock().unwrap_or_else(PoisonError::into_inner).insert(id, cancel.clone());
        hub.tasks().spawn(async move {
            let done = blocking(workspace, shells, cancel, work).await;
            calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            let answer = done.and_then(|result| match result {
                Ok(value) => json(&value),
                Err(error) => json(&object!({ "error": error.to_string() })),
            });
            reply(&core, id, answer);
        });
    }
}

fn refused(error: InputError) -> napi::Error {
    js_error(&EngineError::option(error))
}
