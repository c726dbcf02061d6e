//! The port through which a host reads the ledger: rows, threads, lists, search, usage, and the events of runs.
//!
//! Each answer is one consistent view, and no list is without an end: see [`crate::Page`]. A turn that still runs is in no
//! answer but that of [`LedgerRead::turn`]. It must never name a backend.

use crate::{
    AliasRow, Cursor, DiffOptions, EndedRun, EventPage, Follows, HistoryMessage, Page, PageOptions,
    PersonaRow, PortFuture, QueryLimits, QueryResult, RunFilter, RunInfo, SearchHit, SearchOptions,
    SessionFilter, SessionMove, SessionPage, SessionRow, ToolCallFilter, ToolCallRow, TurnDiff,
    TurnFilter, TurnRow, TurnSummary, UsageFilter, UsageRow,
};

/// Everything that a host can read of a ledger. Every method may fail with any error of storage; those named at a method
/// are its own.
pub trait LedgerRead: Send + Sync {
    /// The session of that label, or of that alias.
    fn session<'a>(&'a self, label: &'a str) -> PortFuture<'a, Option<SessionRow>>;

    /// The label of the session that a label or an alias names. The session need not exist: it is created on first use.
    fn resolve(&self, label: String) -> PortFuture<'_, String>;

    /// The sessions that match a filter, by their labels.
    fn sessions(&self, filter: SessionFilter) -> PortFuture<'_, Page<SessionRow>>;

    /// The ended turns that match a filter: those of a session in the order of their ids, others in the order in which they
    /// were written.
    ///
    /// # Errors
    /// `invalid_query` for an `after` that is no turn.
    fn turns(&self, filter: TurnFilter) -> PortFuture<'_, Page<TurnSummary>>;

    /// The messages that the next call would send, of a session by its label or of a turn by its id, oldest first.
    ///
    /// # Errors
    /// `unknown_session` when it is neither.
    fn history<'a>(&'a self, of: &'a str) -> PortFuture<'a, Vec<HistoryMessage>>;

    /// The turn of that id, with its messages and tool calls.
    fn turn<'a>(&'a self, id: &'a str) -> PortFuture<'a, Option<TurnRow>>;

    /// The turn and its ancestors, the turn first and the root last.
    ///
    /// # Errors
    /// `unknown_turn`.
    fn ancestry(&self, turn_id: String, page: PageOptions) -> PortFuture<'_, Page<TurnSummary>>;

    /// The children of a turn.
    ///
    /// # Errors
    /// `unknown_turn`.
    fn children(&self, turn_id: String, page: PageOptions) -> PortFuture<'_, Page<TurnSummary>>;

    /// What each of two turns has that the other has not.
    ///
    /// # Errors
    /// `unknown_turn`.
    fn diff(&self, a: String, b: String, options: DiffOptions) -> PortFuture<'_, TurnDiff>;

    /// The moves of a session's pointer, oldest first.
    ///
    /// # Errors
    /// `unknown_session`; `invalid_query` for an `after` that is none.
    fn session_history(
        &self,
        label: String,
        page: PageOptions,
    ) -> PortFuture<'_, Page<SessionMove>>;

    /// Where a session pointed at a time, in Unix milliseconds; `None` before its first turn.
    ///
    /// # Errors
    /// `unknown_session`.
    fn as_of(&self, label: String, time: i64) -> PortFuture<'_, Option<SessionMove>>;

    /// The tool calls that match a filter, by turn.
    ///
    /// # Errors
    /// `invalid_query` for an `after` that is no call.
    fn tool_calls(&self, filter: ToolCallFilter) -> PortFuture<'_, Page<ToolCallRow>>;

    /// The newest run with the host's id.
    fn run_info<'a>(&'a self, run_id: &'a str) -> PortFuture<'a, Option<RunInfo>>;

    /// The runs that match a filter, the newest first.
    ///
    /// # Errors
    /// `invalid_query` for a `session` that is no label.
    fn runs(&self, filter: RunFilter) -> PortFuture<'_, Page<RunInfo>>;

    /// The turn of the run with the host's id, once the run has ended: waits until then. Its compaction, if it needed one, is in
    /// the turn before it.
    ///
    /// # Errors
    /// `unknown_run`; `run_interrupted` when no process runs it.
    fn ended_run(&self, run_id: String) -> PortFuture<'_, EndedRun>;

    /// The messages that contain every word of `text`, newest first.
    fn search(&self, text: String, options: SearchOptions) -> PortFuture<'_, Page<SearchHit, i64>>;

    /// The usage of turns, in sums.
    ///
    /// # Errors
    /// `invalid_query` for an `after` that is no key.
    fn usage(&self, filter: UsageFilter) -> PortFuture<'_, Page<UsageRow>>;

    /// The aliases: all, or those that name `label` directly.
    fn aliases(&self, label: Option<String>, page: PageOptions) -> PortFuture<'_, Page<AliasRow>>;

    /// The persona of that id.
    fn persona(&self, id: String) -> PortFuture<'_, Option<PersonaRow>>;

    /// The personas, by id.
    fn personas(&self, page: PageOptions) -> PortFuture<'_, Page<PersonaRow>>;

    /// One read-only statement in the backend's own SQL. `params` is the JSON text of an array.
    ///
    /// # Errors
    /// `invalid_query` for everything that is not one valid read within `limits.time`.
    fn query(
        &self,
        sql: String,
        params: String,
        limits: QueryLimits,
    ) -> PortFuture<'_, QueryResult>;

    /// The events of a run after number `after`; waits until there are some, or until the run has ended.
    ///
    /// # Errors
    /// `unknown_run`, `events_expired`.
    fn follow(&self, of: Follows, after: u64) -> PortFuture<'_, EventPage>;

    /// The events of a session's runs after `cursor`, by run in order; waits until there are some. Without a cursor the
    /// events of the runs under way, and of those whose turns have ids after `since`, come from their beginning.
    fn watch<'a>(
        &'a self,
        label: &'a str,
        cursor: Option<Cursor>,
        since: &'a str,
    ) -> PortFuture<'a, SessionPage>;

    /// The number of the newest stored event of a turn; 0 for none.
    fn last_event<'a>(&'a self, turn_id: &'a str) -> PortFuture<'a, u64>;
}
