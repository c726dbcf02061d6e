//! The port of approvals over the writer, the readers and the poller.
//!
//! It must never decide who may decide.

use crate::events::{approval_wait, follow};
use crate::handle::ledger::Ledger;
use crate::journal::open_turn_reads;
use crate::journal_rows::approval_rows;
use crate::sqlite::readers;
use model::{
    Approval, ApprovalDecision, ApprovalFilter, ApprovalStore, EndedTurn, Follows, LedgerRead,
    OpenTurn, Page, PortFuture, StorageError, StorageErrorKind, Unparked,
};

impl ApprovalStore for Ledger {
    fn approvals(&self, filter: ApprovalFilter) -> PortFuture<'static, Page<Approval>> {
        let (core, now) = (self.core(), self.clock.now_ms());
        Box::pin(async move {
            let read = move |connection: &rusqlite::Connection| {
                approval_rows::matching(connection, &filter, now)
            };
            core?.readers.run(|connection| readers::snapshot(connection, read)).await
        })
    }

    fn approval(&self, id: &str) -> PortFuture<'static, Option<Approval>> {
        let (core, now, id) = (self.core(), self.clock.now_ms(), id.to_owned());
        Box::pin(async move {
            let read =
                move |connection: &rusqlite::Connection| approval_rows::one(connection, &id, now);
            core?.readers.run(|connection| readers::snapshot(connection, read)).await
        })
    }

    fn decide(&self, decision: ApprovalDecision) -> PortFuture<'static, Approval> {
        let (core, clock) = (self.core(), self.clock.clone());
        let submitted = core.map(|core| {
            let answer = core.writer.submit(move |connection| {
                approval_rows::decide(connection, &decision, clock.now_ms())
            });
            (core, answer)
        });
        Box::pin(async move {
            let (_open, answer) = submitted?;
            answer.await
        })
    }

    fn unparked(&self, turn_id: &str, waits_for: Vec<String>) -> PortFuture<'static, Unparked> {
        let (core, clock, turn_id) = (self.core(), self.clock.clone(), turn_id.to_owned());
        Box::pin(async move {
            let core = core?;
            let parts = (&core.readers, &core.poller, &clock);
            approval_wait::unparked(parts, turn_id, waits_for).await
        })
    }

    fn open_turn(&self, turn_id: &str) -> PortFuture<'static, Option<Box<OpenTurn>>> {
        let (core, turn_id) = (self.core(), turn_id.to_owned());
        Box::pin(async move {
            let read = move |connection: &rusqlite::Connection| {
                let Some(found) = open_turn_reads::open_run(connection, &turn_id)? else {
                    return Ok(None);
                };
                open_turn_reads::open_turn(connection, &found).map(Box::new).map(Some)
            };
            core?.readers.run(|connection| readers::snapshot(connection, read)).await
        })
    }

    fn ended_turn(&self, turn_id: &str, after: u64) -> PortFuture<'_, EndedTurn> {
        let turn_id = turn_id.to_owned();
        Box::pin(async move {
            let (mut events, mut last) = (Vec::new(), after);
            loop {
                let of = Follows::Turn(turn_id.clone());
                match LedgerRead::follow(self, of, last).await {
                    Ok(page) => {
                        last = page.last;
                        events.extend(page.events);
                        if page.over {
                            break;
                        }
                    }
                    Err(error) if follow::has_no_events(&error) => break,
                    Err(error) => return Err(error),
                }
            }
            let found = LedgerRead::turn(self, &turn_id).await?;
            let turn = found.filter(|turn| turn.completed_at.is_some());
            let turn = turn.ok_or_else(|| {
                let message = format!("turn `{turn_id}` has no end in the ledger");
                StorageError::new(StorageErrorKind::UnknownTurn, message)
            })?;
            Ok(EndedTurn { events, turn: Box::new(turn) })
        })
    }

    fn parked_turn(&self, session_label: &str) -> PortFuture<'static, Option<String>> {
        let (core, label) = (self.core(), session_label.to_owned());
        Box::pin(async move {
            let read = move |connection: &rusqlite::Connection| {
                approval_rows::parked_turn(connection, &label)
            };
            core?.readers.run(|connection| readers::snapshot(connection, read)).await
        })
    }
}
