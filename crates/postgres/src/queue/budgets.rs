//! The accounts of budgets: what was spent, and what calls under way and tasks reserve, over all processes. The functions of the
//! schema lock the accounts that they look at.
//!
//! It must never let the sum of both exceed a ceiling at a commit, and never count a call twice.

use std::sync::PoisonError;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};
use crate::queue::transaction::Transaction;
use crate::rows::turn_read::get;
use model::{Dispatch, Overdrawn, Reservation, Reserved, SpendingLimits, TurnBudget};

fn signed(amount: u64) -> i64 {
    i64::try_from(amount).unwrap_or(i64::MAX)
}

fn unsigned(amount: i64) -> u64 {
    u64::try_from(amount).unwrap_or(0)
}

/// The parameters of a reservation.
pub(crate) struct Reserving<'a> {
    call_id: &'a str,
    most: (i64, i64),
    ids: Vec<&'a str>,
    spent: (Vec<Option<i64>>, Vec<Option<i64>>),
    max: (Vec<Option<i64>>, Vec<Option<i64>>),
    owner: &'a str,
    lease_ms: i64,
}

impl<'a> Reserving<'a> {
    /// The reservation is the process's, which renews it with its heartbeat from now on.
    pub(crate) fn of(server: &'a Server, reservation: &'a Reservation) -> Self {
        server.has_reserved.set(true);
        let Reservation { call_id, most, accounts } = reservation;
        let column = |of: fn(&model::ReservedAccount) -> Option<u64>| -> Vec<Option<i64>> {
            accounts.iter().map(|it| of(it).map(signed)).collect()
        };
        Self {
            call_id,
            most: (signed(most.tokens), signed(most.nanos)),
            ids: accounts.iter().map(|it| it.id.as_str()).collect(),
            spent: (column(|it| Some(it.spent.tokens)), column(|it| Some(it.spent.nanos))),
            max: (column(|it| it.max_tokens), column(|it| it.max_nanos)),
            owner: &server.owner,
            lease_ms: server.lease_ms,
        }
    }

    /// The function that reserves, with the parameters from `first` on. It has one row.
    pub(crate) fn call(first: usize) -> String {
        let params: Vec<String> = (first..first + 10).map(|n| format!("${n}")).collect();
        format!("@reserve({})", params.join(", "))
    }

    pub(crate) fn params(&self) -> [Param<'_>; 10] {
        [
            (&self.call_id, Type::TEXT),
            (&self.most.0, Type::INT8),
            (&self.most.1, Type::INT8),
            (&self.ids, Type::TEXT_ARRAY),
            (&self.spent.0, Type::INT8_ARRAY),
            (&self.spent.1, Type::INT8_ARRAY),
            (&self.max.0, Type::INT8_ARRAY),
            (&self.max.1, Type::INT8_ARRAY),
            (&self.owner, Type::TEXT),
            (&self.lease_ms, Type::INT8),
        ]
    }
}

/// The outcome in the row of a statement that has reserved.
pub(crate) fn reserved(row: &Row) -> Stored<Result<(), Overdrawn>> {
    let Some(account) = get::<Option<i32>>(row, "account")? else { return Ok(Ok(())) };
    Ok(Err(Overdrawn {
        account: usize::try_from(account).unwrap_or_default(),
        left: unsigned(get(row, "rest")?),
        is_cost: get(row, "is_cost")?,
    }))
}

/// Reserves the maximum of a call in all its accounts, or in none.
pub(crate) async fn reserve(
    server: &Server,
    reservation: &Reservation,
) -> Stored<Result<(), Overdrawn>> {
    let reserving = Reserving::of(server, reservation);
    let text = format!("select * from {}", Reserving::call(1));
    let row = server.row("reserve a budget", &text, &reserving.params()).await?;
    row.as_ref().map_or(Ok(Ok(())), reserved)
}

/// The same with the connection of a try.
pub(crate) async fn reserve_again(
    server: &Server,
    client: &Client,
    reservation: &Reservation,
) -> Result<Reserved, Failure> {
    let text = server.sql(&format!("select * from {}", Reserving::call(1)));
    let row = client.query_typed_one(&text, &Reserving::of(server, reservation).params()).await?;
    Ok(Some(reserved(&row)?))
}

/// Settles what processes had reserved that have ended: their calls are spent, at their maximum.
pub(crate) async fn settle_lost(server: &Server) -> Stored<()> {
    server.rows("settle lost calls", "select @settle_lost(null)", &[]).await.map(drop)
}

