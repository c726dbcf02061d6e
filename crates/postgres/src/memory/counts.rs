//! The counts of the memory, what it has used, and what the next context of a session has. It must never count an unknown price as 0.

use tokio_postgres::types::Type;

use crate::connect::error::{Stored, damaged};
use crate::connect::server::{Param, Server};
use crate::memory::pgvector;
use crate::rows::body;
use crate::rows::turn_read::get;
use model::{
    CallCost, CompactionResult, EmbeddingCost, MemoryCall, MemoryCounts, MemoryModel, MemoryTotals,
};

const DAY: i64 = 86_400_000;
const DOING: &str = "count what the memory has";

/// The thread of the session `$1` since its last compaction, with that one.
const ABOVE: &str = "with recursive above (id, parent, type, n) as (
     select t.id, t.parent_turn_id, t.turn_type, 0 from @sessions s join @turns t on t.id = s.head
       where s.label = $1 and not s.opening
     union all
     select t.id, t.parent_turn_id, t.turn_type, a.n + 1 from above a join @turns t on t.id = a.parent
       where a.type <> 'compaction')";

/// The turns that the next context of a session has, the newest first.
pub(crate) async fn turns_in_context(server: &Server, label: &str) -> Stored<Vec<String>> {
    let text = format!(
        "{ABOVE}, retained (id, parent, first, n) as (
           select t.id, t.parent_turn_id, c.first_kept_turn_id, a.n + 1 from above a
             join @compactions c on c.turn_id = a.id join @turns t on t.id = a.parent
             where a.type = 'compaction'
               and (select n from @turns where id = c.first_kept_turn_id) < (select n from @turns where id = a.id)
           union all
           select t.id, t.parent_turn_id, r.first, r.n + 1 from retained r join @turns t on t.id = r.parent where r.id <> r.first)
         select id from (select id, n from above union all select id, n from retained) both_of_them order by n limit 4096"
    );
    let rows =
        server.rows("read which turns a context has", &text, &[(&label, Type::TEXT)]).await?;
    rows.iter().map(|row| get(row, "id")).collect()
}

/// The summary of the last compaction in a session's thread.
pub(crate) async fn summary(server: &Server, label: &str) -> Stored<Option<String>> {
    let text = format!(
        "{ABOVE} select c.turn_id, c.body, c.checksum from above a join @compactions c on c.turn_id = a.id
         where a.type = 'compaction'"
    );
    let row = server.row("read the summary of a session", &text, &[(&label, Type::TEXT)]).await?;
    let Some(row) = row else { return Ok(None) };
    let what = format!("compaction `{}`", get::<&str>(&row, "turn_id")?);
    let compaction: CompactionResult =
        body::decode(get(&row, "body")?, get(&row, "checksum")?, &what)?;
    Ok(Some(compaction.summary))
}

/// The counts, with those of a model.
pub(crate) async fn counts(server: &Server, model: Option<i64>) -> Stored<MemoryCounts> {
    let text = "select (select count(*) from @memory_turns) as turns, (select count(*) from @memory_chunks) as chunks,
         (select count(*) from @memory_facts where valid_to is null) as facts,
         (select count(*) from @memory_pending) as pending_turns,
         (select count(*) from @memory_turns where is_clipped) as clipped_turns,
         (select count(*) from @memory_forgotten) as forgotten,
         (select count(*) from @memory_chunks where n > (select embedded_through from @memory_models where n = $1)) as pending_vectors,
         (select count(*) from @memory_skipped where model = $1) as skipped,
         (select problem from @memory_skipped where model = $1 order by chunk desc limit 1) as skipped_problem,
         (select coalesce(sum(tokens), 0)::bigint from @memory_models) as tokens,
         (select coalesce(sum(nanos), 0)::bigint from @memory_models) as nanos,
         (select coalesce(sum(unpriced_tokens), 0)::bigint from @memory_models) as unpriced,
         (select count(*) from @memory_extractions where not is_skipped) as open,
         (select count(*) from @memory_extractions where is_skipped) as given_up,
         (select problem from @memory_extractions where is_skipped order by turn_id desc limit 1) as problem,
         (select coalesce(sum(total_tokens), 0)::bigint from @memory_usage where purpose = 'extract') as extract_tokens,
         (select coalesce(sum(nanos), 0)::bigint from @memory_usage where purpose = 'extract') as extract_nanos,
         (select coalesce(sum(unpriced_calls), 0)::bigint from @memory_usage where purpose = 'extract') as extract_unpriced";
    let row = server.row(DOING, text, &[(&model, Type::INT8)]).await?;
    let row = row.ok_or_else(|| damaged("the memory has no counts"))?;
    let count = |name: &str| get::<i64>(&row, name).map(|it| u64::try_from(it).unwrap_or(0));
    let cost = |tokens: &str, nanos: &str, unpriced: &str| -> Stored<EmbeddingCost> {
        let priced = count(unpriced)? == 0;
        Ok(EmbeddingCost { tokens: count(tokens)?, nanos: priced.then_some(count(nanos)?) })
    };
    let models = "select n, name, dimensions, (select count(*) from @memory_vectors v where v.model = m.n) as vectors
       from @memory_models m order by n";
    let models = server.rows(DOING, models, &[]).await?;
    let mut all = Vec::new();
    for row in &models {
        let n = get(row, "n")?;
        let (search, search_problem) = pgvector::report(server, n).await?;
        all.push(MemoryModel {
            name: get(row, "name")?,
            dimensions: u32::try_from(get::<i32>(row, "dimensions")?).unwrap_or(0),
            vectors: u64::try_from(get::<i64>(row, "vectors")?).unwrap_or(0),
            current: model == Some(n),
            search,
            search_problem,
        });
    }
    Ok(MemoryCounts {
        totals: MemoryTotals {
            turns: count("turns")?,
            chunks: count("chunks")?,
            facts: count("facts")?,
            pending_turns: count("pending_turns")?,
            clipped_turns: count("clipped_turns")?,
            forgotten: count("forgotten")?,
            pending_vectors: count("pending_vectors")?,
            skipped: count("skipped")?,
            skipped_problem: get(&row, "skipped_problem")?,
            models: all,
        },
        cost: cost("tokens", "nanos", "unpriced")?,
        pending_extractions: count("open")?,
        skipped_extractions: count("given_up")?,
        extraction_problem: get(&row, "problem")?,
        extraction_cost: cost("extract_tokens", "extract_nanos", "extract_unpriced")?,
    })
}

