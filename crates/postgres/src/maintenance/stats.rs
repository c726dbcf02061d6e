//! The statistics of a ledger.
//!
//! It must never count a turn that still runs as ended.

use tokio_postgres::types::Type;

use crate::connect::error::{Stored, closed};
use crate::connect::server::Server;
use crate::reading::sessions::{IS_SESSION, IS_THERE};
use crate::reading::usage_report::token_usage;
use crate::rows::turn_read::get;
use model::{BlobCounts, LedgerStats, TurnCounts};

/// The numbers of the schema's tables.
pub(crate) async fn stats(server: &Server) -> Stored<LedgerStats> {
    let text = format!(
        "select l.id, l.version, l.created_at, l.engine_version, t.*,
           (select count(*) from @messages m join @turns t on t.id = m.turn_id where t.n is not null) as messages,
           (select count(*) from @tool_calls c join @turns t on t.id = c.turn_id where t.n is not null) as calls,
           (select count(*) from @sessions where {IS_SESSION} and {IS_THERE}) as sessions,
           (select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_class c
              join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relkind = 'r') as bytes
         from @ledger l, (
           select count(*) filter (where turn_type = 'normal' and status = 'completed') as completed,
             count(*) filter (where turn_type = 'normal' and status = 'aborted') as aborted,
             count(*) filter (where turn_type = 'normal' and status = 'failed') as failed,
             count(*) filter (where status = 'streaming') as open,
             count(*) filter (where turn_type = 'compaction') as compactions,
             array[coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0), coalesce(sum(cached_input_tokens), 0),
               coalesce(sum(cache_write_tokens), 0), coalesce(sum(reasoning_tokens), 0),
               coalesce(sum(total_tokens), 0)]::int8[] as tokens,
             coalesce(sum(cost), 0)::float8 as cost,
             count(*) filter (where n is not null and cost is null and total_tokens > 0) as unpriced,
             min(started_at) filter (where n is not null) as first_at,
             max(started_at) filter (where n is not null) as last_at
           from @turns) as t"
    );
    let params = [(&server.channel as &(dyn tokio_postgres::types::ToSql + Sync), Type::TEXT)];
    let row = server.row("count what is in the ledger", &text, &params).await?;
    let row = row.ok_or_else(closed)?;
    let count = |name: &str| -> Stored<u64> { Ok(get::<i64>(&row, name)?.cast_unsigned()) };
    let tokens: Vec<i64> = get(&row, "tokens")?;
    Ok(LedgerStats {
        ledger_id: get(&row, "id")?,
        created_at: get(&row, "created_at")?,
        engine_version: get(&row, "engine_version")?,
        schema_version: u64::from(get::<i32>(&row, "version")?.cast_unsigned()),
        // The schema, in place of a file.
        path: server.channel.clone(),
        file_bytes: count("bytes")?,
        log_bytes: 0,
        free_bytes: 0,
        sessions: count("sessions")?,
        turns: TurnCounts {
            completed: count("completed")?,
            aborted: count("aborted")?,
            failed: count("failed")?,
            open: count("open")?,
            compactions: count("compactions")?,
        },
        messages: count("messages")?,
        tool_calls: count("calls")?,
        blobs: BlobCounts { count: 0, bytes: 0, stored_bytes: 0, saved_bytes: 0 },
        usage: token_usage(&tokens),
        cost: get(&row, "cost")?,
        unpriced_turns: count("unpriced")?,
        first_turn_at: get(&row, "first_at")?,
        last_turn_at: get(&row, "last_at")?,
    })
}
