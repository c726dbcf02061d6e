//! The host's port for reading ([`LedgerRead`]): each answer from one snapshot, off the caller's thread.
//!
//! It must never contain SQL, nor return an unbounded list.

use rusqlite::Connection;

use crate::events::next_page::{self, FollowParts};
use crate::handle::ledger::Ledger;
use crate::journal::open_turn_reads;
use crate::journal_rows::{event_rows, run_rows};
use crate::open::registry::OpenLedger;
use crate::reading::{history, lists, query, turn_diff, turn_lists, turn_tree, usage};
use crate::rows::{session_rows, turn_rows};
use crate::search::{message_search, search_indexer};
use crate::sessions::pointers::{self, unknown_session};
use crate::sessions::{aliases, persona};
use crate::sqlite::error::Stored;
use model::{
    AgentMessage, AliasRow, Cursor, DiffOptions, EventPage, Follows, HistoryMessage, LedgerRead,
    Page, PageOptions, PersonaRow, PortFuture, QueryLimits, QueryResult, SearchHit, SearchOptions,
    SessionFilter, SessionMove, SessionPage, SessionRow, StorageErrorKind, ToolCallFilter,
    ToolCallRow, TurnDiff, TurnFilter, TurnRow, TurnSummary, UsageFilter, UsageRow,
    names_no_session,
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

    fn watch<'a>(&'a self, label: &'a str, cursor: Option<Cursor>) -> PortFuture<'a, SessionPage> {
        Box::pin(async move {
            let core = self.core()?;
            next_page::of_session(follow_parts(&core), label, cursor).await
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

/// The label of an existing session.
fn known(connection: &Connection, label: &str) -> Stored<String> {
    let label = aliases::resolve(connection, label)?;
    match pointers::visible_head(connection, &label)? {
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
