//! A message from one agent to another one: its limits, the session that is made for it, its dispatch and its position in the
//! queue, in one transaction.
//!
//! It must never write a part of it: a refusal comes before the first row.

use broker::agents::{
    Ending, Inherited, Standing, TaskEnd, admit_message, admit_task, depth_of, new_dispatch,
    new_message, task_budget,
};
use tokio_postgres::types::Type;

use crate::connect::error::Failure;
use crate::connect::server::Param;
use crate::queue::dispatch_rows::{self, READ, ROOT, SPAWNED, StoredDispatch};
use crate::queue::item_rows::{self, OF_ID};
use crate::queue::transaction::Transaction;
use crate::queue::{budgets, dispatch_end, enqueue, links};
use crate::rows::turn_read::get;
use crate::sessions::aliases;
use model::{
    AgentSent, AgentTask, Enqueued, MessageSender, NewAgentMessage, QueueLimits, SpendingLimits,
    StoredItem,
};

/// The messages of the turn `$1`.
const OWN: &str = "turn_id = $1 order by n";
/// Whether the turn `$1` runs, how many dispatches it has made, and how many of its session `$2` are active.
const STANDING: &str =
    "select exists (select from @turns where id = $1 and status = 'streaming') as is_open,
   (select count(*) from @dispatches where parent_turn_id = $1) as children,
   (select count(*) from @dispatches where parent_session = $2 and status = 'active') as active";

/// Stores a message.
pub(crate) async fn send(
    transaction: &Transaction<'_>,
    new: &NewAgentMessage,
    limits: QueueLimits,
) -> Result<AgentSent, Failure> {
    // The limits of a session hold over all processes.
    transaction.lock(&format!("agents of {}", new.from_session)).await?;
    if let Some(stored) = item_rows::read(transaction, OF_ID, &new.id).await?.pop() {
        let session_label = stored.session_label;
        return Ok(AgentSent::Stored { session_label, dropped: Vec::new() });
    }
    let own = item_rows::read(transaction, OWN, &new.from_turn).await?;
    let standing = standing(transaction, new, &own).await?;
    let admitted = match &new.task {
        Some(task) => admit_task(standing, task.limits).map(|depth| (depth, standing.hops)),
        None => admit_message(standing).map(|hops| (0, hops)),
    };
    let (depth, hops) = match admitted {
        Ok(admitted) => admitted,
        Err(why) => return Ok(AgentSent::Refused(why)),
    };
    let session_label = &aliases::resolve_in(transaction, &new.to_session).await?;
    // Before the accounts, as a message locks them: its session may drop another task.
    transaction.lock(session_label).await?;
    if let Some(task) = &new.task {
        let (limits, parent_account) = match reserve(transaction, task).await? {
            Ok(reserved) => reserved,
            Err(why) => return Ok(AgentSent::Refused(why)),
        };
        if task.is_new {
            links::make_task_session(transaction, new, task).await?;
        }
        let root = transaction.row(ROOT, &[(&new.from_turn, Type::TEXT)]).await?;
        let root = match &root {
            Some(row) => get(row, "root_turn_id")?,
            None => new.from_turn.clone(),
        };
        let now = transaction.clock.now_ms();
        let dispatch = new_dispatch((new, task), (session_label, root), (depth, hops), limits, now);
        let inherited = Inherited::of(&own);
        let stored = StoredDispatch { dispatch, inherited, parent_account };
        dispatch_rows::add(transaction, &stored).await?;
    }
    let item = new_message(new, session_label, &own, hops, &transaction.clock.new_id());
    let dropped = match enqueue::enqueue(transaction, &item, limits).await? {
        Enqueued::Queued { dropped, .. } => dropped,
        Enqueued::Duplicate { .. } => Vec::new(),
        Enqueued::Rejected { .. } => {
            let text = "The task was rejected: the queue is full.";
            let ending = Ending::without_turn(TaskEnd::Failed, text);
            dispatch_end::end(transaction, &new.id, ending).await?;
            Vec::new()
        }
    };
    Ok(AgentSent::Stored { session_label: session_label.clone(), dropped })
}

/// What a new task may spend, and the account in which that is reserved; or why it is refused.
async fn reserve(
    transaction: &Transaction<'_>,
    task: &AgentTask,
) -> Result<Result<(SpendingLimits, Option<String>), String>, Failure> {
    let (left, account) = match &task.parent_budget {
        None => (SpendingLimits::default(), None),
        Some(parent) => (budgets::left(transaction, parent).await?, Some(parent.account.clone())),
    };
    let limits = task_budget(task.kind, task.limits_of_agent, left);
    Ok(limits.map(|limits| (limits, account)))
}

async fn standing(
    transaction: &Transaction<'_>,
    new: &NewAgentMessage,
    own: &[StoredItem],
) -> Result<Standing, Failure> {
    let spawned = dispatch_rows::read(transaction, SPAWNED, &new.from_session).await?.pop();
    let mut depth = spawned.map_or(0, |spawned| spawned.depth);
    let senders: Vec<&MessageSender> = own.iter().filter_map(|it| it.sender.as_deref()).collect();
    for sender in &senders {
        let Some(id) = &sender.dispatch_id else { continue };
        if let Some(dispatch) = dispatch_rows::read(transaction, READ, id).await?.pop() {
            depth = depth.max(depth_of(sender, &dispatch));
        }
    }
    let of: [Param<'_>; 2] = [(&new.from_turn, Type::TEXT), (&new.from_session, Type::TEXT)];
    let row = transaction.row(STANDING, &of).await?;
    let Some(row) = row else {
        return Ok(Standing { is_open: false, depth, hops: 0, children: 0, active: 0 });
    };
    let count = |name: &str| get::<i64>(&row, name).map(|it| u32::try_from(it).unwrap_or(u32::MAX));
    Ok(Standing {
        is_open: get(&row, "is_open")?,
        depth,
        hops: senders.iter().map(|sender| sender.hops).max().unwrap_or(0),
        children: count("children")?,
        active: count("active")?,
    })
}
