//! The host's ports ([`LedgerRead`], [`LedgerAdmin`]) over the handle. It must never contain SQL.

use std::path::Path;

use crate::handle::ledger::Ledger;
use model::{
    AliasRow, CommitReceipt, Cursor, EventPage, Follows, HistoryMessage, JournalFuture,
    LedgerAdmin, LedgerBackup, LedgerExport, LedgerFormat, LedgerImport, LedgerRead, LedgerReport,
    LedgerStats, LedgerVacuum, Page, PageOptions, PersonaRow, QueryLimits, QueryResult, SearchHit,
    SearchOptions, SessionCommand, SessionFilter, SessionMove, SessionPage, SessionRow, Supported,
    ToolCallFilter, ToolCallRow, TurnEnd, TurnRow, TurnSummary, UsageFilter, UsageRow,
};

impl LedgerRead for Ledger {
    fn session<'a>(&'a self, label: &'a str) -> JournalFuture<'a, Option<SessionRow>> {
        Box::pin(Ledger::session(self, label))
    }

    fn resolve(&self, label: String) -> JournalFuture<'_, String> {
        Box::pin(Ledger::resolve(self, label))
    }

    fn sessions(&self, filter: SessionFilter) -> JournalFuture<'_, Page<SessionRow>> {
        Box::pin(Ledger::sessions(self, filter))
    }

    fn messages<'a>(&'a self, of: &'a str) -> JournalFuture<'a, Vec<HistoryMessage>> {
        Box::pin(Ledger::messages(self, of))
    }

    fn turn<'a>(&'a self, id: &'a str) -> JournalFuture<'a, Option<TurnRow>> {
        Box::pin(Ledger::turn(self, id))
    }

    fn ancestry(&self, turn_id: String, page: PageOptions) -> JournalFuture<'_, Page<TurnSummary>> {
        Box::pin(Ledger::ancestry(self, turn_id, page))
    }

    fn children(&self, turn_id: String, page: PageOptions) -> JournalFuture<'_, Page<TurnSummary>> {
        Box::pin(Ledger::children(self, turn_id, page))
    }

    fn session_history(
        &self,
        label: String,
        page: PageOptions,
    ) -> JournalFuture<'_, Page<SessionMove>> {
        Box::pin(Ledger::session_history(self, label, page))
    }

    fn as_of(&self, label: String, time: i64) -> JournalFuture<'_, Option<SessionMove>> {
        Box::pin(Ledger::as_of(self, label, time))
    }

    fn tool_calls(&self, filter: ToolCallFilter) -> JournalFuture<'_, Page<ToolCallRow>> {
        Box::pin(Ledger::tool_calls(self, filter))
    }

    fn search(
        &self,
        text: String,
        options: SearchOptions,
    ) -> JournalFuture<'_, Page<SearchHit, i64>> {
        Box::pin(Ledger::search(self, text, options))
    }

    fn usage(&self, filter: UsageFilter) -> JournalFuture<'_, Page<UsageRow>> {
        Box::pin(Ledger::usage(self, filter))
    }

    fn aliases(
        &self,
        label: Option<String>,
        page: PageOptions,
    ) -> JournalFuture<'_, Page<AliasRow>> {
        Box::pin(Ledger::aliases(self, label, page))
    }

    fn persona(&self, id: String) -> JournalFuture<'_, Option<PersonaRow>> {
        Box::pin(Ledger::persona(self, id))
    }

    fn personas(&self, page: PageOptions) -> JournalFuture<'_, Page<PersonaRow>> {
        Box::pin(Ledger::personas(self, page))
    }

    fn query(
        &self,
        sql: String,
        params: String,
        limits: QueryLimits,
    ) -> JournalFuture<'_, QueryResult> {
        Box::pin(Ledger::query(self, sql, params, limits))
    }

    fn follow(&self, of: Follows, after: u64) -> JournalFuture<'_, EventPage> {
        Box::pin(Ledger::follow(self, of, after))
    }

    fn watch<'a>(
        &'a self,
        label: &'a str,
        cursor: Option<Cursor>,
    ) -> JournalFuture<'a, SessionPage> {
        Box::pin(Ledger::watch(self, label, cursor))
    }

    fn last_event<'a>(&'a self, turn_id: &'a str) -> JournalFuture<'a, u64> {
        Box::pin(Ledger::last_event(self, turn_id))
    }
}

impl LedgerAdmin for Ledger {
    fn fork_at<'a>(
        &'a self,
        turn_id: &'a str,
        label: Option<&'a str>,
        call: Option<&'a str>,
    ) -> JournalFuture<'a, SessionRow> {
        Box::pin(Ledger::fork_at(self, turn_id, label, call))
    }

    fn uncompact<'a>(&'a self, label: &'a str) -> JournalFuture<'a, Option<SessionRow>> {
        Box::pin(Ledger::uncompact(self, label))
    }

    fn write_turn(&self, turn: TurnEnd) -> JournalFuture<'_, CommitReceipt> {
        Box::pin(Ledger::write_turn(self, turn))
    }

    fn set_alias(&self, alias: String, label: String) -> JournalFuture<'_, AliasRow> {
        Box::pin(Ledger::set_alias(self, alias, label))
    }

    fn remove_alias(&self, alias: String) -> JournalFuture<'_, bool> {
        Box::pin(Ledger::remove_alias(self, alias))
    }

    fn set_archived(&self, label: String, archived: bool) -> JournalFuture<'_, SessionRow> {
        Box::pin(Ledger::set_archived(self, label, archived))
    }

    fn put_persona(&self, id: String, main: Option<String>) -> JournalFuture<'_, PersonaRow> {
        Box::pin(Ledger::put_persona(self, id, main))
    }

    fn command<'a>(&'a self, label: &'a str, command: SessionCommand) -> JournalFuture<'a, bool> {
        Box::pin(Ledger::command(self, label, command))
    }

    fn verify(&self) -> JournalFuture<'_, LedgerReport> {
        Box::pin(Ledger::verify(self))
    }

    fn stats(&self) -> JournalFuture<'_, LedgerStats> {
        Box::pin(Ledger::stats(self))
    }

    fn backup<'a>(&'a self, path: &'a Path) -> JournalFuture<'a, Supported<LedgerBackup>> {
        Box::pin(async move { Ledger::backup(self, path).await.map(Supported::Done) })
    }

    fn vacuum(&self) -> JournalFuture<'_, Supported<LedgerVacuum>> {
        Box::pin(async move { Ledger::vacuum(self).await.map(Supported::Done) })
    }

    fn export<'a>(
        &'a self,
        path: &'a Path,
        format: LedgerFormat,
        label: Option<String>,
    ) -> JournalFuture<'a, LedgerExport> {
        Box::pin(Ledger::export(self, path, format, label))
    }

    fn import<'a>(
        &'a self,
        path: &'a Path,
        format: LedgerFormat,
        label: Option<String>,
    ) -> JournalFuture<'a, LedgerImport> {
        Box::pin(Ledger::import(self, path, format, label))
    }

    fn close(&self) -> JournalFuture<'_, ()> {
        Box::pin(Ledger::close(self))
    }
}
