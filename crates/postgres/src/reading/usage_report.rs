//! The usage of turns, summed by turn, by session, by agent, by model, by day or by a key of metadata.
//!
//! The groups come in the order of an index of their key, so that a page reads its own groups only. It must never count an
//! unknown price as 0.

use std::collections::BTreeMap;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::{Param, Server};
use crate::reading::filters::{metadata_of, no_cursor};
use crate::rows::turn_read::get;
use model::{Page, TokenUsage, UsageBy, UsageFilter, UsageRow};

const DOING: &str = "add up the ledger's usage";

/// The sums of a group.
const SUMS: &str = "count(*) filter (where t.turn_type = 'normal') as turns,
    count(*) filter (where t.turn_type = 'normal' and t.usage_estimated) as estimated,
    sum(t.cost) filter (where t.turn_type = 'normal') as cost,
    count(*) filter (where t.turn_type = 'normal' and t.cost is null) as unpriced,
    count(*) filter (where t.turn_type <> 'normal') as compactions,
    sum(t.cost) filter (where t.turn_type <> 'normal') as compaction_cost,
    array[coalesce(sum(t.input_tokens) filter (where t.turn_type = 'normal'), 0),
      coalesce(sum(t.output_tokens) filter (where t.turn_type = 'normal'), 0),
      coalesce(sum(t.cached_input_tokens) filter (where t.turn_type = 'normal'), 0),
      coalesce(sum(t.cache_write_tokens) filter (where t.turn_type = 'normal'), 0),
      coalesce(sum(t.reasoning_tokens) filter (where t.turn_type = 'normal'), 0),
      coalesce(sum(t.total_tokens) filter (where t.turn_type = 'normal'), 0),
      coalesce(sum(t.input_tokens) filter (where t.turn_type <> 'normal'), 0),
      coalesce(sum(t.output_tokens) filter (where t.turn_type <> 'normal'), 0),
      coalesce(sum(t.cached_input_tokens) filter (where t.turn_type <> 'normal'), 0),
      coalesce(sum(t.cache_write_tokens) filter (where t.turn_type <> 'normal'), 0),
      coalesce(sum(t.reasoning_tokens) filter (where t.turn_type <> 'normal'), 0),
      coalesce(sum(t.total_tokens) filter (where t.turn_type <> 'normal'), 0)]::int8[] as tokens,
    0::bigint as memory_calls";

/// The same columns of a group of calls of the memory.
const MEMORY_SUMS: &str = "0::bigint, 0::bigint, case when sum(m.calls) > sum(m.unpriced_calls) then sum(m.nanos)::float8 / 1e9 end,
    0::bigint, 0::bigint, null::float8,
    array[sum(m.input_tokens), sum(m.output_tokens), sum(m.cached_input_tokens), sum(m.cache_write_tokens),
      sum(m.reasoning_tokens), sum(m.total_tokens)]::int8[], sum(m.calls)::bigint";

