//! What becomes of a call before it runs: the check of its arguments, the host's decision, and whether it waits for an
//! approval of exactly these arguments (docs/rules/approvals.md#order).
//!
//! It must never run a tool, nor let a call run that nobody has allowed.

use std::time::Duration;

use serde_json::value::RawValue;

use super::driver::Driver;
use crate::engine::active_run::ActiveRun;
use crate::engine::limits::policy;
use crate::engine::state::arguments_hash;
use model::{
    Approval, ApprovalKind, ApprovalPhase, ApprovalStatus, StreamEvent, ToolDefinition,
    ToolPermission,
};
use tools::{AdmissionQueue, Ask, Invocation, Prepared, Ticket, ToolAnswer, Verdict};
use turn::machine::{Machine, PendingCall};
use turn::permits::grants::Grants;

/// How long the host may take to decide about a call, and the result of a call about which it did not decide
/// (docs/rules/turns-and-streams.md#hooks).
const SILENCE: Duration = Duration::from_secs(30);
const SILENT: &str = "This tool was not run: nobody decided about the call in time.";
/// The result of a call whose approval has expired.
const EXPIRED: &str = "This tool was not run: nobody approved the call in time.";
const CANCELLED: &str = "This tool was not run: the approval of the call was cancelled.";
const UNREADABLE: &str = "The result of this tool was provided, but cannot be read.";

/// A call that was not refused.
pub(super) enum Admission {
    /// It runs when its turn comes.
    Run(Prepared, Ticket),
    /// It has its result: provided from outside.
    Provided(ToolAnswer),
    /// It waits for a decision.
    Waits(Box<Approval>),
}

/// Checks a call and queues it. The error is its result.
pub(super) async fn admit(
    driver: &Driver,
    admissions: &AdmissionQueue,
    machine: &Machine,
    call: &PendingCall,
) -> Result<Admission, String> {
    let run = &driver.active.run;
    let tool_set = &run.tool_set;
    let known = run.approvals.iter().find(|approval| approval.call_id == call.call_id);
    if let Some(approval) = known {
        return decided(driver, admissions, call, approval).await;
    }
    // A call in doubt was allowed before it started.
    if !run.context.policies.is_empty() && !call.reconcile {
        let nth = machine.calls().position(|state| state.row.call_id == call.call_id);
        let nth = nth.unwrap_or(usize::MAX);
        let own = run.own_names.get(&call.tool_name).map(String::as_str);
        if let Some(refusal) = policy::refusal(&run.context.policies, &call.tool_name, own, nth) {
            return Err(refusal);
        }
    }
    let is_named = |tool: &ToolDefinition| tool.name == call.tool_name;
    if let Some(offered) = &run.step.tools
        && !offered.iter().any(is_named)
        && tool_set.tools().iter().any(is_named)
    {
        return Err(format!("Tool {} is not offered in this step", call.tool_name));
    }
    let mut prepared = tool_set.prepare(&call.tool_name, &call.arguments_json).await?;
    let mut ask = Ask::default();
    let (mut asks, mut allowed) = (false, false);
    // A call in doubt was allowed before it started.
    if driver.host.decides() && !call.reconcile {
        let invocation = invocation(&driver.active, call, prepared.arguments_json.clone());
        let verdict = tokio::time::timeout(SILENCE, driver.host.decide(invocation)).await;
        let changed = match verdict.map_err(|_| SILENT.to_owned())? {
            Verdict::Allow => {
                allowed = true;
                None
            }
            Verdict::Deny(reason) => return Err(reason),
            Verdict::Params(changed) => Some(changed),
            Verdict::Ask(mut given) => {
                asks = true;
                let changed = given.params.take();
                ask = given;
                changed
            }
        };
        if let Some(changed) = changed {
            prepared = tool_set.prepare(&call.tool_name, &changed).await?;
        }
    }
    let Some(tool) = tool_set.tools().get(prepared.index) else {
        return Err(format!("Tool {} not found", call.tool_name));
    };
    let needs = asks
        || tool.external
        || (tool.permission == ToolPermission::Ask
            && !allowed
            && !call.reconcile
            && !is_granted(&driver.active, tool, &prepared.arguments_json));
    if needs {
        return requested(&driver.active, call, tool, &prepared, ask).map(Admission::Waits);
    }
    Ok(queued(tool, prepared, admissions))
}

