//! What sessions are called and whether they are in use: aliases, personas, the archive.
//!
//! It must never change a session's label, which is its key.

use crate::handle::ledger::Ledger;
use crate::rows::session_rows;
use crate::sessions::aliases;
use crate::sessions::persona;
use crate::sessions::pointers::{self, unknown_session};
use model::{AliasRow, Page, PageOptions, PersonaRow, SessionRow, StorageError};

impl Ledger {
    /// The label of the session that a label or an alias names. A session need not be there: it is created on first use.
    ///
    /// # Errors
    /// Any of storage.
    pub async fn resolve(&self, label: String) -> Result<String, StorageError> {
        self.read(move |connection| aliases::resolve(connection, &label)).await
    }

    /// Makes `alias` a name of `label`, or lets it lead there from now on.
    ///
    /// # Errors
    /// `storage_constraint` for a label that a session in use has, for a cycle, and for a chain of more than 8; any of
    /// storage.
    pub async fn set_alias(&self, alias: String, label: String) -> Result<AliasRow, StorageError> {
        let now = self.clock.now_ms();
        let work =
            move |connection: &rusqlite::Connection| aliases::set(connection, &alias, &label, now);
        self.core()?.writer.submit(work).await
    }

    /// Takes an alias away; false where there was none.
    ///
    /// # Errors
    /// Any of storage.
    pub async fn remove_alias(&self, alias: String) -> Result<bool, StorageError> {
        let work = move |connection: &rusqlite::Connection| aliases::remove(connection, &alias);
        self.core()?.writer.submit(work).await
    }

    /// The aliases: all, or those that lead straight to `label`.
    ///
    /// # Errors
    /// Any of storage.
    pub async fn aliases(
        &self,
        label: Option<String>,
        page: PageOptions,
    ) -> Result<Page<AliasRow>, StorageError> {
        self.read(move |connection| aliases::list(connection, label.as_deref(), &page)).await
    }

    /// The persona of that id.
    ///
    /// # Errors
    /// Any of storage.
    pub async fn persona(&self, id: String) -> Result<Option<PersonaRow>, StorageError> {
        self.read(move |connection| persona::find(connection, &id)).await
    }

    /// The personas, by id.
    ///
    /// # Errors
    /// Any of storage.
    pub async fn personas(&self, page: PageOptions) -> Result<Page<PersonaRow>, StorageError> {
        self.read(move |connection| persona::list(connection, &page)).await
    }

    /// Creates a persona, or gives it another main session.
    ///
    /// # Errors
    /// `storage_constraint` where another persona has that main session; any of storage.
    pub async fn put_persona(
        &self,
        id: String,
        main: Option<String>,
    ) -> Result<PersonaRow, StorageError> {
        let now = self.clock.now_ms();
        let work = move |connection: &rusqlite::Connection| {
            persona::put(connection, &id, main.as_deref(), now)
        };
        self.core()?.writer.submit(work).await
    }

    /// Puts a session away, or takes it out again. Its turns stay as they are.
    ///
    /// # Errors
    /// `unknown_session`; `storage_locked` while a turn of it runs; `storage_constraint` where an alias has its label by
    /// now; any of storage.
    pub async fn set_archived(
        &self,
        label: String,
        archived: bool,
    ) -> Result<SessionRow, StorageError> {
        let now = self.clock.now_ms();
        let core = self.core()?;
        let claim = core.claim.clone();
        let work = move |connection: &rusqlite::Connection| {
            // To take one out, by its own label: an alias of that name would hide it.
            let label = if archived || pointers::visible_head(connection, &label)?.is_none() {
                aliases::resolve(connection, &label)?
            } else {
                label.clone()
            };
            pointers::set_archived(connection, &label, archived, &claim, now)?;
            session_rows::session(connection, &label)?.ok_or_else(|| unknown_session(&label))
        };
        core.writer.submit(work).await
    }
}
