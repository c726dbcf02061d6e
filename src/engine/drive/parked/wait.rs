//! A turn that waits for a decision: it parks, its lease and its lane are free meanwhile, and it continues after the decision
//! (docs/rules/approvals.md#parking).
//!
//! It must never hold a socket, a lease or a lane while it waits, and never decide.

use crate::engine::drive::driver::Driver;
use crate::engine::state::{JournalState, LaneTicket, RunUsage};
use model::{
    Approval, ApprovalPhase, OnApproval, Parking, StorageError, StreamEvent, Unparked,
    response_message_id,
};
use turn::machine::Machine;

/// What ended the wait of a parked turn.
pub(in crate::engine::drive) enum Wakes {
    /// A decision: the turn continues.
    Decision(Option<LaneTicket>),
    /// The abort of the run.
    Abort,
    /// The turn has ended, here or elsewhere.
    Ended,
    /// The engine closes: the turn stays parked.
    Close,
    /// The decisions cannot be read.
    Failed(StorageError),
}

/// Whether calls of the run can wait: their decisions are in the ledger.
pub(in crate::engine::drive) fn can_park(driver: &Driver, journal: &JournalState) -> bool {
    driver.active.shared.approvals.is_some() && matches!(journal, JournalState::Open(_))
}

/// Writes that the turn waits for `approvals`, with its events, and releases its lease.
pub(in crate::engine::drive) async fn park(
    driver: &Driver,
    machine: &Machine,
    journal: &mut JournalState,
    approvals: &[Approval],
) -> Result<(), StorageError> {
    let JournalState::Open(recorder) = journal else { return Ok(()) };
    let active = &driver.active;
    let run = &active.run;
    let is_new = |approval: &&Approval| !run.approvals.iter().any(|known| known.id == approval.id);
    let requested: Vec<Approval> = approvals.iter().filter(is_new).cloned().collect();
    let phase = ApprovalPhase::Requested;
    let mut events: Vec<StreamEvent> =
        requested.iter().map(|approval| StreamEvent::approval(phase, approval)).collect();
    if run.context.on_approval == OnApproval::Return {
        let (run_id, message) = (&run.context.run_id, response_message_id(machine.messages()));
        events.push(StreamEvent::parked_end(run_id.clone(), message));
    }
    let parking = Parking {
        requested,
        waits_for: approvals.iter().map(|approval| approval.id.clone()).collect(),
        events: events.clone(),
    };
    recorder.park(machine, parking).await?;
    run.control.parked();
    // They are stored: whoever receives them finds the approvals in the ledger.
    for event in events {
        active.queue.event(|seq| event.numbered(seq));
    }
    Ok(())
}

/// Waits for a decision about one of `approvals`. The time of the run stands still.
pub(in crate::engine::drive) async fn wait(driver: &mut Driver, approvals: &[Approval]) -> Wakes {
    let active = &driver.active;
    let shared = &active.shared;
    let remaining = active.remaining();
    let waits_for = approvals.iter().map(|approval| approval.id.clone()).collect();
    let Some(store) = &shared.approvals else { return Wakes::Ended };
    let abort = active.run.control.abort_token();
    let wakes = tokio::select! {
        biased;
        () = abort.cancelled() => Wakes::Abort,
        () = shared.closing.cancelled() => Wakes::Close,
        unparked = store.unparked(&active.run.turn_id, waits_for) => match unparked {
            Ok(Unparked::Decided) => Wakes::Decision(None),
            Ok(Unparked::Ended) => Wakes::Ended,
            Err(error) => Wakes::Failed(error),
        },
    };
    let Wakes::Decision(_) = wakes else { return wakes };
    active.run.control.unpark();
    let ticket = shared.lanes.queue(&active.run.context.session_label);
    let clock = shared.clock.clone();
    driver.active.run.bounds.restart(remaining, &clock);
    driver.active.run.resumes = true;
    driver.continues = true;
    driver.registration = driver.active.register();
    Wakes::Decision(Some(ticket))
}

/// The usage of a run that continues: its warnings stay, its counters are read from the ledger.
pub(in crate::engine::drive) fn continued(driver: &Driver, before: RunUsage) -> RunUsage {
    let RunUsage { warnings, notes, compaction, compacted, budget, .. } = before;
    let fresh = RunUsage::of(&driver.active.run.target.model);
    RunUsage { warnings, notes, compaction, compacted, budget, ..fresh }
}
