//! The port through which a host changes and maintains the ledger: names of sessions, forks, turns of its own, commands
//! to runs elsewhere, checks, copies, transfer.
//!
//! What a backend does not have is the error `unsupported`, which says what to use instead. It must never name a backend.

use std::path::Path;

use crate::{
    AliasRow, CommitReceipt, CopyAnswer, CopyStep, Deletion, LedgerBackup, LedgerDeletion,
    LedgerExport, LedgerFormat, LedgerImport, LedgerReport, LedgerStats, LedgerVacuum, MetadataKey,
    PersonaRow, PortFuture, SessionChange, SessionCommand, SessionRow, TurnEnd,
};

/// Everything that a host can do with a ledger besides reading it and running turns. Every method may fail with any error
/// of storage; those named at a method are its own.
pub trait LedgerAdmin: Send + Sync {
    /// A new session that begins at the turn `turn_id`; its label is `fork-<ulid>` where none is given.
    ///
    /// # Errors
    /// See [`LedgerAdmin::fork_at`].
    fn fork<'a>(&'a self, turn_id: &'a str, label: Option<&'a str>) -> PortFuture<'a, SessionRow> {
        self.fork_at(turn_id, label, None)
    }

    /// As [`LedgerAdmin::fork`]; with `call`, it begins where that tool call of the turn had its result.
    ///
    /// # Errors
    /// `unknown_turn`; `unknown_tool_call`; `storage_constraint` for a label that is taken or not usable.
    fn fork_at<'a>(
        &'a self,
        turn_id: &'a str,
        label: Option<&'a str>,
        call: Option<&'a str>,
    ) -> PortFuture<'a, SessionRow>;

    /// Moves the session's pointer to another turn of its own tree: one that ran in it, or an ancestor of the turn where it
    /// was forked. The next turn follows that turn; all others stay in the ledger. With `expected_head`, only from there.
    /// Nothing changes where the session points at the turn already.
    ///
    /// # Errors
    /// `unknown_session`; `unknown_turn`, also for one outside the tree; `stale_head` when the session has another head;
    /// `storage_locked` while a turn of it runs; `awaiting_approval` while one waits.
    fn move_session<'a>(
        &'a self,
        label: &'a str,
        turn_id: &'a str,
        expected_head: Option<&'a str>,
    ) -> PortFuture<'a, SessionRow>;

    /// Undoes the session's last compaction: the session's pointer moves to the turn before it, and every message is in the
    /// context again. Later turns stay in the ledger, outside the thread. `None` where the thread has no compaction.
    ///
    /// # Errors
    /// `unknown_session`; `storage_locked` while a turn of it runs.
    fn uncompact<'a>(&'a self, label: &'a str) -> PortFuture<'a, Option<SessionRow>>;

    /// Commits the turn of a broker: it follows the parent it names, or the session's head where it names none.
    ///
    /// # Errors
    /// `stale_head` when the session has another head; see [`crate::Journal::commit`].
    fn write_turn(&self, turn: TurnEnd) -> PortFuture<'_, CommitReceipt>;

    /// Creates a session without a turn.
    ///
    /// # Errors
    /// `storage_constraint` for a label that is taken.
    fn create_session(&self, label: String, with: SessionChange) -> PortFuture<'_, SessionRow>;

    /// Sets what is given of a session.
    ///
    /// # Errors
    /// `unknown_session`.
    fn update_session(&self, label: String, with: SessionChange) -> PortFuture<'_, SessionRow>;

    /// Creates the indexes of a key of metadata, or removes them. False where that was done already.
    fn index_metadata(&self, key: MetadataKey, indexed: bool) -> PortFuture<'_, bool>;

    /// Deletes a session, turns, or what is old; or counts what would go.
    ///
    /// # Errors
    /// `unknown_session`; `storage_locked` for a session in which a turn is open.
    fn delete(&self, deletion: Deletion) -> PortFuture<'_, LedgerDeletion>;

    /// Makes `alias` a name of `label`; an existing alias is changed.
    ///
    /// # Errors
    /// `storage_constraint` for a label that a session in use has, for a cycle, and for a chain of more than 8.
    fn set_alias(&self, alias: String, label: String) -> PortFuture<'_, AliasRow>;

    /// Removes an alias; false where there was none.
    fn remove_alias(&self, alias: String) -> PortFuture<'_, bool>;

    /// Archives a session, or makes it active again. Its turns are unchanged.
    ///
    /// # Errors
    /// `unknown_session`; `storage_locked` while a turn of it runs; `storage_constraint` where an alias has its label by
    /// now.
    fn set_archived(&self, label: String, archived: bool) -> PortFuture<'_, SessionRow>;

    /// Creates a persona, or gives it another main session.
    ///
    /// # Errors
    /// `storage_constraint` where another persona has that main session.
    fn put_persona(&self, id: String, main: Option<String>) -> PortFuture<'_, PersonaRow>;

    /// Sends a command to the run that is under way in the session, in any process. False where the run accepts no message
    /// any more, or compacts.
    ///
    /// # Errors
    /// `not_running`.
    fn command<'a>(&'a self, label: &'a str, command: SessionCommand) -> PortFuture<'a, bool>;

    /// Reads the whole ledger and checks what must hold. Runs continue meanwhile. A problem is in the report, not an error.
    fn verify(&self) -> PortFuture<'_, LedgerReport>;

    /// The contents of the ledger in numbers, and its size.
    fn stats(&self) -> PortFuture<'_, LedgerStats>;

    /// Copies the ledger, as it is at one moment, to a new file at `path`. Runs continue and commit meanwhile.
    ///
    /// # Errors
    /// `storage_exists` where there is a file already. No part of a copy is left then.
    fn backup<'a>(&'a self, path: &'a Path) -> PortFuture<'a, LedgerBackup>;

    /// Returns unused space to the file system.
    ///
    /// # Errors
    /// `storage_locked`, `storage_full`. The ledger is as it was then.
    fn vacuum(&self) -> PortFuture<'_, LedgerVacuum>;

    /// Writes a session, or with [`LedgerFormat::Ledger`] all of them, to a new file at `path`, from one moment.
    ///
    /// # Errors
    /// `storage_exists` where there is a file already; `unknown_session`. No part of a file is left then.
    fn export<'a>(
        &'a self,
        path: &'a Path,
        format: LedgerFormat,
        label: Option<String>,
    ) -> PortFuture<'a, LedgerExport>;

    /// Imports the sessions of a file. A line that cannot be imported is in the report; everything else is imported.
    /// Importing a file again changes nothing.
    ///
    /// # Errors
    /// `invalid_import` for what is no file of that format. What was imported until then stays, unseen until the import is
    /// done again.
    fn import<'a>(
        &'a self,
        path: &'a Path,
        format: LedgerFormat,
        label: Option<String>,
    ) -> PortFuture<'a, LedgerImport>;

    /// Does a step of a copy of this ledger, or of one to it.
    ///
    /// # Errors
    /// Any of storage.
    fn copy_step(&self, step: CopyStep) -> PortFuture<'_, CopyAnswer>;

    /// Waits for submitted writes, and closes. Every later call is refused; a second `close` does nothing.
    fn close(&self) -> PortFuture<'_, ()>;
}
