//! Runs by the host's id: where one is, lists of them, and the end of one.
//!
//! The number of a process is that on its machine. It must never return a run whose turn cannot be read.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::{Stored, damaged};
use crate::connect::server::{Param, Server};
use crate::events::waiting::lives;
use crate::journal::take_over::RUNS;
use crate::reading::turns::{self, lost};
use crate::rows::turn_read::get;
use model::{
    EndedRun, Page, RunFilter, RunInfo, RunProcess, RunStatus, StorageError, StorageErrorKind,
};

/// Where the open turn `t` of the session `s` is.
fn place() -> String {
    format!(
        "case when {RUNS} then 'running' when s.parked = t.id then 'awaiting_approval' else 'interrupted' end"
    )
}

/// Where the run `r`, which has no turn yet, is; `$1` is this process.
fn waiting_place() -> String {
    format!("case when {} then 'waiting' else 'interrupted' end", lives("$1"))
}

/// The newest runs, those of turns that fulfil `turns` and those that wait and fulfil `waiting`, up to the number `limit`.
fn select(turns: &str, waiting: &str, limit: &str) -> String {
    let (place, waiting_place) = (place(), waiting_place());
    let last = |turn: &str| {
        format!(
            "(select e.last from @events e where e.turn_id = {turn} order by e.last desc limit 1) as last_seq"
        )
    };
    let (of_turn, of_run) = (last("t.id"), last("r.turn_id"));
    format!(
        "(select t.id, t.run_id, t.session_label, t.status, t.started_at, t.completed_at, {place} as place, s.owner, {of_turn}
          from @turns t join @sessions s on s.label = t.session_label where t.turn_type = 'normal' and {turns}
          order by t.id desc limit {limit})
         union all
         (select r.turn_id, r.run_id, r.session_label, 'streaming', r.started_at, null, {waiting_place}, r.owner, {of_run}
          from @runs r where {waiting} order by r.turn_id desc limit {limit})
         order by id desc limit {limit}"
    )
}

fn info_of(server: &Server, row: &Row) -> Stored<RunInfo> {
    let turn_id: String = get(row, "id")?;
    let status = match (get::<&str>(row, "status")?, get::<&str>(row, "place")?) {
        ("streaming", "running") => RunStatus::Running,
        ("streaming", "awaiting_approval") => RunStatus::AwaitingApproval,
        ("streaming", "waiting") => RunStatus::Waiting,
        ("streaming", _) => RunStatus::Interrupted,
        ("completed", _) => RunStatus::Completed,
        ("aborted", _) => RunStatus::Aborted,
        ("failed", _) => RunStatus::Failed,
        (_, _) => return Err(damaged(format_args!("turn `{turn_id}` has no status"))),
    };
    // The owner's name ends with its number on its machine.
    let owner: Option<&str> = get(row, "owner")?;
    let has_process = matches!(status, RunStatus::Running | RunStatus::Waiting);
    let process = owner.filter(|_| has_process).and_then(|owner| {
        let pid = owner.rsplit('-').next()?.parse().ok()?;
        Some(RunProcess { pid, current: owner == server.owner })
    });
    Ok(RunInfo {
        run_id: get(row, "run_id")?,
        turn_id,
        session_label: get(row, "session_label")?,
        status,
        last_seq: get::<Option<i64>>(row, "last_seq")?.unwrap_or_default().cast_unsigned(),
        started_at: get(row, "started_at")?,
        ended_at: get(row, "completed_at")?,
        process,
    })
}

/// The newest run with the host's id.
pub(crate) async fn info(server: &Server, run_id: &str) -> Stored<Option<RunInfo>> {
    let text = select("t.run_id = $2", "r.run_id = $2", "1");
    let params: [Param<'_>; 2] = [(&server.owner, Type::TEXT), (&run_id, Type::TEXT)];
    let row = server.row("find a run", &text, &params).await?;
    row.as_ref().map(|row| info_of(server, row)).transpose()
}

/// The runs of `filter`, the newest first.
pub(crate) async fn list(server: &Server, filter: &RunFilter) -> Stored<Page<RunInfo>> {
    let turns = format!(
        "($2::text is null or t.id < $2) and ($3::text is null or t.session_label = $3)
         and ($4::text is null or t.status = $4) and ($5::text is null or (t.status = 'streaming' and {} = $5))",
        place()
    );
    let waiting = format!(
        "($2::text is null or r.turn_id < $2) and ($3::text is null or r.session_label = $3)
         and $4::text is null and ($5::text is null or {} = $5)",
        waiting_place()
    );
    let text = select(&turns, &waiting, "$6");
    let (status, place) = match filter.status {
        None => (None, None),
        Some(
            open @ (RunStatus::Waiting
            | RunStatus::Running
            | RunStatus::Interrupted
            | RunStatus::AwaitingApproval),
        ) => (None, Some(open.as_str())),
        Some(ended @ (RunStatus::Completed | RunStatus::Aborted | RunStatus::Failed)) => {
            (Some(ended.as_str()), None)
        }
    };
    let limit = filter.limit.and_one();
    let params: [Param<'_>; 6] = [
        (&server.owner, Type::TEXT),
        (&filter.cursor, Type::TEXT),
        (&filter.session, Type::TEXT),
        (&status, Type::TEXT),
        (&place, Type::TEXT),
        (&limit, Type::INT8),
    ];
    let rows = server.rows("list the runs", &text, &params).await?;
    let found: Vec<RunInfo> = rows.iter().map(|row| info_of(server, row)).collect::<Stored<_>>()?;
    Ok(Page::cut(found.into_iter().map(|run| (run.turn_id.clone(), run)).collect(), filter.limit))
}

/// The end of the newest run with the host's id, or its turn while a process runs it.
///
/// # Errors
/// `unknown_run`; `run_interrupted` when no process runs it.
pub(crate) async fn end(server: &Server, run_id: &str) -> Stored<Result<EndedRun, String>> {
    let run = info(server, run_id).await?.ok_or_else(|| {
        let message =
            format!("the ledger has no run `{run_id}`; pass the id of one that has begun");
        StorageError::new(StorageErrorKind::UnknownRun, message)
    })?;
    match run.status {
        RunStatus::Interrupted => {
            return Err(StorageError::new(
                StorageErrorKind::RunInterrupted,
                format!(
                    "run `{run_id}` has not ended, and no process runs it; resume or discard its turn, which `recover()` lists"
                ),
            ));
        }
        RunStatus::Waiting | RunStatus::Running | RunStatus::AwaitingApproval => {
            return Ok(Err(run.turn_id));
        }
        RunStatus::Completed | RunStatus::Aborted | RunStatus::Failed => {}
    }
    let turn =
        turns::turn(server, &run.turn_id).await?.ok_or_else(|| lost(run_id, &run.turn_id))?;
    let parent = match &turn.parent_turn_id {
        Some(parent) => turns::turn(server, parent).await?,
        None => None,
    };
    let compaction = parent.filter(|it| it.run_id == turn.run_id).and_then(|it| it.compaction);
    let text = "select from @session_moves where session_label = $1 and changed_at = $2 and thread_id = $3";
    let params: [Param<'_>; 3] = [
        (&turn.session_label, Type::TEXT),
        (&turn.completed_at, Type::INT8),
        (&turn.id, Type::TEXT),
    ];
    let was_head = server.row("read the moves of a session", text, &params).await?.is_some();
    let in_thread = turn.status == "failed" || was_head;
    Ok(Ok(EndedRun { turn, compaction, in_thread }))
}
