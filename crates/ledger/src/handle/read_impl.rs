//! The host's port for reading ([`LedgerRead`]): each answer from one snapshot, off the caller's thread.
//!
//! It must never contain SQL, nor return an unbounded list.

use std::sync::Arc;

use rusqlite::Connection;

use crate::events::next_page::{self, FollowParts};
use crate::handle::ledger::Ledger;
use crate::journal::open_turn_reads;
use crate::journal_rows::run_rows::unknown_run;
use crate::journal_rows::run_state::Live;
use crate::journal_rows::{event_rows, run_rows};
use crate::open::registry::OpenLedger;
use crate::reading::runs::{self, End};
use crate::reading::{history, lists, query, turn_diff, turn_lists, turn_tree, usage};
use crate::rows::{session_rows, turn_rows};
use crate::search::{message_search, search_indexer};
use crate::sessions::pointers::{self, unknown_session};
use crate::sessions::{aliases, persona};
use crate::sqlite::error::Stored;
use crate::sqlite::readers;
use model::{
    AgentMessage, AliasRow, Cursor, DiffOptions, EndedRun, EventPage, Follows, HistoryMessage,
    LedgerRead, Page, PageOptions, PersonaRow, PortFuture, QueryLimits, QueryResult, RunFilter,
    RunInfo, SearchHit, SearchOptions, SessionFilter, SessionMove, SessionPage, SessionRow,
    StorageError, StorageErrorKind, ToolCallFilter, ToolCallRow, TurnDiff, TurnFilter, TurnRow,
    TurnSummary, UsageFilter, UsageRow, names_no_session,
};

impl LedgerRead for Ledger {
    fn session<'a>(&'a self, label: &'a str) -> PortFuture<'a, Option<SessionRow>> {
        let label = label.to_owned();
        self.read(move |connection| {
            let label = aliases::resolve(connection, &label)?;
            if names_no_session(&label) {
                return Ok(None);
            }
            session_rows::session(connection, &label)
        })
    }