/// The usage that `filter` selects, by its keys.
///
/// # Errors
/// `invalid_query` if `after` is not a key.
pub(crate) async fn usage(server: &Server, filter: &UsageFilter) -> Stored<Page<UsageRow>> {
    let after = filter.after.as_deref().unwrap_or_default();
    let mut second = String::new();
    let mut first = after.to_owned();
    let mut day: i64 =
        filter.since.map_or(i64::MIN, |since| since.div_euclid(DAY).saturating_sub(1));
    // The key as a text, what follows the last one, and the order of the groups: of turns, and of calls of the memory.
    let ((key, follows, group), of_memory) = match &filter.by {
        UsageBy::Turn => (("t.id", "t.id > $7", "t.id"), None),
        UsageBy::Session => {
            let key = "m.session_label";
            (
                ("t.session_label", "t.session_label > $7", "t.session_label"),
                Some((key, "m.session_label > $7", key)),
            )
        }
        UsageBy::Agent => {
            let of = ("s.agent_id", "s.agent_id > $7", "s.agent_id");
            (of, Some(of))
        }
        UsageBy::Model => {
            if filter.after.is_some() {
                (first, second) = model_key(server, after).await?;
            }
            (
                (
                    "t.provider || '/' || t.model",
                    "(t.provider, t.model) > ($7, $8)",
                    "t.provider, t.model",
                ),
                Some((
                    "m.provider || '/' || m.model",
                    "(m.provider, m.model) > ($7, $8)",
                    "m.provider, m.model",
                )),
            )
        }
        UsageBy::Day => {
            if filter.after.is_some() {
                day = day_key(server, after).await?;
            }
            (
                (
                    "to_char(timestamp 'epoch' + (t.started_at / 86400000) * interval '1 day', 'YYYY-MM-DD')",
                    "(t.started_at / 86400000) > $9",
                    "(t.started_at / 86400000)",
                ),
                Some((
                    "to_char(timestamp 'epoch' + m.day * interval '1 day', 'YYYY-MM-DD')",
                    "m.day > $9",
                    "m.day",
                )),
            )
        }
        UsageBy::Metadata(of) => {
            second = of.as_str().to_owned();
            (
                (
                    "(t.metadata -> $8)::text",
                    "t.metadata is not null and t.metadata ? $8 and (t.metadata -> $8)::text collate \"C\" > $7",
                    "(t.metadata -> $8)::text collate \"C\"",
                ),
                None,
            )
        }
    };
    let from = match &filter.by {
        UsageBy::Agent => "@sessions s join @turns t on t.session_label = s.label",
        _ => "@turns t",
    };
    // Names of models are compared one after the other.
    let sorted = |key: &'static str, model: [&'static str; 2]| match filter.by {
        UsageBy::Model => model,
        _ => [key, "''"],
    };
    let [first_sorted, second_sorted] = sorted(key, ["t.provider", "t.model"]);
    // A call of the memory has no metadata.
    let more = of_memory.filter(|_| filter.metadata.is_none()).map(|(key, follows, group)| {
        let from = match &filter.by {
            UsageBy::Agent => "@sessions s join @memory_usage m on m.session_label = s.label",
            _ => "@memory_usage m",
        };
        let [first_sorted, second_sorted] = sorted(key, ["m.provider", "m.model"]);
        format!(
            " union all (select min({key}), min({first_sorted}), min({second_sorted}), {MEMORY_SUMS} from {from}
             where {follows} and ($1::text is null or m.session_label = $1)
               and ($2::text is null or m.session_label in (select label from @sessions where agent_id = $2))
               and ($3::text is null or m.provider = $3) and ($4::text is null or m.model = $4)
               and ($5::bigint is null or (m.day + 1) * 86400000 > $5) and ($6::bigint is null or m.day * 86400000 < $6)
             group by {group} order by {group} limit $11)"
        )
    });
    let more = more.unwrap_or_default();
    let text = format!(
        "(select min({key}) as key, min({first_sorted}) as first, min({second_sorted}) as second, {SUMS} from {from} where {follows} and t.status <> 'streaming'
           and ($1::text is null or t.session_label = $1)
           and ($2::text is null or t.session_label in (select label from @sessions where agent_id = $2))
           and ($3::text is null or t.provider = $3) and ($4::text is null or t.model = $4)
           and ($5::bigint is null or t.started_at >= $5) and ($6::bigint is null or t.started_at < $6)
           and ($7::text is not null and $8::text is not null and $9::bigint is not null)
           and ($10::text is null or t.metadata @> $10::jsonb)
         group by {group} order by {group} limit $11){more}"
    );
    let metadata = filter.metadata.as_ref().map(metadata_of);
    let limit = filter.limit.and_one();
    let params: [Param<'_>; 11] = [
        (&filter.session_label, Type::TEXT),
        (&filter.agent_id, Type::TEXT),
        (&filter.provider, Type::TEXT),
        (&filter.model, Type::TEXT),
        (&filter.since, Type::INT8),
        (&filter.until, Type::INT8),
        (&first, Type::TEXT),
        (&second, Type::TEXT),
        (&day, Type::INT8),
        (&metadata, Type::TEXT),
        (&limit, Type::INT8),
    ];
    let rows = server.rows(DOING, &text, &params).await?;
    let is_json = matches!(filter.by, UsageBy::Metadata(_));
    let mut found: BTreeMap<(String, String), (String, UsageRow)> = BTreeMap::new();
    for row in &rows {
        let key: String = get(row, "key")?;
        let (_, of_key) = found
            .entry((get(row, "first")?, get(row, "second")?))
            .or_insert_with(|| (key.clone(), UsageRow::default()));
        if get::<i64>(row, "memory_calls")? > 0 {
            let tokens: Vec<i64> = get(row, "tokens")?;
            of_key.memory_calls = get::<i64>(row, "memory_calls")?.cast_unsigned();
            of_key.memory_usage = token_usage(&tokens);
            of_key.memory_cost = get(row, "cost")?;
        } else {
            let UsageRow { memory_calls, memory_usage, memory_cost, .. } = *of_key;
            let of_turns = usage_row(String::new(), row)?;
            *of_key = UsageRow { memory_calls, memory_usage, memory_cost, ..of_turns };
        }
        // A text is shown as it is.
        let text = is_json.then(|| serde_json::from_str::<String>(&key).ok()).flatten();
        of_key.key = text.unwrap_or(key);
    }
    let first = found.into_values().take(filter.limit.items() + 1).collect();
    Ok(Page::cut(first, filter.limit))
}