/// Renews what this process has reserved, and settles what others have lost, if it has reserved anything since the last time.
pub(crate) async fn renew(server: &Server) -> Stored<()> {
    if !server.has_reserved.replace(false) {
        return Ok(());
    }
    // Until a statement says that there is none.
    let renew =
        "update @budget_reservations set expires_at = @now_ms() + $2 where owner = $1 returning 1";
    let params: [Param<'_>; 2] = [(&server.owner, Type::TEXT), (&server.lease_ms, Type::INT8)];
    let renewed = server.rows("renew reservations", renew, &params).await;
    if renewed.as_ref().map_or(true, |rows| !rows.is_empty()) {
        server.has_reserved.set(true);
    }
    renewed?;
    settle(server).await?;
    settle_lost(server).await
}

/// Settles the calls that are not settled yet, each at what it has used. What fails is left to the next settlement, or the heartbeat.
pub(crate) async fn settle(server: &Server) -> Stored<()> {
    let unsettled = || server.live.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
    if unsettled().is_empty() {
        return Ok(());
    }
    let sql = server.sql("select @settle($1, $2, $3)");
    let settled = server.run("settle calls", async |client, _| {
        loop {
            let Some((call_id, used)) = unsettled().first().cloned() else { return Ok(()) };
            let (tokens, nanos) = (signed(used.tokens), signed(used.nanos));
            let params: [Param<'_>; 3] =
                [(&call_id, Type::TEXT), (&tokens, Type::INT8), (&nanos, Type::INT8)];
            client.query_typed(&sql, &params).await?;
            unsettled().retain(|(id, _)| *id != call_id);
        }
    });
    let settled = settled.await;
    if settled.is_err() && !unsettled().is_empty() {
        // The others do not wait for one that fails each time.
        unsettled().rotate_left(1);
    }
    settled
}

const CLOSE: &str = "select @close_account($1)";

/// Removes the account of a run that has ended, or of a tree in which no agent works any more.
pub(crate) async fn close(server: &Server, id: &str) -> Stored<()> {
    server.rows("close the account of a budget", CLOSE, &[(&id, Type::TEXT)]).await.map(drop)
}

/// What is left of the budget of a turn. Nobody reserves in it until the transaction ends.
pub(crate) async fn left(
    transaction: &Transaction<'_>,
    budget: &TurnBudget,
) -> Result<SpendingLimits, Failure> {
    let ids = [budget.account.as_str()];
    let ids: [Param<'_>; 1] = [(&ids.as_slice(), Type::TEXT_ARRAY)];
    transaction.rows("select @lock_accounts($1)", &ids).await?;
    let of: [Param<'_>; 1] = [(&budget.account, Type::TEXT)];
    let row = transaction.row("select * from @account_used($1)", &of).await?;
    let used = match &row {
        Some(row) => (unsigned(get(row, "tokens")?), unsigned(get(row, "nanos")?)),
        None => (0, 0),
    };
    let left = |most: Option<u64>, used: u64| most.map(|most| most.saturating_sub(used));
    let SpendingLimits { tokens, nanos } = budget.limits;
    Ok(SpendingLimits { tokens: left(tokens, used.0), nanos: left(nanos, used.1) })
}

/// A task has ended: what it has spent is spent of the budget in which it was reserved, and its own tasks that go on are reserved
/// there.
pub(crate) async fn settle_task(
    transaction: &Transaction<'_>,
    dispatch: &Dispatch,
    parent_account: Option<&str>,
) -> Result<(), Failure> {
    let Some(budget) = dispatch.budget() else { return Ok(()) };
    let params: [Param<'_>; 2] = [(&budget.account, Type::TEXT), (&parent_account, Type::TEXT)];
    let adopt = "update @dispatches set parent_account = $2 where parent_account = $1 and status = 'active'";
    transaction.exec(adopt, &params).await?;
    transaction.rows("select @fold_account($1, $2)", &params).await.map(drop)
}

/// What the end of a turn selects, so that the accounts of the turn `turn` are gone with it.
pub(crate) fn close_own(turn: &str) -> String {
    let close = |of: &str| format!(", @close_account('{of}:' || {turn})");
    ["turn", "run", "tree"].map(close).concat()
}

/// Removes the account of the tree of a turn, if that has ended and no agent works for it any more.
pub(crate) async fn close_tree(transaction: &Transaction<'_>, root: &str) -> Result<(), Failure> {
    // The turn and its last task may end at once: the second one sees the end of the first.
    let lock = "select @lock_accounts(array['tree:' || $1])";
    transaction.rows(lock, &[(&root, Type::TEXT)]).await?;
    let text = "select @close_account('tree:' || $1)
       where not exists (select from @turns where id = $1 and status = 'streaming')";
    transaction.rows(text, &[(&root, Type::TEXT)]).await.map(drop)
}

/// Removes the accounts of a turn whose process has ended, and that is closed: no run of it ends. What its calls had reserved there is
/// gone with it.
pub(crate) async fn close_turn(
    transaction: &Transaction<'_>,
    turn_id: &str,
) -> Result<(), Failure> {
    let text = "select @fold_account('turn:' || $1, null), @fold_account('run:' || $1, null),
       case when not exists (select from @dispatches where root_turn_id = $1 and status = 'active')
         then @fold_account('tree:' || $1, null) end";
    transaction.rows(text, &[(&turn_id, Type::TEXT)]).await.map(drop)
}
