//! The reads of the ledger beyond one row: threads, lists, search, usage. Each in one snapshot, off the caller's thread.
//!
//! It must never answer with a list that has no end: see `page`.

use rusqlite::Connection;

use super::error::Stored;
use super::list::{self, SessionFilter, ToolCallFilter, ToolCallRow};
use super::page::{Page, PageOptions};
use super::rows::SessionRow;
use super::search::{self, SearchHit, SearchOptions};
use super::thread::{self, SessionMove, TurnSummary};
use super::usage::{self, UsageFilter, UsageRow};
use super::{Ledger, alias, findable, readers, sessions, unknown_session};
use model::StorageError;

impl Ledger {
    /// The turn and those above it, the turn first and the root last.
    ///
    /// # Errors
    /// `unknown_turn`; any of storage.
    pub async fn ancestry(
        &self,
        turn_id: String,
        page: PageOptions,
    ) -> Result<Page<TurnSummary>, StorageError> {
        self.read(move |connection| thread::ancestry(connection, &turn_id, &page)).await
    }

    /// The turns that follow a turn.
    ///
    /// # Errors
    /// `unknown_turn`; any of storage.
    pub async fn children(
        &self,
        turn_id: String,
        page: PageOptions,
    ) -> Result<Page<TurnSummary>, StorageError> {
        self.read(move |connection| thread::children(connection, &turn_id, &page)).await
    }

    /// Where a session has pointed, oldest first.
    ///
    /// # Errors
    /// `unknown_session`; `invalid_query` for an `after` that is none; any of storage.
    pub async fn session_history(
        &self,
        label: String,
        page: PageOptions,
    ) -> Result<Page<SessionMove>, StorageError> {
        self.read(move |connection| {
            let label = known(connection, &label)?;
            thread::session_history(connection, &label, &page)
        })
        .await
    }

    /// Where a session pointed at a time, in Unix milliseconds; `None` before its first turn.
    ///
    /// # Errors
    /// `unknown_session`; any of storage.
    pub async fn as_of(
        &self,
        label: String,
        time: i64,
    ) -> Result<Option<SessionMove>, StorageError> {
        self.read(move |connection| {
            let label = known(connection, &label)?;
            thread::as_of(connection, &label, time)
        })
        .await
    }

    /// The messages that hold every word of `text`, newest first.
    ///
    /// # Errors
    /// Any of storage.
    pub async fn search(
        &self,
        text: String,
        mut options: SearchOptions,
    ) -> Result<Page<SearchHit, i64>, StorageError> {
        findable::catch_up(&self.core()?).await?;
        self.read(move |connection| {
            resolve(connection, &mut options.session_label)?;
            search::search(connection, &text, &options)
        })
        .await
    }

    /// What turns have used, added up.
    ///
    /// # Errors
    /// `invalid_query` for an `after` that is no key; any of storage.
    pub async fn usage(&self, mut filter: UsageFilter) -> Result<Page<UsageRow>, StorageError> {
        self.read(move |connection| {
            resolve(connection, &mut filter.session_label)?;
            usage::usage(connection, &filter)
        })
        .await
    }

    /// The sessions that a filter lets through, by their labels.
    ///
    /// # Errors
    /// Any of storage.
    pub async fn sessions(
        &self,
        mut filter: SessionFilter,
    ) -> Result<Page<SessionRow>, StorageError> {
        self.read(move |connection| {
            resolve(connection, &mut filter.parent_session_label)?;
            list::sessions(connection, &filter)
        })
        .await
    }

    /// The tool calls that a filter lets through, by turn.
    ///
    /// # Errors
    /// `invalid_query` for an `after` that is no call; any of storage.
    pub async fn tool_calls(
        &self,
        mut filter: ToolCallFilter,
    ) -> Result<Page<ToolCallRow>, StorageError> {
        self.read(move |connection| {
            resolve(connection, &mut filter.session_label)?;
            list::tool_calls(connection, &filter)
        })
        .await
    }

    /// One consistent view.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Stored<T> + Send + 'static,
    ) -> Stored<T> {
        self.core()?.readers.run(|connection| readers::snapshot(connection, read)).await
    }
}

/// The label of a session that is there.
fn known(connection: &Connection, label: &str) -> Stored<String> {
    let label = alias::resolve(connection, label)?;
    match sessions::visible_head(connection, &label)? {
        Some(_) => Ok(label),
        None => Err(unknown_session(&label)),
    }
}

fn resolve(connection: &Connection, label: &mut Option<String>) -> Stored<()> {
    if let Some(label) = label {
        *label = alias::resolve(connection, label)?;
    }
    Ok(())
}
