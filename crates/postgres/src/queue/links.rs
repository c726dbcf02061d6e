//! Sessions that a broker makes: forks of turns, and sessions of tasks with what links them to the call that made them.
//!
//! It must never move the pointer of a session that exists.

use broker::agents::task_status;
use tokio_postgres::types::Type;

use crate::connect::error::Failure;
use crate::connect::server::Param;
use crate::journal::pointer::Identity;
use crate::queue::transaction::Transaction;
use crate::rows::body::storable;
use model::{AgentTask, DispatchStatus, NewAgentMessage};

/// The session `$1` with the head `$2` and the persona `$3` and agent `$4` of its label, or those of the session where that turn ran.
const MAKE: &str = "with made as (
     insert into @sessions as s (label, head, persona_id, agent_id, created_at, updated_at, opening)
     select $1, case when $5 then t.id end, coalesce($3, f.persona_id, 'default'), coalesce($4, f.agent_id, 'default'), @now_ms(),
       @now_ms(), false
     from (select) as one left join @turns t on t.id = $2 and t.status <> 'streaming'
       left join @sessions f on f.label = t.session_label
     where t.id is not null or not $5
     on conflict do nothing returning s.label, s.head, s.created_at),
   moved as (
     insert into @session_moves (session_label, thread_id, changed_at)
     select label, head, created_at from made where head is not null)
   select from made";

async fn make(
    transaction: &Transaction<'_>,
    label: &str,
    follows: Option<&str>,
    begins_there: bool,
) -> Result<bool, Failure> {
    let identity = Identity::of(label);
    let params: [Param<'_>; 5] = [
        (&label, Type::TEXT),
        (&follows, Type::TEXT),
        (&identity.persona, Type::TEXT),
        (&identity.agent, Type::TEXT),
        (&begins_there, Type::BOOL),
    ];
    transaction.exists(MAKE, &params).await
}

/// A new session that begins at a turn that has ended; false where there is no such turn, or the label is taken.
pub(crate) async fn fork(
    transaction: &Transaction<'_>,
    turn_id: &str,
    label: &str,
) -> Result<bool, Failure> {
    make(transaction, label, Some(turn_id), true).await
}

/// The session of a task, linked with the session that gives it.
pub(crate) async fn make_task_session(
    transaction: &Transaction<'_>,
    new: &NewAgentMessage,
    task: &AgentTask,
) -> Result<(), Failure> {
    let of: [Param<'_>; 1] = [(&new.from_session, Type::TEXT)];
    let head = transaction.row("select head from @sessions where label = $1", &of).await?;
    let head: Option<String> =
        head.map(|row| crate::rows::turn_read::get(&row, "head")).transpose()?.flatten();
    let begins_there = task.is_fork && head.is_some();
    make(transaction, &new.to_session, head.as_deref(), begins_there).await?;
    let link = "update @sessions set is_subagent = true, parent_session_label = $2, agent_id = $3, task_description = $4,
         task_status = $5, origin = 'subagent', origin_session_id = $2 where label = $1";
    let status = task_status(DispatchStatus::Active);
    let description = storable(&task.description);
    let params: [Param<'_>; 5] = [
        (&new.to_session, Type::TEXT),
        (&new.from_session, Type::TEXT),
        (&new.to_agent, Type::TEXT),
        (&description, Type::TEXT),
        (&status, Type::TEXT),
    ];
    transaction.exec(link, &params).await.map(drop)
}

/// Links a subagent's session with the turn and the call that made it: both have their rows from the end of that turn on.
pub(crate) async fn link_turn(
    transaction: &Transaction<'_>,
    label: &str,
    (turn_id, call_id): (&str, &str),
) -> Result<(), Failure> {
    let text = "update @sessions set parent_turn_id = $2, spawn_tool_call_id = $3 where label = $1 and is_subagent";
    let params: [Param<'_>; 3] =
        [(&label, Type::TEXT), (&turn_id, Type::TEXT), (&call_id, Type::TEXT)];
    transaction.exec(text, &params).await.map(drop)
}

/// Sets the status of a subagent's task.
pub(crate) async fn set_task_status(
    transaction: &Transaction<'_>,
    label: &str,
    status: DispatchStatus,
) -> Result<(), Failure> {
    let text = "update @sessions set task_status = $2 where label = $1 and is_subagent";
    let status = task_status(status);
    transaction.exec(text, &[(&label, Type::TEXT), (&status, Type::TEXT)]).await.map(drop)
}
