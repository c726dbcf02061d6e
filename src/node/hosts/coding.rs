//! Coding tools in a run: they are called here, and not in JavaScript. It must never let a call go on whose run has ended.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json as object;
use serde_json::value::RawValue;

use super::coding_calls::{Done, blocking, repaired};
use crate::engine::{EventQueue, RecordKind, Tasks};
use base::error::{EngineError, ErrorCode};
use model::Block;
use tools::{Invocation, Reconciled, StepFuture, ToolAnswer};
use workspace::{Cancel, Outcome, Output, ToolError, Workspace};

/// The coding tools of a run.
pub(in crate::node) struct CodingHost {
    pub(in crate::node) tools: Vec<CodingTools>,
    /// What the close of the engine waits for.
    pub(in crate::node) tasks: Tasks,
}

/// Tools of a workspace that a run has.
pub(in crate::node) struct CodingTools {
    pub(in crate::node) workspace: Arc<Workspace>,
    /// The name of each in the run, and its own.
    pub(in crate::node) names: HashMap<String, String>,
    /// Somebody reads what commands print while they run.
    pub(in crate::node) updates: bool,
}

/// A tool of a run, as one call uses it.
pub(super) struct CodingTool {
    workspace: Arc<Workspace>,
    name: String,
    updates: bool,
    tasks: Tasks,
}

/// Ends the call when it is dropped: the run has ended, or the call's time.
struct Guard(Cancel);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

impl CodingHost {
    /// The tool that the run calls by this name, if it is one of these.
    pub(super) fn find(&self, name: &str) -> Option<CodingTool> {
        self.tools.iter().find_map(|CodingTools { workspace, names, updates }| {
            let name = names.get(name)?.clone();
            let (workspace, tasks) = (Arc::clone(workspace), self.tasks.clone());
            Some(CodingTool { workspace, name, updates: *updates, tasks })
        })
    }
}

impl CodingHost {
    /// Stores a result that is too long for the model where the run's `read` reads it; nothing where the run has none, nor for `read`
    /// itself, which continues where it ended.
    pub(super) fn spill(&self, tool: &str, text: String) -> Option<StepFuture> {
        let (workspace, reader) = self.tools.iter().find_map(|tools| {
            let (name, _) = tools.names.iter().find(|(_, own)| *own == "read")?;
            Some((Arc::clone(&tools.workspace), name.clone()))
        })?;
        if self.find(tool).is_some_and(|own| own.name == "read") {
            return None;
        }
        let (tasks, tool) = (self.tasks.clone(), tool.to_owned());
        Some(Box::pin(async move {
            let spilled =
                on_task(tasks, workspace, false, move |workspace, _| workspace.spill(&tool, &text));
            let path = spilled.await.ok()?.ok()?;
            Some(format!("`{reader}` reads all of it in {}", path.display()))
        }))
    }
}

impl CodingTool {
    pub(super) async fn execute(
        self,
        invocation: Invocation,
        queue: Arc<EventQueue>,
    ) -> ToolAnswer {
        let Self { workspace, name, updates, tasks } = self;
        let is_shell = name == "bash";
        let done = on_task(tasks, workspace, is_shell, move |workspace, cancel| {
            let update = |partial: Output| {
                // After the end of the run there is nobody who reads it.
                if updates && !cancel.is_cancelled() {
                    queue.host(RecordKind::ToolUpdate, &progress(&invocation, &partial));
                }
            };
            let params = repaired(&invocation.arguments_json);
            workspace.call_with_updates(&name, &params, cancel, &update)
        });
        match done.await {
            Ok(Ok(output)) => answer(&output),
            Ok(Err(error)) => ToolAnswer::error(error.to_string()),
            Err(error) => ToolAnswer::error(error.to_string()),
        }
    }

    pub(super) async fn reconcile(self, invocation: Invocation) -> Reconciled {
        let Self { workspace, name, tasks, .. } = self;
        let done = on_task(tasks, workspace, false, move |workspace, cancel| {
            workspace.outcome(&name, &repaired(&invocation.arguments_json), cancel)
        });
        match done.await {
            Ok(Ok(Outcome::Done(output))) => Reconciled::Done(answer(&output)),
            Ok(Ok(Outcome::NotDone)) => Reconciled::NotDone,
            Ok(Ok(Outcome::Unknown) | Err(_)) | Err(_) => Reconciled::Unknown,
        }
    }
}

/// Runs a call as a task of the engine, so that its close waits for it; dropping the future cancels the call.
async fn on_task<T: Send + 'static>(
    tasks: Tasks,
    workspace: Arc<Workspace>,
    shells: bool,
    work: impl FnOnce(&Workspace, &Cancel) -> Result<T, ToolError> + Send + 'static,
) -> Done<T> {
    let cancel = Cancel::default();
    let _guard = Guard(cancel.clone());
    let (send, done) = tokio::sync::oneshot::channel();
    tasks.spawn(async move {
        // A call that was cancelled has nobody who waits.
        let _ = send.send(blocking(workspace, shells, cancel, work).await);
    });
    done.await.unwrap_or_else(|_| {
        let message = "a coding tool ended without a result";
        Err(EngineError::new(ErrorCode::Internal, message))
    })
}

fn answer(output: &Output) -> ToolAnswer {
    let content = output.content.iter().map(|block| match block {
        workspace::Block::Text { text } => Block::text(text.as_str()),
        workspace::Block::Image { data, mime_type } => {
            Block::Image { mime_type: (*mime_type).to_owned(), data: data.clone() }
        }
    });
    let result_json = serde_json::to_string(output).and_then(RawValue::from_string).ok();
    ToolAnswer {
        content: content.collect(),
        result_json,
        is_error: false,
        spawned_session_label: None,
    }
}

fn progress(invocation: &Invocation, partial: &Output) -> String {
    let Invocation { tool_name, provider_call_id, call_id, .. } = invocation;
    object!({
        "toolName": tool_name, "toolCallId": provider_call_id, "callId": call_id, "partial": partial,
    })
    .to_string()
}
