//! The host's port for reading: sessions, turns, their tree, runs, events, searches and sums.
//!
//! It must never return an unbounded list.

use std::sync::PoisonError;
use std::time::Duration;

use base::clock::Clock;
use model::{
    AgentMessage, AliasRow, Cursor, DiffOptions, EndedRun, EventPage, Follows, HistoryMessage,
    LedgerRead, Page, PageOptions, PersonaRow, PortFuture, QueryLimits, QueryResult, RunFilter,
    RunInfo, RunProcess, RunStatus, SearchHit, SearchOptions, SessionFilter, SessionMove,
    SessionPage, SessionRow, StorageErrorKind, ToolCallFilter, ToolCallRow, TurnDiff, TurnFilter,
    TurnRow, TurnSummary, UsageFilter, UsageRow,
};

use crate::events::announce;
use crate::events::follow::{self, Found};
use crate::events::live::Changes;
use crate::events::waiting;
use crate::handle::postgres::Postgres;
use crate::journal::history;
use crate::journal::pointer::unknown_session;
use crate::reading::{diff, query, runs, search, sessions, tree, turns, usage_report};
use crate::sessions::{aliases, personas};

/// Between two looks for the end of a run that another process may run.
const LOOK: Duration = Duration::from_millis(250);
/// Between two statements that show others that somebody here follows runs.
const SHOW: Duration = Duration::from_secs(5);

/// The way of the answer of a query that the server has ended.
const ANSWER: Duration = Duration::from_secs(1);

impl LedgerRead for Postgres {
    fn session<'a>(&'a self, label: &'a str) -> PortFuture<'a, Option<SessionRow>> {
        let label = label.to_owned();
        self.submit(None, move |server| async move {
            let label = aliases::resolve(&server, &label).await?;
            sessions::session(&server, &label).await
        })
    }

