//! The end of a run whose id another run has: it has no turn, and nothing was sent.
//!
//! It must never write, and never emit an event.

use serde::Serialize;

use crate::engine::active_run::ActiveRun;
use crate::engine::events::RecordKind;
use model::{Role, StorageError, StoredRequest};

/// Why a run was refused, as the host receives it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Refusal<'a> {
    code: &'a str,
    message: &'a str,
    field: &'a str,
    /// Whether the other run was started with the same message in the same session.
    is_same: bool,
}

/// Reports to the host that the run was refused.
pub(super) async fn refuse(active: &ActiveRun, error: StorageError) {
    let (run, queue) = (&active.run, &active.queue);
    run.control.close();
    let is_same = is_same_request(active).await;
    queue.stop_storing();
    let field = error.field.as_deref().unwrap_or("runId");
    let (code, message) = (error.kind.code(), error.message.as_str());
    let refusal = Refusal { code, message, field, is_same };
    queue.host(RecordKind::Refused, &serde_json::to_string(&refusal).unwrap_or_default());
}

/// Whether the run with the same id has the same message and session, as far as that can be known: a run that waits for its
/// session has stored neither.
async fn is_same_request(active: &ActiveRun) -> bool {
    let (context, shared) = (&active.run.context, &active.shared);
    let Some(journal) = &shared.journal else { return false };
    let Ok(found) = journal.request_of(&context.run_id).await else { return false };
    let Some(StoredRequest { session_label, messages }) = found else { return true };
    let label = journal.session_named(&context.session_label).await;
    let asked = messages.iter().find(|message| message.role == Role::User);
    label.is_ok_and(|label| label == session_label)
        && asked.is_some_and(|message| message.blocks == context.current_message.blocks)
}
