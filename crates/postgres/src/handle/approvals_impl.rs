//! The port of approvals over the statements, and the waits for a decision or the end of a turn, which any process may make.
//!
//! A wait must never keep the ledger open, nor hold a connection.

use std::time::Duration;

use model::{
    Approval, ApprovalDecision, ApprovalFilter, ApprovalStore, EndedTurn, Follows, LedgerRead,
    OpenTurn, Page, PortFuture, StorageErrorKind, Unparked,
};

use crate::connect::error::closed;
use crate::handle::postgres::Postgres;
use crate::journal::pointer::unknown_turn;
use crate::journal::take_over;
use crate::queue::approvals;
use crate::queue::transaction::{Transaction, transact};

/// Between two looks for what another process may have written.
const LOOK: Duration = Duration::from_secs(1);

impl ApprovalStore for Postgres {
    fn approvals(&self, filter: ApprovalFilter) -> PortFuture<'static, Page<Approval>> {
        let now = self.clock.now_ms();
        self.submit(
            None,
            move |server| async move { approvals::matching(&server, &filter, now).await },
        )
    }

    fn approval(&self, id: &str) -> PortFuture<'static, Option<Approval>> {
        let (id, now) = (id.to_owned(), self.clock.now_ms());
        self.submit(None, move |server| async move { approvals::one(&server, &id, now).await })
    }

    fn decide(&self, decision: ApprovalDecision) -> PortFuture<'static, Approval> {
        let clock = self.clock.clone();
        self.submit(None, move |server| async move {
            let decide = async |transaction: &Transaction<'_>| {
                approvals::decide(transaction, &decision).await
            };
            let approval = transact((&server, &clock), "decide about a call", decide).await?;
            server.live.wake(&approval.turn_id);
            server.announce(&[&approval.turn_id, &approval.session_label]);
            Ok(approval)
        })
    }

    fn unparked(&self, turn_id: &str, waits_for: Vec<String>) -> PortFuture<'static, Unparked> {
        let (this, turn_id) = (self.this.clone(), turn_id.to_owned());
        // From now on, so that no decision is missed.
        let mut changes = self.live.changes(&turn_id);
        self.live.listens.notify_one();
        Box::pin(async move {
            loop {
                let ledger = this.upgrade().ok_or_else(closed)?;
                let (of, ids, now) = (turn_id.clone(), waits_for.clone(), ledger.clock.now_ms());
                changes.mark_unchanged();
                let look = ledger.submit(None, move |server| async move {
                    approvals::look(&server, &of, &ids, now).await
                });
                drop(ledger);
                let until = match look.await? {
                    Ok(why) => return Ok(why),
                    Err(until) => until,
                };
                let left = until.map_or(LOOK, |at| {
                    Duration::from_millis(u64::try_from(at.saturating_sub(now)).unwrap_or_default())
                });
                changes.within(left.min(LOOK)).await;
            }
        })
    }

    fn open_turn(&self, turn_id: &str) -> PortFuture<'static, Option<Box<OpenTurn>>> {
        let turn_id = turn_id.to_owned();
        self.submit(
            None,
            move |server| async move { take_over::open_turn_of(&server, &turn_id).await },
        )
    }

    fn ended_turn(&self, turn_id: &str, after: u64) -> PortFuture<'_, EndedTurn> {
        let turn_id = turn_id.to_owned();
        Box::pin(async move {
            let (mut events, mut last) = (Vec::new(), after);
            loop {
                match LedgerRead::follow(self, Follows::Turn(turn_id.clone()), last).await {
                    Ok(page) => {
                        last = page.last;
                        events.extend(page.events);
                        if !page.over {
                            continue;
                        }
                    }
                    Err(error) if error.kind == StorageErrorKind::EventsExpired => {}
                    Err(error) => return Err(error),
                }
                let turn = LedgerRead::turn(self, &turn_id).await?;
                let turn = turn.ok_or_else(|| unknown_turn(&turn_id))?;
                if turn.completed_at.is_some() {
                    return Ok(EndedTurn { events, turn: Box::new(turn) });
                }
                tokio::time::sleep(LOOK).await;
            }
        })
    }

    fn parked_turn(&self, session_label: &str) -> PortFuture<'static, Option<String>> {
        let label = session_label.to_owned();
        self.submit(
            None,
            move |server| async move { approvals::parked_turn(&server, &label).await },
        )
    }
}
