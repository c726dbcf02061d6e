//! The abort of a session's run, wherever it is: in this process, in another one, or parked.
//!
//! It must never report that no run is under way while one parks or continues.

use super::super::drive::close_turn;
use super::super::recovery::journal_of;
use super::engine::Engine;
use base::error::{EngineError, ErrorCode};
use model::{LedgerPorts, RunFilter, RunStatus, SessionCommand, StorageError, StorageErrorKind};
use turn::machine::{Event, Interrupt};

impl Engine {
    /// Aborts the run that is under way in the session, in any process, or ends the turn that it is parked in. False where the
    /// run compacts.
    ///
    /// # Errors
    /// `not_running`; any of storage.
    pub(crate) async fn abort_session(
        &self,
        ledger: &LedgerPorts,
        label: &str,
    ) -> Result<bool, EngineError> {
        loop {
            let not_running = match ledger.admin.command(label, SessionCommand::Abort).await {
                Err(error) if error.kind == StorageErrorKind::NotRunning => error,
                taken => return Ok(taken?),
            };
            if self.abort_parked(label).await? {
                return Ok(true);
            }
            // It may have been parked at the first look, and have continued before the second one.
            if !is_under_way(ledger, label).await? {
                return Err(not_running.into());
            }
        }
    }

    /// Ends the turn that the session is parked in as aborted; false where it is parked in none. Its run ends with it, in
    /// whichever process.
    async fn abort_parked(&self, label: &str) -> Result<bool, EngineError> {
        let Some(store) = &self.shared.approvals else { return Ok(false) };
        let Some(turn_id) = store.parked_turn(label).await? else { return Ok(false) };
        match self.abort_open(&turn_id).await {
            Ok(()) => Ok(true),
            // It has continued, or ended, meanwhile.
            Err(error) if error.code == ErrorCode::Storage(StorageErrorKind::UnknownTurn) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Ends a turn that runs nowhere as aborted.
    ///
    /// # Errors
    /// `unknown_turn` for one that is not interrupted or parked; any of storage.
    pub(crate) async fn abort_open(&self, turn_id: &str) -> Result<(), EngineError> {
        let abort = Event::Interrupted { cause: Interrupt::Abort, partial: None };
        close_turn(&self.shared, journal_of(&self.shared)?, turn_id, abort).await?;
        Ok(())
    }
}

/// Whether the session has a run that a process runs, or that is parked, in one read.
async fn is_under_way(ledger: &LedgerPorts, label: &str) -> Result<bool, StorageError> {
    let filter = RunFilter { session: Some(label.to_owned()), ..RunFilter::default() };
    let runs = ledger.read.runs(filter).await?;
    let is_open = |status| matches!(status, RunStatus::Running | RunStatus::AwaitingApproval);
    Ok(runs.items.iter().any(|run| is_open(run.status)))
}
