//! Decisions about calls that wait for one: each is made once, and is final. It must never store one.

use serde_json::value::RawValue;

use model::{
    Approval, ApprovalDecision, ApprovalKind, ApprovalName, ApprovalStatus, ApprovalVerdict,
    StorageError, StorageErrorKind,
};

/// Why the calls of a turn that a message has interrupted are denied.
pub const INTERRUPTED: &str = "A message interrupted the turn.";

/// Decides about an approval, if nobody has. Returns it as decided.
///
/// # Errors
/// `unknown_approval`, `already_decided`.
pub fn decide(
    found: Option<Approval>,
    decision: &ApprovalDecision,
    now: i64,
) -> Result<Approval, StorageError> {
    let mut approval = found.ok_or_else(|| unknown(&decision.of))?.at(now);
    if !approval.is_pending(now) {
        return Err(already_decided(&approval));
    }
    let (status, reason, result) = match (&decision.verdict, approval.kind) {
        (ApprovalVerdict::Approve(_), ApprovalKind::Approval) => {
            (ApprovalStatus::Approved, None, None)
        }
        (ApprovalVerdict::Deny(reason), ApprovalKind::Approval | ApprovalKind::Result) => {
            (ApprovalStatus::Denied, Some(reason.clone()), None)
        }
        (ApprovalVerdict::Provide(json), ApprovalKind::Result) => {
            (ApprovalStatus::Provided, None, Some(json.clone()))
        }
        (ApprovalVerdict::Approve(_), ApprovalKind::Result) => {
            let why = "waits for its result; pass it to `provideToolResult`";
            return Err(wrong_kind(&approval, why));
        }
        (ApprovalVerdict::Provide(_), ApprovalKind::Approval) => {
            return Err(wrong_kind(&approval, "waits for a decision; call `approve` or `deny`"));
        }
    };
    if let ApprovalVerdict::Approve(Some(changed)) = &decision.verdict
        && changed.hash != approval.params_hash
    {
        let params = RawValue::from_string(changed.json.clone()).map_err(|_| {
            let message = format!("the arguments for approval `{}` are no JSON", approval.id);
            StorageError::new(StorageErrorKind::Constraint, message)
        })?;
        approval.requested_params = Some(std::mem::replace(&mut approval.params, params));
        approval.params_hash.clone_from(&changed.hash);
    }
    approval.status = status;
    approval.decided_by.clone_from(&decision.by);
    approval.reason = reason;
    approval.result_json = result;
    approval.decided_at = Some(now);
    Ok(approval)
}

fn unknown(of: &ApprovalName) -> StorageError {
    let message = match of {
        ApprovalName::Id(id) => {
            format!("the ledger has no approval `{id}`; pass an id that `approvals()` lists")
        }
        ApprovalName::Call(id) => {
            format!("no call `{id}` waits for its result; pass a `callId` that `approvals()` lists")
        }
    };
    StorageError::new(StorageErrorKind::UnknownApproval, message)
}

fn wrong_kind(approval: &Approval, why: &str) -> StorageError {
    let message = format!("the call of `{}` ({}) {why}", approval.tool_name, approval.call_id);
    StorageError::new(StorageErrorKind::UnknownApproval, message)
}

fn already_decided(approval: &Approval) -> StorageError {
    let by = approval.decided_by.as_ref().map_or_else(String::new, |by| format!(" by `{by}`"));
    let how = match approval.status {
        ApprovalStatus::Pending | ApprovalStatus::Cancelled => "was cancelled: its turn has ended",
        ApprovalStatus::Approved => "was approved",
        ApprovalStatus::Denied => "was denied",
        ApprovalStatus::Expired => "has expired, which denied it",
        ApprovalStatus::Provided => "has its result",
    };
    let message = format!("approval `{}` {how}{by}; a decision is final", approval.id);
    StorageError::new(StorageErrorKind::AlreadyDecided, message)
}
