//! The rows of a server as a transfer reads and writes them, inside one transaction of a connection.
//!
//! It must never list an open turn, nor use another connection while the transaction holds one.

use std::cell::RefCell;
use std::collections::HashSet;

use base::clock::Clock;
use model::{Approval, CompactionResult, CopiedTable, Metadata, SessionRow};
use portable::{Answer, Mark, Moved, Parent, Rows, SessionRecord, Stored, There, TurnRecord};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, Row};

use crate::connect::error::{Failure, is_passing, stored};
use crate::connect::pool::renew_deadline;
use crate::connect::server::{Param, Server};
use crate::journal::pointer::Identity;
use crate::queue::approvals;
use crate::reading::sessions::{COLUMNS, session_row};
use crate::rows::body::{self, storable};
use crate::rows::turn_read::get;

const DOING: &str = "transfer the ledger";

/// The rows of a server.
pub(crate) struct ServerRows<'a> {
    pub(crate) server: &'a Server,
    client: &'a Client,
    pub(crate) clock: &'a Clock,
    /// The turns of the context that is exported.
    thread: &'a [String],
    /// A failure after which the whole transaction is tried again.
    failed: RefCell<Option<Error>>,
}

impl<'a> ServerRows<'a> {
    pub(crate) fn new(
        server: &'a Server,
        client: &'a Client,
        clock: &'a Clock,
        thread: &'a [String],
    ) -> Self {
        Self { server, client, clock, thread, failed: RefCell::default() }
    }

    pub(crate) async fn rows(&self, text: &str, params: &[Param<'_>]) -> Stored<Vec<Row>> {
        // A transfer has as many statements as turns: the limit of time is for each of them.
        renew_deadline(self.clock);
        let read = self.client.query_typed(&self.server.sql(text), params).await;
        read.map_err(|error| {
            let as_stored = stored(DOING, &error);
            if is_passing(&error) {
                self.failed.replace(Some(error));
            }
            as_stored
        })
    }

    /// The outcome of the work on these rows for the loop that tries it again.
    pub(crate) fn outcome<T>(&self, done: Stored<T>) -> Result<T, Failure> {
        match (done, self.failed.take()) {
            (Err(_), Some(error)) => Err(error.into()),
            (done, _) => Ok(done?),
        }
    }

    async fn row(&self, text: &str, params: &[Param<'_>]) -> Stored<Option<Row>> {
        Ok(self.rows(text, params).await?.into_iter().next())
    }

    /// Whether the statement with this one parameter has changed a row.
    fn change<'b>(&'b self, text: &'static str, of: &'b str) -> Answer<'b, bool> {
        Box::pin(async move { Ok(!self.rows(text, &[(&of, Type::TEXT)]).await?.is_empty()) })
    }

    async fn find_there(&self, label: &str) -> Stored<Option<There>> {
        let text = "select head, opening and head is null as is_hidden, running is not null or parked is not null as runs
            from @sessions where label = $1";
        let row = self.row(text, &[(&label, Type::TEXT)]).await?;
        let there = row.map(|row| {
            let is_running: bool = get(&row, "runs")?;
            let is_incomplete = get::<bool>(&row, "is_hidden")? && !is_running;
            Ok(There { head: get(&row, "head")?, is_incomplete, is_running })
        });
        there.transpose()
    }