/// Adds a call to the usage of the memory.
pub(crate) async fn used(server: &Server, call: &MemoryCall) -> Stored<()> {
    let text = "insert into @memory_usage as u (session_label, day, provider, model, purpose, calls, unpriced_calls, input_tokens,
         output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens, total_tokens, nanos)
       values ($1, $2, $3, $4, $5, 1, $6, $7, $8, $9, $10, $11, $12, $13)
       on conflict (session_label, day, provider, model, purpose) do update set
         calls = u.calls + 1, unpriced_calls = u.unpriced_calls + excluded.unpriced_calls,
         input_tokens = u.input_tokens + excluded.input_tokens, output_tokens = u.output_tokens + excluded.output_tokens,
         cached_input_tokens = u.cached_input_tokens + excluded.cached_input_tokens,
         cache_write_tokens = u.cache_write_tokens + excluded.cache_write_tokens,
         reasoning_tokens = u.reasoning_tokens + excluded.reasoning_tokens,
         total_tokens = u.total_tokens + excluded.total_tokens, nanos = u.nanos + excluded.nanos";
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let day = call.at.div_euclid(DAY);
    let (purpose, unpriced) = (call.purpose.as_str(), i64::from(call.nanos.is_none()));
    let usage = call.usage;
    let numbers = [
        usage.input_tokens,
        usage.output_tokens,
        usage.cached_input_tokens,
        usage.cache_write_tokens,
        usage.reasoning_tokens,
        usage.total_tokens,
        call.nanos.unwrap_or_default(),
    ]
    .map(number);
    let mut params: Vec<Param<'_>> = vec![
        (&call.session_label, Type::TEXT),
        (&day, Type::INT8),
        (&call.provider, Type::TEXT),
        (&call.model, Type::TEXT),
        (&purpose, Type::TEXT),
        (&unpriced, Type::INT8),
    ];
    for number in &numbers {
        params.push((number, Type::INT8));
    }
    // Twice, the limit of a day would be reached too early, and left out, it would be exceeded.
    server.once("add to the usage of the memory", text, &params).await.map(drop)
}

/// What extraction has used on the UTC day of a time.
pub(crate) async fn extracted_on(server: &Server, at: i64) -> Stored<CallCost> {
    let text = "select coalesce(sum(total_tokens), 0)::bigint as tokens, coalesce(sum(nanos), 0)::bigint as nanos
       from @memory_usage where day = $1 and purpose = 'extract'";
    let day = at.div_euclid(DAY);
    let row = server.row(DOING, text, &[(&day, Type::INT8)]).await?;
    let row = row.ok_or_else(|| damaged("the memory has no usage"))?;
    let count = |name: &str| get::<i64>(&row, name).map(|it| u64::try_from(it).unwrap_or(0));
    Ok(CallCost { tokens: count("tokens")?, nanos: count("nanos")? })
}
