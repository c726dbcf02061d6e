//! The reads of the ledger beyond one row: threads, lists, search, usage. Each in one snapshot, off the caller's thread.
//!
//! It must never answer with a list that has no end: see `page`.

use rusqlite::Connection;

use crate::handle::ledger::Ledger;
use crate::reading::lists;
use crate::reading::turn_tree;
use crate::reading::usage;
use crate::search::message_search;
use crate::search::search_indexer;
use crate::sessions::aliases;
use crate::sessions::pointers::{self, unknown_session};
use crate::sqlite::error::Stored;
use crate::sqlite::readers;
use model::{
    Page, PageOptions, SearchHit, SearchOptions, SessionFilter, SessionMove, SessionRow,
    StorageError, ToolCallFilter, ToolCallRow, TurnSummary, UsageFilter, UsageRow,
};

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
        self.read(move |connection| turn_tree::ancestry(connection, &turn_id, &page)).await
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
        self.read(move |connection| turn_tree::children(connection, &turn_id, &page)).await
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
            turn_tree::session_history(connection, &label, &page)
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
            turn_tree::as_of(connection, &label, time)
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
        let core = self.core()?;
        search_indexer::catch_up(&core.readers, &core.writer).await?;
        self.read(move |connection| {
            resolve(connection, &mut options.session_label)?;
            message_search::search(connection, &text, &options)
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
            lists::sessions(connection, &filter)
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
            lists::tool_calls(connection, &filter)
        })
        .await
    }

    /// One consistent view.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Stored<T> + Send + 'static,
    ) -> Stored<T> {
        self.core()?.readers.run(|connection| readers::snapshot(connection, read)).await
    }
}

/// The label of a session that is there.
fn known(connection: &Connection, label: &str) -> Stored<String> {
    let label = aliases::resolve(connection, label)?;
    match pointers::visible_head(connection, &label)? {
        Some(_) => Ok(label),
        None => Err(unknown_session(&label)),
    }
}

fn resolve(connection: &Connection, label: &mut Option<String>) -> Stored<()> {
    if let Some(label) = label {
        *label = aliases::resolve(connection, label)?;
    }
    Ok(())
}
