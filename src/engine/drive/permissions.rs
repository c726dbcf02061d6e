//! The permissions that the calls of a turn have used: the entries of `permissionsGranted` that covered them, and approvals.
//!
//! It must never decide about a call.

use serde_json::Value;
use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use crate::engine::state::Run;
use model::{Approval, ApprovalStatus, ToolCallStatus, ToolPermission};
use turn::machine::Machine;
use turn::permits::grants::Grants;

/// What the calls of the run needed, each once, in call order; `None` where none needed a permission.
pub(super) fn used(run: &Run, machine: &Machine) -> Option<Box<RawValue>> {
    let tools = run.tool_set.tools();
    let asks = tools.iter().any(|tool| tool.permission == ToolPermission::Ask);
    if !asks && run.approvals.is_empty() {
        return None;
    }
    let grants = Grants::of(&run.context.permissions_granted);
    let mut used: Vec<Value> = Vec::new();
    for call in machine.calls().map(|state| state.row) {
        let approval = run.approvals.iter().find(|approval| approval.call_id == call.call_id);
        let needs = tools
            .iter()
            .any(|tool| tool.name == call.tool_name && tool.permission == ToolPermission::Ask);
        let entry = match approval {
            Some(approval) => of_approval(approval),
            None if needs && call.status != ToolCallStatus::Pending => {
                grants.covering(&call.tool_name, call.params.get()).map(Value::from)
            }
            None => None,
        };
        used.extend(entry.filter(|entry| !used.contains(entry)));
    }
    if used.is_empty() { None } else { to_raw_value(&used).ok() }
}

fn of_approval(approval: &Approval) -> Option<Value> {
    match approval.status {
        ApprovalStatus::Approved | ApprovalStatus::Provided => Some(json!({
            "tool": approval.tool_name,
            "approvalId": approval.id,
            "decidedBy": approval.decided_by,
        })),
        ApprovalStatus::Pending
        | ApprovalStatus::Denied
        | ApprovalStatus::Expired
        | ApprovalStatus::Cancelled => None,
    }
}
