//! Which messages of agents are refused, and how a task has ended (docs/rules/agents.md#limits).
//!
//! A refusal is a text for the agent that sends the message, and names the limit.

use model::{DispatchStatus, StopReason, SubagentLimits};

/// How many messages between agents may follow one another.
pub const MAX_HOPS: u32 = 5;

/// What is stored about the turn that sends a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Whether the turn is under way.
    pub is_open: bool,
    /// Its depth: 0 for a turn that no dispatch began.
    pub depth: u32,
    /// How many messages between agents it follows.
    pub hops: u32,
    /// The dispatches that it has made.
    pub children: u32,
    /// The active dispatches of its session.
    pub active: u32,
}

/// Admits a task. Returns its depth.
///
/// # Errors
/// The limit that it would exceed.
pub fn admit_task(standing: Standing, limits: SubagentLimits) -> Result<u32, String> {
    open(standing)?;
    let depth = standing.depth.saturating_add(1);
    let SubagentLimits { max_depth, max_children, max_concurrent } = limits;
    if depth > max_depth {
        return Err(format!(
            "Not started: `subagents.maxDepth` allows agents {max_depth} deep, and this one would be {depth} deep. Do the \
             task yourself."
        ));
    }
    if standing.children >= max_children {
        return Err(format!(
            "Not started: `subagents.maxChildren` allows {max_children} agents in one turn, and this turn has started {}.",
            standing.children
        ));
    }
    if standing.active >= max_concurrent {
        return Err(format!(
            "Not started: `subagents.maxConcurrent` allows {max_concurrent} agents of a session at once, and {} are at work. \
             Wait for one of them.",
            standing.active
        ));
    }
    Ok(depth)
}

/// Admits a message. Returns how many messages between agents it follows, itself included.
///
/// # Errors
/// The limit that it would exceed.
pub fn admit_message(standing: Standing) -> Result<u32, String> {
    open(standing)?;
    let hops = standing.hops.saturating_add(1);
    if hops > MAX_HOPS {
        return Err(format!(
            "Not sent: {MAX_HOPS} messages between agents have followed one another. Finish without another message."
        ));
    }
    Ok(hops)
}

fn open(standing: Standing) -> Result<(), String> {
    if standing.is_open { Ok(()) } else { Err("Not sent: the turn has ended.".to_owned()) }
}

/// How the message of a task has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskEnd {
    /// With a turn, for this reason.
    Turn(StopReason),
    /// A full queue has dropped or rejected it, or its turn could not begin.
    Failed,
    /// It was cancelled, or its session was deleted.
    Cancelled,
    /// Its time was over before a turn had it.
    Overdue,
}

/// The status of a task that has ended.
#[must_use]
pub fn task_end(end: TaskEnd) -> DispatchStatus {
    match end {
        TaskEnd::Turn(StopReason::EndTurn | StopReason::MaxTokens | StopReason::ToolUse) => {
            DispatchStatus::Ok
        }
        TaskEnd::Turn(StopReason::Timeout) | TaskEnd::Overdue => DispatchStatus::Timeout,
        TaskEnd::Turn(StopReason::Aborted) | TaskEnd::Cancelled => DispatchStatus::Aborted,
        TaskEnd::Turn(StopReason::Error) | TaskEnd::Failed => DispatchStatus::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::{Standing, admit_message, admit_task};
    use model::SubagentLimits;

    const LIMITS: SubagentLimits =
        SubagentLimits { max_depth: 3, max_children: 5, max_concurrent: 8 };
    const FREE: Standing = Standing { is_open: true, depth: 0, hops: 0, children: 0, active: 0 };

    #[test]
    fn each_limit_of_a_task_is_named_by_its_refusal() {
        assert_eq!(admit_task(FREE, LIMITS), Ok(1));
        assert_eq!(
            admit_task(Standing { depth: 2, children: 4, active: 7, ..FREE }, LIMITS),
            Ok(3)
        );
        let refused = |standing| admit_task(standing, LIMITS).unwrap_err();
        assert!(
            refused(Standing { depth: 3, ..FREE })
                .contains("`subagents.maxDepth` allows agents 3 deep")
        );
        assert!(
            refused(Standing { children: 5, ..FREE }).contains("`subagents.maxChildren` allows 5")
        );
        assert!(
            refused(Standing { active: 8, ..FREE }).contains("`subagents.maxConcurrent` allows 8")
        );
        assert!(refused(Standing { is_open: false, ..FREE }).contains("has ended"));
    }

    #[test]
    fn five_messages_follow_one_another_and_no_sixth() {
        let hops = |hops| admit_message(Standing { hops, ..FREE });
        assert_eq!([hops(0), hops(4)], [Ok(1), Ok(5)]);
        assert!(hops(5).unwrap_err().contains("5 messages between agents"));
    }
}