    async fn read_session(&self, label: &str) -> Stored<Option<SessionRecord>> {
        let of: [Param<'_>; 1] = [(&label, Type::TEXT)];
        let text = format!("select {COLUMNS} from @sessions where label = $1 and not opening");
        let Some(row) = self.row(&text, &of).await? else { return Ok(None) };
        let text = "select thread_id, changed_at from @session_moves where session_label = $1 order by changed_at, id";
        let moves = self.rows(text, &of).await?;
        let moves = moves.iter().map(|row| {
            Ok(Moved { turn_id: get(row, "thread_id")?, changed_at: get(row, "changed_at")? })
        });
        let (session, history) = (session_row(&row)?, moves.collect::<Stored<_>>()?);
        Ok(Some(SessionRecord { session, history }))
    }

    async fn update_session(&self, row: &SessionRow) -> Stored<()> {
        let text = "update @sessions set head = $2, persona_id = $3, agent_id = $4, created_at = $5, updated_at = $6,
              status = $7, is_subagent = $8, parent_session_label = $9, parent_turn_id = $10, spawn_tool_call_id = $11,
              task_description = $12, task_status = $13, origin = $14, origin_session_id = $15, routing_key = $16,
              metadata = $17, metadata_values = $17::jsonb, opening = false
            where label = $1";
        let metadata = row.metadata.as_ref().map(Metadata::as_str);
        let description = row.task_description.as_deref().map(storable);
        let params: [Param<'_>; 17] = [
            (&row.label, Type::TEXT),
            (&row.thread_id, Type::TEXT),
            (&row.persona_id, Type::TEXT),
            (&row.agent_id, Type::TEXT),
            (&row.created_at, Type::INT8),
            (&row.updated_at, Type::INT8),
            (&row.status, Type::TEXT),
            (&row.is_subagent, Type::BOOL),
            (&row.parent_session_label, Type::TEXT),
            (&row.parent_turn_id, Type::TEXT),
            (&row.spawn_tool_call_id, Type::TEXT),
            (&description, Type::TEXT),
            (&row.task_status, Type::TEXT),
            (&row.origin, Type::TEXT),
            (&row.origin_session_id, Type::TEXT),
            (&row.routing_key, Type::TEXT),
            (&metadata, Type::TEXT),
        ];
        self.rows(text, &params).await.map(drop)
    }
}

impl Rows for ServerRows<'_> {
    fn turns<'a>(&'a self, label: Option<&'a str>) -> Answer<'a, Vec<(String, Option<String>)>> {
        Box::pin(async move {
            let all = "select id, parent_turn_id from @turns where n is not null order by id desc";
            let of_session = "with recursive up (id) as (
                select id from @turns where session_label = $1
                union select head from @sessions where label = $1 and head is not null
                union select t.parent_turn_id from up join @turns t on t.id = up.id where t.parent_turn_id is not null
              ) select t.id, t.parent_turn_id from up join @turns t on t.id = up.id where t.n is not null order by t.id desc";
            let rows = match &label {
                None => self.rows(all, &[]).await?,
                Some(label) => self.rows(of_session, &[(label, Type::TEXT)]).await?,
            };
            rows.iter().map(|row| Ok((get(row, "id")?, get(row, "parent_turn_id")?))).collect()
        })
    }

    fn turns_after(&self, after: i64, most: i64) -> Answer<'_, (Vec<String>, i64)> {
        Box::pin(async move {
            let text = "select n, id from @turns where n > $1 order by n limit $2";
            let rows = self.rows(text, &[(&after, Type::INT8), (&most, Type::INT8)]).await?;
            let last = rows.last().map_or(Ok(after), |row| get(row, "n"))?;
            Ok((rows.iter().map(|row| get(row, "id")).collect::<Stored<_>>()?, last))
        })
    }

    fn open_turns<'a>(&'a self, label: Option<&'a str>) -> Answer<'a, u64> {
        Box::pin(async move {
            let text = "select count(*) as n from @turns where status = 'streaming'
                and ($1::text is null or session_label = $1)";
            let row = self.row(text, &[(&label, Type::TEXT)]).await?;
            row.map_or(Ok(0), |row| Ok(get::<i64>(&row, "n")?.unsigned_abs()))
        })
    }

    fn thread<'a>(&'a self, _: &'a str) -> Answer<'a, Vec<String>> {
        Box::pin(std::future::ready(Ok(self.thread.to_vec())))
    }

    fn turn<'a>(&'a self, id: &'a str) -> Answer<'a, TurnRecord> {
        Box::pin(self.read_turn(id))
    }

    fn approvals<'a>(&'a self, turn: &'a str) -> Answer<'a, Vec<Approval>> {
        Box::pin(async move {
            let rows = self.rows(approvals::OF_TURN, &[(&turn, Type::TEXT)]).await?;
            rows.iter().map(approvals::stored).collect()
        })
    }

    fn labels(&self) -> Answer<'_, Vec<String>> {
        Box::pin(async move {
            let text = "select label from @sessions where not opening order by label";
            self.rows(text, &[]).await?.iter().map(|row| get(row, "label")).collect()
        })
    }

    fn session<'a>(&'a self, label: &'a str) -> Answer<'a, Option<SessionRecord>> {
        Box::pin(self.read_session(label))
    }

    fn missing<'a>(&'a self, turns: &'a [String]) -> Answer<'a, Vec<String>> {
        Box::pin(async move {
            let text = "select id from unnest($1) as w (id) where not exists (select from @turns t where t.id = w.id)";
            let rows = self.rows(text, &[(&turns, Type::TEXT_ARRAY)]).await?;
            let missing: HashSet<String> =
                rows.iter().map(|row| get(row, "id")).collect::<Stored<_>>()?;
            Ok(turns.iter().filter(|turn| missing.contains(*turn)).cloned().collect())
        })
    }

    fn count<'a>(&'a self, statement: &'a str) -> Answer<'a, u64> {
        Box::pin(async move {
            let row = self.row(statement, &[]).await?;
            row.map_or(Ok(0), |row| Ok(get::<i64>(&row, "count")?.unsigned_abs()))
        })
    }

    fn fence<'a>(&'a self, place: &'a str, token: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            // First: what makes a session has this row until it ends, and no table yet that is locked here.
            let set = "update @ledger set moved_to = $1, moved_token = $2
                where not moved_for_good or moved_to = $1 returning 1";
            let of: [Param<'_>; 2] = [(&place, Type::TEXT), (&token, Type::TEXT)];
            if self.rows(set, &of).await?.is_empty() {
                let row = self.row("select moved_to from @ledger", &[]).await?;
                let to: Option<String> =
                    row.map(|row| get(&row, "moved_to")).transpose()?.flatten();
                return Err(portable::moved(&to.unwrap_or_default()));
            }
            let lock = "lock table @turns, @queue_items, @schedules, @session_aliases, @personas, @memory_facts
                in share row exclusive mode";
            self.rows(lock, &[]).await.map(drop)
        })
    }

    fn release<'a>(&'a self, token: &'a str) -> Answer<'a, bool> {
        let set = "update @ledger set moved_to = null
            where moved_token = $1 and not moved_for_good returning 1";
        self.change(set, token)
    }

    fn finish_move<'a>(&'a self, token: &'a str) -> Answer<'a, bool> {
        let set = "update @ledger set moved_for_good = true
            where moved_token = $1 and moved_to is not null returning 1";
        self.change(set, token)
    }

    fn identity(&self) -> Answer<'_, Vec<String>> {
        Box::pin(async move {
            let text = "select array_remove(array[id, copy_mark], null) as identity from @ledger";
            let row = self.row(text, &[]).await?;
            row.map_or(Ok(Vec::new()), |row| get(&row, "identity"))
        })
    }

    fn set_copy_mark<'a>(&'a self, mark: &'a str) -> Answer<'a, bool> {
        self.change("update @ledger set copy_mark = $1 returning 1", mark)
    }

    fn rows_after<'a>(
        &'a self,
        of: CopiedTable,
        after: &'a [String],
    ) -> Answer<'a, Vec<Vec<String>>> {
        Box::pin(self.page_of(of, after))
    }

    fn missing_rows<'a>(
        &'a self,
        of: CopiedTable,
        rows: &'a [Vec<String>],
    ) -> Answer<'a, Vec<Vec<String>>> {
        Box::pin(self.missing_of(of, rows))
    }

    fn write_rows<'a>(&'a self, of: CopiedTable, rows: &'a [Vec<String>]) -> Answer<'a, ()> {
        Box::pin(self.write_to(of, rows))
    }

    fn exists<'a>(&'a self, turn: &'a str) -> Answer<'a, bool> {
        Box::pin(async move {
            let text = "select from @turns where id = $1";
            Ok(self.row(text, &[(&turn, Type::TEXT)]).await?.is_some())
        })
    }

    fn parent<'a>(&'a self, turn: &'a str) -> Answer<'a, Option<Parent>> {
        Box::pin(async move {
            let text = "select n, depth, thread_tokens from @turns where id = $1 and n is not null";
            let row = self.row(text, &[(&turn, Type::TEXT)]).await?;
            let parent = row.map(|row| {
                let (n, depth) = (get(&row, "n")?, get(&row, "depth")?);
                let thread_tokens = get(&row, "thread_tokens")?;
                Ok(Parent { id: turn.to_owned(), n, depth, thread_tokens })
            });
            parent.transpose()
        })
    }

    fn is_above<'a>(&'a self, turn: &'a str, other: &'a str) -> Answer<'a, bool> {
        Box::pin(async move {
            let text = "with recursive up (id) as (
                select parent_turn_id from @turns where id = $1
                union select t.parent_turn_id from up join @turns t on t.id = up.id
              ) select from up where id = $2";
            let of: [Param<'_>; 2] = [(&turn, Type::TEXT), (&other, Type::TEXT)];
            Ok(self.row(text, &of).await?.is_some())
        })
    }

    fn deepest<'a>(&'a self, label: &'a str) -> Answer<'a, Option<(String, i64)>> {
        Box::pin(async move {
            let text = "select id, coalesce(completed_at, started_at) as at from @turns
                where session_label = $1 and n is not null order by depth desc, id desc limit 1";
            let row = self.row(text, &[(&label, Type::TEXT)]).await?;
            row.map(|row| Ok((get(&row, "id")?, get(&row, "at")?))).transpose()
        })
    }

    fn there<'a>(&'a self, label: &'a str) -> Answer<'a, Option<There>> {
        Box::pin(self.find_there(label))
    }

    fn mark(&self, mark: Mark) -> Answer<'_, ()> {
        Box::pin(async move {
            let statements: &[&str] = match mark {
                Mark::Set => &["savepoint line"],
                Mark::Release => &["release line"],
                Mark::Undo => &["rollback to line", "release line"],
            };
            for statement in statements {
                self.rows(statement, &[]).await?;
            }
            Ok(())
        })
    }

    fn create<'a>(&'a self, label: &'a str, now: i64) -> Answer<'a, ()> {
        Box::pin(async move {
            let text = "insert into @sessions (label, persona_id, agent_id, created_at, updated_at, opening)
                select $1, coalesce(main.id, $2, 'default'), coalesce($3, main.id, 'default'), $4, $4, true
                from (select) as one left join @personas main on main.main_session_label = $1";
            let identity = Identity::of(label);
            let params: [Param<'_>; 4] = [
                (&label, Type::TEXT),
                (&identity.persona, Type::TEXT),
                (&identity.agent, Type::TEXT),
                (&now, Type::INT8),
            ];
            self.rows(text, &params).await.map(drop)
        })
    }

    fn insert<'a>(&'a self, turn: &'a TurnRecord, parent: Option<&'a Parent>) -> Answer<'a, ()> {
        Box::pin(async move {
            self.write_turn(turn, parent).await?;
            if self.server.live.memory.get().is_some() {
                let note = "insert into @memory_pending (turn_id) select $1
                    where not exists (select from @memory_forgotten f where f.kind = 'turn' and f.id = $1) on conflict do nothing";
                self.rows(note, &[(&turn.id, Type::TEXT)]).await?;
            }
            Ok(())
        })
    }

    fn compaction<'a>(&'a self, turn: &'a str, result: &'a CompactionResult) -> Answer<'a, ()> {
        Box::pin(async move {
            let text = "insert into @compactions (turn_id, first_kept_turn_id, summarized_through_turn_id, body, checksum)
                values ($1, $2, $3, $4, $5)";
            let row = body::encode(result)?;
            let params: [Param<'_>; 5] = [
                (&turn, Type::TEXT),
                (&result.first_kept_turn_id, Type::TEXT),
                (&result.summarized_through_turn_id, Type::TEXT),
                (&row.bytes, Type::BYTEA),
                (&row.checksum, Type::INT8),
            ];
            self.rows(text, &params).await.map(drop)
        })
    }

    fn write_session<'a>(&'a self, row: &'a SessionRow) -> Answer<'a, ()> {
        Box::pin(self.update_session(row))
    }

    fn point<'a>(&'a self, label: &'a str, turn: Option<&'a str>, at: i64) -> Answer<'a, ()> {
        Box::pin(async move {
            let text = "update @sessions set head = coalesce($2, head), opening = false,
                  updated_at = case when $2::text is null then updated_at else $3 end where label = $1";
            let params: [Param<'_>; 3] =
                [(&label, Type::TEXT), (&turn, Type::TEXT), (&at, Type::INT8)];
            self.rows(text, &params).await?;
            match turn {
                Some(turn) => self.log(label, turn, at).await,
                None => Ok(()),
            }
        })
    }

    fn forget_log<'a>(&'a self, label: &'a str) -> Answer<'a, bool> {
        self.change("delete from @session_moves where session_label = $1 returning 1", label)
    }

    fn log<'a>(&'a self, label: &'a str, turn: &'a str, at: i64) -> Answer<'a, ()> {
        Box::pin(async move {
            let text = "insert into @session_moves (session_label, thread_id, changed_at) values ($1, $2, $3)";
            let params: [Param<'_>; 3] =
                [(&label, Type::TEXT), (&turn, Type::TEXT), (&at, Type::INT8)];
            self.rows(text, &params).await.map(drop)
        })
    }
}

/// Runs `work` in one snapshot of the server.
pub(crate) async fn reading<T>(
    server: &Server,
    doing: &str,
    work: impl AsyncFn(&Client) -> Result<T, Failure>,
) -> Stored<T> {
    within(server, doing, "begin isolation level repeatable read read only", work).await
}

/// Runs `work` in a transaction, which an error undoes.
pub(crate) async fn writing<T>(
    server: &Server,
    doing: &str,
    work: impl AsyncFn(&Client) -> Result<T, Failure>,
) -> Stored<T> {
    within(server, doing, "begin", work).await
}

async fn within<T>(
    server: &Server,
    doing: &str,
    begin: &str,
    work: impl AsyncFn(&Client) -> Result<T, Failure>,
) -> Stored<T> {
    let run = server.run(doing, async |client, _| {
        client.batch_execute(begin).await?;
        let done = work(client).await;
        let end = if done.is_ok() { "commit" } else { "rollback" };
        let ended = client.batch_execute(end).await;
        let done = done?;
        ended?;
        Ok(done)
    });
    run.await
}