    fn resolve(&self, label: String) -> PortFuture<'_, String> {
        self.read_small(move |connection| aliases::resolve(connection, &label))
    }

    fn sessions(&self, mut filter: SessionFilter) -> PortFuture<'_, Page<SessionRow>> {
        self.read(move |connection| {
            resolve(connection, &mut filter.parent_session_label)?;
            lists::sessions(connection, &filter)
        })
    }

    fn turns(&self, mut filter: TurnFilter) -> PortFuture<'_, Page<TurnSummary>> {
        self.read(move |connection| {
            resolve(connection, &mut filter.session_label)?;
            turn_lists::turns(connection, &filter)
        })
    }

    fn history<'a>(&'a self, of: &'a str) -> PortFuture<'a, Vec<HistoryMessage>> {
        let of = of.to_owned();
        self.read(move |connection| {
            let label = aliases::resolve(connection, &of)?;
            let mut history = history::session_history(connection, &label, None, None)?;
            if !history.exists {
                history = history::session_history(connection, &of, Some(&of), None).map_err(
                    |error| match error.kind {
                        StorageErrorKind::UnknownTurn => unknown_session(&of),
                        _ => error,
                    },
                )?;
            }
            let turns = history.turns.into_iter();
            Ok(turns
                .flat_map(|turn| {
                    turn.messages.into_iter().map(move |message| HistoryMessage {
                        turn_id: turn.id.clone(),
                        message: AgentMessage::from(message),
                    })
                })
                .collect())
        })
    }

    fn turn<'a>(&'a self, id: &'a str) -> PortFuture<'a, Option<TurnRow>> {
        let id = id.to_owned();
        self.read(move |connection| match turn_rows::turn(connection, &id)? {
            None => open_turn_reads::turn_row(connection, &id),
            ended => Ok(ended),
        })
    }

    fn ancestry(&self, turn_id: String, page: PageOptions) -> PortFuture<'_, Page<TurnSummary>> {
        self.read(move |connection| turn_tree::ancestry(connection, &turn_id, &page))
    }

    fn children(&self, turn_id: String, page: PageOptions) -> PortFuture<'_, Page<TurnSummary>> {
        self.read(move |connection| turn_tree::children(connection, &turn_id, &page))
    }

    fn diff(&self, a: String, b: String, options: DiffOptions) -> PortFuture<'_, TurnDiff> {
        self.read(move |connection| turn_diff::diff(connection, &a, &b, &options))
    }

    fn session_history(
        &self,
        label: String,
        page: PageOptions,
    ) -> PortFuture<'_, Page<SessionMove>> {
        self.read(move |connection| {
            let label = known(connection, &label)?;
            turn_tree::session_history(connection, &label, &page)
        })
    }

    fn as_of(&self, label: String, time: i64) -> PortFuture<'_, Option<SessionMove>> {
        self.read(move |connection| {
            let label = known(connection, &label)?;
            turn_tree::as_of(connection, &label, time)
        })
    }

    fn tool_calls(&self, mut filter: ToolCallFilter) -> PortFuture<'_, Page<ToolCallRow>> {
        self.read(move |connection| {
            resolve(connection, &mut filter.session_label)?;
            lists::tool_calls(connection, &filter)
        })
    }

    fn run_info<'a>(&'a self, run_id: &'a str) -> PortFuture<'a, Option<RunInfo>> {
        let run_id = run_id.to_owned();
        self.read_live(move |connection, live| runs::info(connection, live, &run_id))
    }

    fn runs(&self, filter: RunFilter) -> PortFuture<'_, Page<RunInfo>> {
        self.read_live(move |connection, live| runs::list(connection, live, &filter))
    }

    fn ended_run(&self, run_id: String) -> PortFuture<'_, EndedRun> {
        Box::pin(async move {
            let core = self.core()?;
            let (claim, here) = (core.claim.clone(), Arc::clone(&core.runs));
            let mut was_interrupted = false;
            let read = move |connection: &Connection| {
                let live = Live { claim: &claim, is_here: &|turn| here.entry(turn).is_some() };
                match runs::end(connection, &live, &run_id)? {
                    End::Ended(ended) => Ok(Some(*ended)),
                    // A run that has just begun has no row.
                    End::Unknown if here.of_run(&run_id).is_none() => Err(unknown_run(&run_id)),
                    End::Interrupted => Err(interrupted_run(&run_id)),
                    End::Unknown | End::Open => Ok(None),
                }
            };
            loop {
                match next_page::until(follow_parts(&core), read.clone()).await {
                    // The snapshot is older than the check of the process: the run may have ended in between.
                    Err(error)
                        if is_end_of_wait(&error)
                            && !std::mem::replace(&mut was_interrupted, true) => {}
                    ended => return ended,
                }
            }
        })
    }

    fn search(
        &self,
        text: String,
        mut options: SearchOptions,
    ) -> PortFuture<'_, Page<SearchHit, i64>> {
        Box::pin(async move {
            let core = self.core()?;
            search_indexer::catch_up(&core.readers, &core.writer).await?;
            self.read(move |connection| {
                resolve(connection, &mut options.session_label)?;
                message_search::search(connection, &text, &options)
            })
            .await
        })
    }

    fn usage(&self, mut filter: UsageFilter) -> PortFuture<'_, Page<UsageRow>> {
        self.read(move |connection| {
            resolve(connection, &mut filter.session_label)?;
            usage::usage(connection, &filter)
        })
    }

    fn aliases(&self, label: Option<String>, page: PageOptions) -> PortFuture<'_, Page<AliasRow>> {
        self.read(move |connection| aliases::list(connection, label.as_deref(), &page))
    }

    fn persona(&self, id: String) -> PortFuture<'_, Option<PersonaRow>> {
        self.read(move |connection| persona::find(connection, &id))
    }

    fn personas(&self, page: PageOptions) -> PortFuture<'_, Page<PersonaRow>> {
        self.read(move |connection| persona::list(connection, &page))
    }

    fn query(
        &self,
        sql: String,
        params: String,
        limits: QueryLimits,
    ) -> PortFuture<'_, QueryResult> {
        Box::pin(async move {
            let clock = self.clock.clone();
            self.core()?
                .queries
                .run(move |connection| query::run(connection, &sql, &params, limits, &clock))
                .await
        })
    }

    fn follow(&self, of: Follows, after: u64) -> PortFuture<'_, EventPage> {
        Box::pin(async move {
            let core = self.core()?;
            next_page::of_run(follow_parts(&core), of, after).await
        })
    }

    fn watch<'a>(
        &'a self,
        label: &'a str,
        cursor: Option<Cursor>,
        since: &'a str,
    ) -> PortFuture<'a, SessionPage> {
        Box::pin(async move {
            let core = self.core()?;
            next_page::of_session(follow_parts(&core), (label, since), cursor).await
        })
    }

    fn last_event<'a>(&'a self, turn_id: &'a str) -> PortFuture<'a, u64> {
        let turn_id = turn_id.to_owned();
        self.read(move |connection| match run_rows::of_turn(connection, &turn_id)? {
            Some(run) => event_rows::last(connection, &run, 0),
            None => Ok(0),
        })
    }
}

fn follow_parts(core: &OpenLedger) -> FollowParts<'_> {
    FollowParts {
        claim: &core.claim,
        readers: &core.readers,
        runs: &core.runs,
        poller: &core.poller,
    }
}

/// Whether the error means that a run has no end in the file.
fn is_end_of_wait(error: &StorageError) -> bool {
    matches!(error.kind, StorageErrorKind::UnknownRun | StorageErrorKind::RunInterrupted)
}

fn interrupted_run(run_id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::RunInterrupted,
        format!(
            "run `{run_id}` has not ended, and no process runs it; resume or discard its turn, which `recover()` lists"
        ),
    )
}

impl Ledger {
    /// Reads from one snapshot, with what is known of running processes.
    fn read_live<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection, &Live<'_>) -> Stored<T> + Send + 'static,
    ) -> PortFuture<'_, T> {
        Box::pin(async move {
            let core = self.core()?;
            let (claim, here) = (core.claim.clone(), Arc::clone(&core.runs));
            let read = move |connection: &Connection| {
                let live = Live { claim: &claim, is_here: &|turn| here.entry(turn).is_some() };
                read(connection, &live)
            };
            core.readers.run(|connection| readers::snapshot(connection, read)).await
        })
    }
}

/// The label of an existing session.
fn known(connection: &Connection, label: &str) -> Stored<String> {
    let label = aliases::resolve(connection, label)?;
    match pointers::head(connection, &label)? {
        Some(_) if !names_no_session(&label) => Ok(label),
        Some(_) | None => Err(unknown_session(&label)),
    }
}

fn resolve(connection: &Connection, label: &mut Option<String>) -> Stored<()> {
    if let Some(label) = label {
        *label = aliases::resolve(connection, label)?;
    }
    Ok(())
}