/// Milliseconds of a day.
const DAY: i64 = 86_400_000;

fn usage_row(key: String, row: &Row) -> Stored<UsageRow> {
    let tokens: Vec<i64> = get(row, "tokens")?;
    let count = |name: &str| -> Stored<u64> { Ok(get::<i64>(row, name)?.cast_unsigned()) };
    Ok(UsageRow {
        key,
        turns: count("turns")?,
        usage: token_usage(tokens.get(..6).unwrap_or_default()),
        estimated_turns: count("estimated")?,
        cost: get(row, "cost")?,
        unpriced_turns: count("unpriced")?,
        compactions: count("compactions")?,
        compaction_usage: token_usage(tokens.get(6..).unwrap_or_default()),
        compaction_cost: get(row, "compaction_cost")?,
        ..UsageRow::default()
    })
}

/// The tokens of six sums.
pub(crate) fn token_usage(of: &[i64]) -> TokenUsage {
    let at = |index: usize| of.get(index).copied().unwrap_or_default().cast_unsigned();
    TokenUsage {
        input_tokens: at(0),
        output_tokens: at(1),
        cached_input_tokens: at(2),
        cache_write_tokens: at(3),
        reasoning_tokens: at(4),
        total_tokens: at(5),
    }
}

/// The provider and the model of a key. Both names may contain a `/`: the correct split is the one whose pair is in the ledger.
async fn model_key(server: &Server, after: &str) -> Stored<(String, String)> {
    let text = "select 1 from @turns where provider = $1 and model = $2
        union all select 1 from @memory_usage where provider = $1 and model = $2 limit 1";
    for (at, _) in after.match_indices('/') {
        let (Some(provider), Some(model)) = (after.get(..at), after.get(at + 1..)) else {
            continue;
        };
        let params: [Param<'_>; 2] = [(&provider, Type::TEXT), (&model, Type::TEXT)];
        if server.row(DOING, text, &params).await?.is_some() {
            return Ok((provider.to_owned(), model.to_owned()));
        }
    }
    Err(no_cursor("filter.after", after))
}

/// The number of a day.
async fn day_key(server: &Server, after: &str) -> Stored<i64> {
    let numbers: Vec<Option<u32>> = after.split('-').map(|part| part.parse().ok()).collect();
    let is_date =
        matches!(numbers[..], [Some(0..=9_999), Some(1..=12), Some(1..=31)]) && after.len() == 10;
    let text =
        "select (day - date '1970-01-01')::bigint as day from to_date($1, 'YYYY-MM-DD') as day
        where to_char(day, 'YYYY-MM-DD') = $1";
    let row = match is_date {
        true => server.row(DOING, text, &[(&after, Type::TEXT)]).await,
        false => Ok(None),
    };
    match row {
        Ok(Some(row)) => get(&row, "day"),
        // PostgreSQL refuses a 30th of February.
        Ok(None) | Err(_) => Err(no_cursor("filter.after", after)),
    }
}
