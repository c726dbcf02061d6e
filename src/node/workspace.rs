//! The file tools for JavaScript: a call runs on a blocking thread, its answer comes through the hub.
//!
//! It must never touch a file on the JavaScript thread, except that a workspace's directories are opened when it is made.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use napi::Result;
use napi_derive::napi;
use serde_json::json as object;
use tokio::sync::Semaphore;

use super::errors::js_error;
use super::hub::NativeHub;
use super::reply::{json, reply};
use base::error::{EngineError, ErrorCode};
use model::{InputError, from_json, repair_surrogates};
use workspace::{Cancel, OpenError, ToolError, Workspace, WorkspaceOptions};

/// Calls of file tools that run at the same time in this process; the others wait.
static RUNNING: Semaphore = Semaphore::const_new(8);
/// The longest time of a search; then its result is what it found.
const SEARCH_TIME: Duration = Duration::from_secs(30);

/// An open workspace of file tools.
/// @internal
#[napi]
pub struct NativeWorkspace {
    workspace: Arc<Workspace>,
    calls: Arc<Mutex<HashMap<u32, Cancel>>>,
}

#[napi]
impl NativeWorkspace {
    /// `options`: the JSON of `{ workspace, readRoots, protect }`, with absolute paths.
    #[napi(constructor, catch_unwind)]
    pub fn new(options: String) -> Result<Self> {
        let options: WorkspaceOptions = from_json(&options).map_err(refused)?;
        let workspace = Workspace::open(&options)
            .map_err(|OpenError { field, message }| refused(InputError { path: field, message }))?;
        Ok(Self { workspace: Arc::new(workspace), calls: Arc::default() })
    }

    /// Runs a tool with the JSON of its parameters. The answer is its result, or `{ error }` with what the model is to read.
    #[napi(catch_unwind)]
    pub fn call(&self, hub: &NativeHub, id: u32, tool: String, params: String) {
        self.run(hub, id, move |workspace, cancel| {
            workspace.call(&tool, &repaired(&params), cancel).map(|output| object!(output))
        });
    }

    /// Whether an `edit` or `apply_patch` of a call in doubt happened; the answer is `{ outcome }`, or `{ error }`.
    #[napi(catch_unwind)]
    pub fn outcome(&self, hub: &NativeHub, id: u32, tool: String, params: String) {
        self.run(hub, id, move |workspace, cancel| {
            let outcome = workspace.outcome(&tool, &repaired(&params), cancel)?;
            Ok(object!({ "outcome": outcome }))
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
}

impl NativeWorkspace {
    fn run(
        &self,
        hub: &NativeHub,
        id: u32,
        work: impl FnOnce(&Workspace, &Cancel) -> std::result::Result<serde_json::Value, ToolError>
        + Send
        + 'static,
    ) {
        let (core, workspace) = (Arc::clone(hub.core()), Arc::clone(&self.workspace));
        let calls = Arc::clone(&self.calls);
        let cancel = Cancel::default();
        calls.lock().unwrap_or_else(PoisonError::into_inner).insert(id, cancel.clone());
        hub.tasks().spawn(async move {
            // It is never closed; without a permit the call would only run at once.
            let _permit = RUNNING.acquire().await;
            let time_up = cancel.clone();
            let mut work = tokio::task::spawn_blocking(move || work(&workspace, &cancel));
            let done = tokio::select! {
                done = &mut work => done,
                () = tokio::time::sleep(SEARCH_TIME) => {
                    time_up.expire();
                    work.await
                }
            };
            calls.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            let answer = match done {
                Ok(Ok(value)) => json(&value),
                Ok(Err(error)) => json(&object!({ "error": error.to_string() })),
                Err(_panic) => {
                    let message = "a file tool failed inside; its message is on standard error";
                    Err(EngineError::new(ErrorCode::Internal, message))
                }
            };
            reply(&core, id, answer);
        });
    }
}

/// As in a context, a lone surrogate becomes U+FFFD.
fn repaired(json: &str) -> String {
    String::from_utf8_lossy(&repair_surrogates(json.as_bytes())).into_owned()
}

fn refused(error: InputError) -> napi::Error {
    js_error(&EngineError::option(error))
}
