//! Turns that were begun and have not ended: the list of those that run nowhere, and their take-over under a new epoch.
//!
//! It must never take a turn from a process whose lease has not ended.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use crate::connect::error::{Failure, Stored, damaged};
use crate::connect::server::{Param, Server};
use crate::journal::commit::is_compacted;
use crate::queue::approvals;
use crate::rows::body;
use crate::rows::turn_body::OpeningBody;
use crate::rows::turn_read::{self, MESSAGE, TURN, get};
use model::{OpenCall, OpenTurn, Opened, Progress, ReplayClass, StorageError, StorageErrorKind};

/// Whether the open turn `t` of the session `s` runs in some process.
pub(crate) const RUNS: &str = "coalesce(s.running = t.id and s.epoch = t.epoch and s.owner is not null and s.expires_at > @now_ms(), false)";

fn open_turns(condition: &str) -> String {
    format!(
        "select {TURN}, t.expected_head, t.epoch, t.opening, t.opening_checksum, t.progress, s.head, {RUNS} as runs,
           coalesce(s.parked = t.id, false) as parked
         from @turns t join @sessions s on s.label = t.session_label
         where t.status = 'streaming' and {condition} order by t.id"
    )
}

/// The turns that run nowhere and have not ended, oldest first; with `turn_id`, that one.
pub(crate) async fn interrupted(server: &Server, turn_id: Option<&str>) -> Stored<Vec<OpenTurn>> {
    let sql = server.sql(&open_turns(&format!("($1::text is null or t.id = $1) and not {RUNS}")));
    let listed = server.run("list the interrupted turns", async |client, _| {
        let rows = client.query_typed(&sql, &[(&turn_id, Type::TEXT)]).await?;
        let mut found = Vec::new();
        for row in &rows {
            found.push(open_turn(server, client, row).await?);
        }
        Ok(found)
    });
    listed.await
}

/// The open turn of that id, whether or not it runs.
pub(crate) async fn open_turn_of(server: &Server, turn_id: &str) -> Stored<Option<Box<OpenTurn>>> {
    let sql = server.sql(&open_turns("t.id = $1"));
    let read = server.run("read an open turn", async |client, _| {
        match client.query_typed(&sql, &[(&turn_id, Type::TEXT)]).await?.first() {
            Some(row) => Ok(Some(Box::new(open_turn(server, client, row).await?))),
            None => Ok(None),
        }
    });
    read.await
}

/// Leases the session of an interrupted turn under a new epoch.
///
/// # Errors
/// `unknown_turn` for one that is not open.
pub(crate) async fn reopen(server: &Server, turn_id: &str) -> Stored<Opened<Box<OpenTurn>>> {
    // The session first, as every commit point locks it; the second statement sees what was committed before that.
    let lock = server.sql(
        "select parked from @sessions where label = (select session_label from @turns where id = $1) for update",
    );
    let take = server.sql(
        "with taken as (
           update @sessions s set epoch = s.epoch + 1, owner = $2, running = $1, parked = nullif(s.parked, $1), expires_at = @now_ms() + $3
           from @turns t where t.id = $1 and t.status = 'streaming' and s.label = t.session_label
             and (s.running is null or s.owner is null or s.expires_at <= @now_ms())
           returning s.epoch)
         update @turns t set epoch = taken.epoch from taken where t.id = $1 returning t.epoch",
    );
    let params: [Param<'_>; 3] =
        [(&turn_id, Type::TEXT), (&server.owner, Type::TEXT), (&server.lease_ms, Type::INT8)];
    let of = server.sql(&open_turns("t.id = $1"));
    let taken = server.run("take over a turn", async |client, may_be_done| {
        if may_be_done {
            let ours = server.sql(
                "select from @sessions s join @turns t on t.id = s.running and t.epoch = s.epoch
                 where t.id = $1 and s.owner = $2",
            );
            let ours = client
                .query_typed(&ours, &[(&turn_id, Type::TEXT), (&server.owner, Type::TEXT)])
                .await?;
            if !ours.is_empty() {
                let row = client.query_typed_one(&of, &[(&turn_id, Type::TEXT)]).await?;
                return Ok(Opened::Leased(Box::new(open_turn(server, client, &row).await?)));
            }
        }
        let transaction = client.transaction().await?;
        let locked = transaction.query_typed(&lock, &[(&turn_id, Type::TEXT)]).await?;
        let rows = transaction.query_typed(&take, &params).await?;
        transaction.commit().await?;
        let read = client.query_typed(&of, &[(&turn_id, Type::TEXT)]).await?;
        match (rows.is_empty(), read.first()) {
            (_, None) => Err(Failure::Refused(not_open(turn_id))),
            (true, Some(_)) => Ok(Opened::Busy),
            (false, Some(row)) => {
                let mut turn = open_turn(server, client, row).await?;
                let parked = locked.first().map(|row| get::<Option<&str>>(row, "parked"));
                turn.parked = parked.transpose()?.flatten() == Some(turn_id);
                Ok(Opened::Leased(Box::new(turn)))
            }
        }
    });
    taken.await
}