fn queued(tool: &ToolDefinition, prepared: Prepared, admissions: &AdmissionQueue) -> Admission {
    let ticket = admissions.queue(tool.execution_mode);
    Admission::Run(prepared, ticket)
}

fn is_granted(active: &ActiveRun, tool: &ToolDefinition, arguments: &str) -> bool {
    let granted = Grants::of(&active.run.context.permissions_granted);
    granted.covering(&tool.name, arguments).is_some()
}

/// The approval that a call needs.
fn requested(
    active: &ActiveRun,
    call: &PendingCall,
    tool: &ToolDefinition,
    prepared: &Prepared,
    ask: Ask,
) -> Result<Box<Approval>, String> {
    let (run, clock) = (&active.run, &active.shared.clock);
    let params = RawValue::from_string(prepared.arguments_json.clone())
        .map_err(|_| "the arguments are not JSON".to_owned())?;
    let now = clock.now_ms();
    let expires = ask.expires_ms.or(run.context.approval_expires_ms);
    Ok(Box::new(Approval {
        id: clock.new_id(),
        kind: if tool.external { ApprovalKind::Result } else { ApprovalKind::Approval },
        status: ApprovalStatus::Pending,
        turn_id: run.turn_id.clone(),
        run_id: run.context.run_id.clone(),
        session_label: run.context.session_label.clone(),
        call_id: call.call_id.clone(),
        tool_call_id: call.provider_call_id.clone(),
        message_id: call.message_id.clone(),
        tool_name: call.tool_name.clone(),
        params_hash: arguments_hash(&params),
        params,
        requested_params: None,
        question: ask.question,
        decided_by: None,
        reason: None,
        created_at: now,
        expires_at: expires.map(|ms| now.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))),
        decided_at: None,
        result_json: None,
    }))
}

/// A call that has waited for a decision, and may still.
async fn decided(
    driver: &Driver,
    admissions: &AdmissionQueue,
    call: &PendingCall,
    approval: &Approval,
) -> Result<Admission, String> {
    let active = &driver.active;
    let approval = approval.clone().at(active.shared.clock.now_ms());
    if approval.status == ApprovalStatus::Pending {
        return Ok(Admission::Waits(Box::new(approval)));
    }
    if !call.reconcile {
        let decided = ApprovalPhase::Decided;
        active.queue.event(|seq| StreamEvent::approval(decided, &approval).numbered(seq));
    }
    match approval.status {
        ApprovalStatus::Pending => Ok(Admission::Waits(Box::new(approval))),
        ApprovalStatus::Approved => {
            let tool_set = &active.run.tool_set;
            // Again, because the tools of this process may have changed since.
            let prepared = tool_set.prepare(&call.tool_name, approval.params.get()).await?;
            match tool_set.tools().get(prepared.index) {
                Some(tool) => Ok(queued(tool, prepared, admissions)),
                None => Err(format!("Tool {} not found", call.tool_name)),
            }
        }
        ApprovalStatus::Provided => approval
            .result_json
            .as_deref()
            .and_then(ToolAnswer::parse)
            .map(Admission::Provided)
            .ok_or_else(|| UNREADABLE.to_owned()),
        ApprovalStatus::Denied => Err(approval
            .reason
            .unwrap_or_else(|| format!("The call of `{}` was denied.", call.tool_name))),
        ApprovalStatus::Expired => Err(EXPIRED.to_owned()),
        ApprovalStatus::Cancelled => Err(CANCELLED.to_owned()),
    }
}

/// A call as the host receives it.
pub(super) fn invocation(
    active: &ActiveRun,
    call: &PendingCall,
    arguments_json: String,
) -> Invocation {
    let run = &active.run;
    Invocation {
        call_id: call.call_id.clone(),
        provider_call_id: call.provider_call_id.clone(),
        run_id: run.context.run_id.clone(),
        turn_id: run.turn_id.clone(),
        session_label: run.context.session_label.clone(),
        message_id: call.message_id.clone(),
        tool_name: call.tool_name.clone(),
        arguments_json,
    }
}
