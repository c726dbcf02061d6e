//! Turns: one whole, lists by a filter, and the tool calls of them.
//!
//! It must never list a turn that has not ended.

use tokio_postgres::types::Type;

use crate::connect::error::{Stored, damaged};
use crate::connect::server::{Param, Server};
use crate::reading::filters::{metadata_of, no_cursor};
use crate::rows::body;
use crate::rows::turn_read::{self, MESSAGE, TURN, get};
use model::{
    CallPurpose, CompactionResult, EndedStatus, Page, ToolCallFilter, ToolCallRow, ToolCallStatus,
    TurnFilter, TurnRow, TurnSummary,
};

/// The turn of that id, open or ended, with its messages, calls and compaction.
pub(crate) async fn turn(server: &Server, id: &str) -> Stored<Option<TurnRow>> {
    let of: [Param<'_>; 1] = [(&id, Type::TEXT)];
    let select = server.sql(&format!(
        "select {TURN}, c.body, c.checksum as cut_checksum from @turns t left join @compactions c on c.turn_id = t.id
         where t.id = $1"
    ));
    let messages = server
        .sql(&format!("select {MESSAGE} from @messages where turn_id = $1 order by sequence"));
    let calls = server
        .sql("select id, body, checksum from @tool_calls where turn_id = $1 order by sequence");
    let read = server.run("read a turn", async |client, _| {
        let (rows, messages, calls) = tokio::try_join!(
            client.query_typed(&select, &of),
            client.query_typed(&messages, &of),
            client.query_typed(&calls, &of)
        )?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut turn = turn_read::turn(row)?;
        turn.messages = turn_read::messages(&messages)?;
        turn.tool_calls = calls.iter().map(turn_read::call).collect::<Stored<_>>()?;
        if let Some(bytes) = get::<Option<&[u8]>>(row, "body")? {
            let what = format!("compaction `{id}`");
            let cut: CompactionResult = body::decode(bytes, get(row, "cut_checksum")?, &what)?;
            turn.compaction = Some(cut);
        }
        Ok(Some(turn))
    });
    read.await
}

/// The profile of the last answer of `provider` in a turn.
pub(crate) async fn answered_with(
    server: &Server,
    turn_id: &str,
    provider: &str,
) -> Stored<Option<String>> {
    let text = "select id, header, outcome, checksum from @turns where id = $1";
    let row = server.row("read the attempts of a turn", text, &[(&turn_id, Type::TEXT)]).await?;
    let Some(row) = row else { return Ok(None) };
    let (_, outcome) = turn_read::bodies(&row)?;
    let last = outcome.attempts.into_iter().rfind(|attempt| {
        attempt.purpose == CallPurpose::Run && attempt.ok && attempt.provider == provider
    });
    Ok(last.and_then(|attempt| attempt.profile_id))
}

/// The newest turn of the runs with the host's id.
pub(crate) async fn of_run(server: &Server, run_id: &str) -> Stored<Option<String>> {
    let text =
        "select id from @turns where run_id = $1 and turn_type = 'normal' order by id desc limit 1";
    let row = server.row("find a run", text, &[(&run_id, Type::TEXT)]).await?;
    row.map(|row| get(&row, "id")).transpose()
}

/// The turns of `filter`: those of a session by their ids, others in the order in which they ended.
///
/// # Errors
/// `invalid_query` if `after` is not a turn.
pub(crate) async fn turns(server: &Server, filter: &TurnFilter) -> Stored<Page<TurnSummary>> {
    let (id, number): (String, i64) = match &filter.after {
        None => (String::new(), 0),
        Some(after) => {
            let text = "select id, n from @turns where id = $1 and n is not null";
            let row = server.row("list the turns", text, &[(after, Type::TEXT)]).await?;
            let row = row.ok_or_else(|| no_cursor("filter.after", after))?;
            (get(&row, "id")?, get(&row, "n")?)
        }
    };
    let (condition, order) = match filter.session_label {
        Some(_) => ("t.session_label = $3 and t.id > $1", "t.id"),
        None => ("t.n > $2", "t.n"),
    };
    let text = format!(
        "select {TURN} from @turns t where {condition} and t.status <> 'streaming'
           and ($1::text is not null and $2::bigint is not null) and ($3::text is null or t.session_label = $3)
           and ($4::text is null or t.provider = $4) and ($5::text is null or t.model = $5)
           and ($6::bigint is null or t.started_at >= $6) and ($7::bigint is null or t.started_at < $7)
           and ($8::text is null or t.status = $8)
           and ($10::text is null or t.metadata @> $10::jsonb) order by {order} limit $9"
    );
    let status = filter.status.map(EndedStatus::as_str);
    let metadata = filter.metadata.as_ref().map(metadata_of);
    let limit = filter.limit.and_one();
    let params: [Param<'_>; 10] = [
        (&id, Type::TEXT),
        (&number, Type::INT8),
        (&filter.session_label, Type::TEXT),
        (&filter.provider, Type::TEXT),
        (&filter.model, Type::TEXT),
        (&filter.since, Type::INT8),
        (&filter.until, Type::INT8),
        (&status, Type::TEXT),
        (&limit, Type::INT8),
        (&metadata, Type::TEXT),
    ];
    let rows = server.rows("list the turns", &text, &params).await?;
    let found: Vec<TurnSummary> = rows.iter().map(turn_read::summary).collect::<Stored<_>>()?;
    Ok(Page::cut(found.into_iter().map(|turn| (turn.id.clone(), turn)).collect(), filter.limit))
}

/// The tool calls of `filter`, by turn and by their order in it.
///
/// # Errors
/// `invalid_query` if `after` is not a call.
pub(crate) async fn tool_calls(
    server: &Server,
    filter: &ToolCallFilter,
) -> Stored<Page<ToolCallRow>> {
    let doing = "list the tool calls";
    let (turn, sequence): (String, i32) = match &filter.after {
        None => (String::new(), -1),
        Some(after) => {
            let of_turn = "select c.turn_id, c.sequence from @tool_calls c join @turns t on t.id = c.turn_id
                where c.id = $1 and ($2::text is null or t.id = $2) and ($3::text is null or t.session_label = $3)";
            let params: [Param<'_>; 3] = [
                (after, Type::TEXT),
                (&filter.turn_id, Type::TEXT),
                (&filter.session_label, Type::TEXT),
            ];
            let row = server.row(doing, of_turn, &params).await?;
            let row = row.ok_or_else(|| no_cursor("filter.after", after))?;
            (get(&row, "turn_id")?, get(&row, "sequence")?)
        }
    };
    let text = "select c.id, c.body, c.checksum, t.id as turn, t.session_label
        from @turns t join @tool_calls c on c.turn_id = t.id
        where t.status <> 'streaming' and ($3::text is null or t.id = $3) and ($4::text is null or t.session_label = $4)
          and t.id >= $1 and (t.id > $1 or c.sequence > $2) and ($5::text is null or c.tool_name = $5)
          and ($6::text is null or c.status = $6) order by t.id, c.sequence limit $7";
    let status = filter.status.map(ToolCallStatus::as_str);
    let limit = filter.limit.and_one();
    let params: [Param<'_>; 7] = [
        (&turn, Type::TEXT),
        (&sequence, Type::INT4),
        (&filter.turn_id, Type::TEXT),
        (&filter.session_label, Type::TEXT),
        (&filter.tool_name, Type::TEXT),
        (&status, Type::TEXT),
        (&limit, Type::INT8),
    ];
    let rows = server.rows(doing, text, &params).await?;
    let found = rows.iter().map(|row| {
        let call = turn_read::call(row)?;
        let (turn_id, session_label) = (get(row, "turn")?, get(row, "session_label")?);
        Ok((call.call_id.clone(), ToolCallRow { turn_id, session_label, call }))
    });
    Ok(Page::cut(found.collect::<Stored<_>>()?, filter.limit))
}

/// The summary of an ended turn.
pub(crate) async fn summary(server: &Server, id: &str) -> Stored<Option<TurnSummary>> {
    let text = format!("select {TURN} from @turns t where t.id = $1 and t.status <> 'streaming'");
    let row = server.row("read a turn", &text, &[(&id, Type::TEXT)]).await?;
    row.as_ref().map(turn_read::summary).transpose()
}

/// The error for a run whose turn is missing.
pub(crate) fn lost(run_id: &str, turn_id: &str) -> model::StorageError {
    damaged(format_args!("turn `{turn_id}` of run `{run_id}` is missing"))
}