    fn resolve(&self, label: String) -> PortFuture<'_, String> {
        self.submit(None, move |server| async move { aliases::resolve(&server, &label).await })
    }

    fn sessions(&self, mut filter: SessionFilter) -> PortFuture<'_, Page<SessionRow>> {
        self.submit(None, move |server| async move {
            aliases::resolve_filter(&server, &mut filter.parent_session_label).await?;
            sessions::sessions(&server, &filter).await
        })
    }

    fn turns(&self, mut filter: TurnFilter) -> PortFuture<'_, Page<TurnSummary>> {
        self.submit(None, move |server| async move {
            aliases::resolve_filter(&server, &mut filter.session_label).await?;
            turns::turns(&server, &filter).await
        })
    }

    fn history<'a>(&'a self, of: &'a str) -> PortFuture<'a, Vec<HistoryMessage>> {
        let of = of.to_owned();
        self.submit(None, move |server| async move {
            let named = aliases::resolve(&server, &of).await?;
            let mut history = history::session_history(&server, &named, None, None).await?;
            if !history.exists {
                let of_turn = history::session_history(&server, &of, Some(&of), None).await;
                history = of_turn.map_err(|error| match error.kind {
                    StorageErrorKind::UnknownTurn => unknown_session(&of),
                    _ => error,
                })?;
            }
            let messages = history.turns.into_iter().flat_map(|turn| {
                turn.messages.into_iter().map(move |message| HistoryMessage {
                    turn_id: turn.id.clone(),
                    message: AgentMessage::from(message),
                })
            });
            Ok(messages.collect())
        })
    }

    fn turn<'a>(&'a self, id: &'a str) -> PortFuture<'a, Option<TurnRow>> {
        let id = id.to_owned();
        self.submit(None, move |server| async move { turns::turn(&server, &id).await })
    }

    fn ancestry(&self, turn_id: String, page: PageOptions) -> PortFuture<'_, Page<TurnSummary>> {
        self.submit(
            None,
            move |server| async move { tree::ancestry(&server, &turn_id, &page).await },
        )
    }

    fn children(&self, turn_id: String, page: PageOptions) -> PortFuture<'_, Page<TurnSummary>> {
        self.submit(
            None,
            move |server| async move { tree::children(&server, &turn_id, &page).await },
        )
    }

    fn diff(&self, a: String, b: String, options: DiffOptions) -> PortFuture<'_, TurnDiff> {
        self.submit(None, move |server| async move { diff::diff(&server, &a, &b, &options).await })
    }

    fn session_history(
        &self,
        label: String,
        page: PageOptions,
    ) -> PortFuture<'_, Page<SessionMove>> {
        self.submit(None, move |server| async move {
            let label = aliases::resolve(&server, &label).await?;
            sessions::moves(&server, &label, &page).await
        })
    }

    fn as_of(&self, label: String, time: i64) -> PortFuture<'_, Option<SessionMove>> {
        self.submit(None, move |server| async move {
            let label = aliases::resolve(&server, &label).await?;
            sessions::as_of(&server, &label, time).await
        })
    }

    fn tool_calls(&self, mut filter: ToolCallFilter) -> PortFuture<'_, Page<ToolCallRow>> {
        self.submit(None, move |server| async move {
            aliases::resolve_filter(&server, &mut filter.session_label).await?;
            turns::tool_calls(&server, &filter).await
        })
    }

    fn run_info<'a>(&'a self, run_id: &'a str) -> PortFuture<'a, Option<RunInfo>> {
        // Where no events are stored, a run that waits for its session is in its process only.
        let entry = self.live.followed(&Follows::Run(run_id.to_owned()));
        let waiting = entry.filter(|_| self.live.retention.is_none()).map(|entry| RunInfo {
            run_id: run_id.to_owned(),
            turn_id: entry.names.turn_id.clone(),
            session_label: entry.label().to_owned(),
            status: RunStatus::Waiting,
            last_seq: 0,
            started_at: entry.begun_at(),
            ended_at: None,
            process: Some(RunProcess { pid: i64::from(std::process::id()), current: true }),
        });
        let run_id = run_id.to_owned();
        self.submit(None, move |server| async move {
            waiting::list(&server).await;
            Ok(runs::info(&server, &run_id).await?.or(waiting))
        })
    }

    fn runs(&self, mut filter: RunFilter) -> PortFuture<'_, Page<RunInfo>> {
        self.submit(None, move |server| async move {
            aliases::resolve_filter(&server, &mut filter.session).await?;
            waiting::list(&server).await;
            runs::list(&server, &filter).await
        })
    }

    fn ended_run(&self, run_id: String) -> PortFuture<'_, EndedRun> {
        Box::pin(async move {
            // Changes of a run have the name of its turn.
            let mut changes: Option<(String, Changes)> = None;
            loop {
                self.listen();
                let of = run_id.clone();
                let read =
                    self.submit(None, move |server| async move { runs::end(&server, &of).await });
                let turn_id = match read.await? {
                    Ok(ended) => return Ok(ended),
                    Err(turn_id) => turn_id,
                };
                match &mut changes {
                    Some((of, changes)) if *of == turn_id => changes.within(LOOK).await,
                    // It is read again, so that no change is missed.
                    changes => *changes = Some((turn_id.clone(), self.live.changes(&turn_id))),
                }
            }
        })
    }

    fn search(
        &self,
        text: String,
        mut options: SearchOptions,
    ) -> PortFuture<'_, Page<SearchHit, i64>> {
        self.submit(None, move |server| async move {
            aliases::resolve_filter(&server, &mut options.session_label).await?;
            search::search(&server, &text, &options).await
        })
    }

    fn usage(&self, mut filter: UsageFilter) -> PortFuture<'_, Page<UsageRow>> {
        self.submit(None, move |server| async move {
            aliases::resolve_filter(&server, &mut filter.session_label).await?;
            usage_report::usage(&server, &filter).await
        })
    }

    fn aliases(&self, label: Option<String>, page: PageOptions) -> PortFuture<'_, Page<AliasRow>> {
        self.submit(None, move |server| async move {
            aliases::list(&server, label.as_deref(), &page).await
        })
    }

    fn persona(&self, id: String) -> PortFuture<'_, Option<PersonaRow>> {
        self.submit(None, move |server| async move { personas::find(&server, &id).await })
    }

    fn personas(&self, page: PageOptions) -> PortFuture<'_, Page<PersonaRow>> {
        self.submit(None, move |server| async move { personas::list(&server, &page).await })
    }

    fn query(
        &self,
        sql: String,
        params: String,
        limits: QueryLimits,
    ) -> PortFuture<'_, QueryResult> {
        // The server ends it itself.
        let limit = self.timeout.max(limits.time + ANSWER);
        self.submit_long(limit, move |server| async move {
            query::query(&server, &sql, &params, limits).await
        })
    }

    fn follow(&self, of: Follows, after: u64) -> PortFuture<'_, EventPage> {
        let (mut of, mut reread) = (of, false);
        Box::pin(async move {
            loop {
                self.listen();
                let entry = self.live.followed(&of);
                if let Some(entry) = &entry {
                    of = Follows::Turn(entry.names.turn_id.clone());
                }
                let begins = entry.is_some() && self.live.retention.is_some();
                drop(entry);
                let (Follows::Turn(name) | Follows::Run(name)) = &of;
                // Before the read, so that no change is missed.
                let mut changes = self.live.changes(name);
                let read = of.clone();
                let read = self.submit(None, move |server| async move {
                    follow::events_after(&server, &read, after).await
                });
                match read.await {
                    Ok(Found { page, .. }) if page.over || !page.events.is_empty() => {
                        return Ok(page);
                    }
                    // It may have ended between the two looks, so it is read again.
                    Ok(found) if found.interrupted && !std::mem::replace(&mut reread, true) => {
                        continue;
                    }
                    Ok(Found { page, interrupted: true }) => {
                        return Ok(EventPage { over: true, ..page });
                    }
                    Ok(Found { page, .. }) => {
                        let is_known = matches!(of, Follows::Turn(_));
                        of = Follows::Turn(page.turn_id);
                        // Changes of a run have the name of its turn: it is read again, so that none is missed.
                        if !is_known {
                            continue;
                        }
                    }
                    // A run that has just begun has no event yet.
                    Err(error) if !(begins && follow::has_no_events(&error)) => return Err(error),
                    Err(_) => {}
                }
                changes.within(LOOK).await;
            }
        })
    }

    fn watch<'a>(
        &'a self,
        label: &'a str,
        cursor: Option<Cursor>,
        since: &'a str,
    ) -> PortFuture<'a, SessionPage> {
        let first = cursor.is_none();
        let mut cursor = cursor;
        Box::pin(async move {
            loop {
                self.listen();
                let mut changes = self.live.changes(label);
                let (of, from) = ((label.to_owned(), since.to_owned()), cursor.take());
                let read = self.submit(None, move |server| async move {
                    follow::session_after(&server, (&of.0, &of.1), from).await
                });
                let page = read.await?;
                if first || !page.events.is_empty() {
                    return Ok(page);
                }
                cursor = Some(page.cursor);
                changes.within(LOOK).await;
            }
        })
    }

    fn last_event<'a>(&'a self, turn_id: &'a str) -> PortFuture<'a, u64> {
        let turn_id = turn_id.to_owned();
        self.submit(None, move |server| async move { follow::last_event(&server, &turn_id).await })
    }
}

impl Postgres {
    /// Other processes notify this one of changes from now on, for as long as this is called again.
    pub(crate) fn listen(&self) {
        self.live.listens.notify_one();
        let now = Clock::default().instant();
        let mut shown = self.live.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if shown.is_none_or(|shown| now.duration_since(shown) >= SHOW) {
            *shown = Some(now);
            drop(self.submit(None, |server| async move {
                announce::show(&server).await;
                Ok(())
            }));
        }
    }
}
