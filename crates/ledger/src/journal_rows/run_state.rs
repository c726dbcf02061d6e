//! Where a run is that has not ended: it waits for its session, a process runs it, or none does.
//!
//! It must never report a run as under way after its process has ended.

use rusqlite::Connection;

use crate::journal_rows::approval_rows;
use crate::journal_rows::run_rows::RunRow;
use crate::lease::claim::Claim;
use crate::lease::owner::Owner;
use crate::sqlite::error::Stored;
use model::{RunProcess, RunStatus};

/// Who may run a run: the leases of the file, and the runs of this process.
pub(crate) struct Live<'a> {
    pub(crate) claim: &'a Claim,
    /// Whether the run of a turn is under way in this process.
    pub(crate) is_here: &'a dyn Fn(&str) -> bool,
}

/// Where a run is that has not ended, and the process that runs it.
pub(crate) fn state(
    connection: &Connection,
    live: &Live<'_>,
    run: &RunRow,
) -> Stored<(RunStatus, Option<RunProcess>)> {
    let Live { claim, is_here } = live;
    if let Some(epoch) = run.epoch
        && claim.runs(connection, &run.session_label, epoch)?
    {
        return Ok((RunStatus::Running, claim.process_of(connection, &run.session_label)?));
    }
    let own = || RunProcess { pid: claim.owner.pid, current: true };
    let here = is_here(&run.turn_id).then(own);
    if run.epoch.is_some()
        && approval_rows::is_parked(connection, &run.session_label, &run.turn_id)?
    {
        // It continues after a decision, in whichever process.
        return Ok((RunStatus::AwaitingApproval, here));
    }
    if here.is_some() {
        // It waits for its session, or takes over an interrupted turn.
        return Ok((RunStatus::Waiting, here));
    }
    let waits = |owner: &&Owner| owner.id != claim.owner.id && !claim.owner.knows_dead(owner);
    Ok(match run.owner.as_ref().filter(|_| run.epoch.is_none()).filter(waits) {
        Some(owner) => (RunStatus::Waiting, Some(RunProcess { pid: owner.pid, current: false })),
        None => (RunStatus::Interrupted, None),
    })
}