/// The error for a turn that has ended or does not exist.
fn not_open(turn_id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownTurn,
        format!("turn `{turn_id}` is not an interrupted one; pass an id that `recover()` lists"),
    )
}

async fn open_turn(server: &Server, client: &Client, row: &Row) -> Result<OpenTurn, Failure> {
    let turn = turn_read::turn(row)?;
    let id: [Param<'_>; 1] = [(&turn.id, Type::TEXT)];
    let messages = server
        .sql(&format!("select {MESSAGE} from @messages where turn_id = $1 order by sequence"));
    let calls = server.sql(
        "select id, body, checksum, replay, arguments_hash is not null as begun
         from @tool_calls where turn_id = $1 order by sequence",
    );
    let approvals = server.sql(approvals::OF_TURN);
    let (messages, calls, approvals) = tokio::try_join!(
        client.query_typed(&messages, &id),
        client.query_typed(&calls, &id),
        client.query_typed(&approvals, &id)
    )?;
    let expected_head: Option<String> = get(row, "expected_head")?;
    let head: Option<String> = get(row, "head")?;
    let moved = head != expected_head
        && (head.is_none()
            || !is_compacted(server, client, head.as_deref(), expected_head.as_deref()).await?);
    let what = format!("the context of turn `{}`", turn.id);
    let opening: Option<OpeningBody> =
        body::decode(get(row, "opening")?, get(row, "opening_checksum")?, &what).ok();
    let altered = opening.is_none();
    let opening = opening.unwrap_or_else(|| OpeningBody { context: String::new(), target: None });
    let progress: Option<&str> = get(row, "progress")?;
    let progress: Progress = match progress {
        Some(json) => serde_json::from_str(json).map_err(|_| damaged(&what))?,
        None => Progress::default(),
    };
    Ok(OpenTurn {
        parent_turn_id: turn.parent_turn_id,
        expected_head,
        moved,
        source_event_id: turn.source_event_id,
        target: opening.target,
        started_at: turn.started_at,
        provider: turn.provider.unwrap_or_default(),
        model: turn.model.unwrap_or_default(),
        messages: messages.iter().map(turn_read::message).collect::<Stored<_>>()?,
        calls: calls.iter().map(open_call).collect::<Stored<_>>()?,
        progress,
        metadata: turn.metadata,
        context: opening.context,
        altered,
        epoch: get::<Option<i64>>(row, "epoch")?.unwrap_or_default(),
        approvals: approvals.iter().map(approvals::stored).collect::<Stored<_>>()?,
        parked: get(row, "parked")?,
        turn_id: turn.id,
        run_id: turn.run_id,
        session_label: turn.session_label,
    })
}

fn open_call(row: &Row) -> Stored<OpenCall> {
    let replay = match get::<Option<&str>>(row, "replay")? {
        Some("pure") => ReplayClass::Pure,
        Some("idempotent") => ReplayClass::Idempotent,
        Some("reconcilable") => ReplayClass::Reconcilable,
        None | Some("unsafe") => ReplayClass::Unsafe,
        Some(_) => return Err(damaged("a tool call has no class")),
    };
    Ok(OpenCall { row: turn_read::call(row)?, replay, begun: get(row, "begun")? })
}
