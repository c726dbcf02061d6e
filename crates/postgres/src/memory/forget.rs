//! Forgetting: texts, words and vectors go in one transaction, and a tombstone stays.
//!
//! It must never delete a turn of the ledger.

use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};
use crate::memory::chunks;
use crate::queue::transaction::Transaction;
use crate::rows::turn_read::get;
use model::{ForgetOptions, MemoryForgotten};

/// The ids that a statement finds.
async fn ids(
    transaction: &Transaction<'_>,
    text: &str,
    params: &[Param<'_>],
) -> Result<Vec<String>, Failure> {
    let rows = transaction.rows(text, params).await?;
    Ok(rows.iter().map(|row| get(row, "id")).collect::<Stored<_>>()?)
}

/// Forgets what the options name. What is not there was forgotten already. `scopes` are the numbers of its scopes.
pub(crate) async fn forget(
    transaction: &Transaction<'_>,
    options: &ForgetOptions,
    scopes: &Option<Vec<i64>>,
) -> Result<MemoryForgotten, Failure> {
    chunks::lock(transaction).await?;
    let mut turns: Vec<String> = options.turn_id.iter().cloned().collect();
    let mut facts = Vec::new();
    if options.id.is_some() || options.entity.is_some() {
        let text = "select id from @memory_facts where ($3::bigint[] is null or scope = any($3))
           and case when $2::text is null then id = $1 else lower(entity) = lower($2) end";
        let of: [Param<'_>; 3] =
            [(&options.id, Type::TEXT), (&options.entity, Type::TEXT), (scopes, Type::INT8_ARRAY)];
        facts = ids(transaction, text, &of).await?;
    }
    if let Some(session) = &options.session {
        let of: [Param<'_>; 1] = [(session, Type::TEXT)];
        // Also those that run: what they say is not indexed when they end.
        let of_session = "select id from @turns where session_label = $1 and turn_type = 'normal'";
        turns = ids(transaction, of_session, &of).await?;
        let of_scope = "select f.id from @memory_facts f join @memory_scopes s on s.n = f.scope where s.kind = 'session' and s.id = $1";
        facts = ids(transaction, of_scope, &of).await?;
    }
    let of: [Param<'_>; 1] = [(&turns, Type::TEXT_ARRAY)];
    facts.extend(
        ids(transaction, "select id from @memory_facts where turn_id = any($1)", &of).await?,
    );
    facts.sort_unstable();
    facts.dedup();
    // The compactions after the turns, in their threads and in the sessions that were forked from these: their summaries may quote them.
    let quoting = "with recursive below (id, turn_type) as (
         select unnest($1::text[]) collate \"C\", null collate \"C\" union
         select t.id, t.turn_type from below b join @turns t on t.parent_turn_id = b.id)
       select id from below where turn_type = 'compaction' and id <> all($1) order by id";
    let summaries = ids(transaction, quoting, &of).await?;
    let all: Vec<&str> = turns.iter().chain(&summaries).map(String::as_str).collect();
    let now = transaction.clock.now_ms();
    let both: [Param<'_>; 3] =
        [(&facts, Type::TEXT_ARRAY), (&all, Type::TEXT_ARRAY), (&now, Type::INT8)];
    let text = "with facts as (delete from @memory_facts where id = any($1)),
       pending as (delete from @memory_pending where turn_id = any($2)),
       indexed as (delete from @memory_turns where turn_id = any($2)),
       extracted as (delete from @memory_extractions where turn_id = any($2)),
       stones as (
         insert into @memory_forgotten (kind, id, forgotten_at)
         select 'fact', id, $3::bigint from unnest($1::text[]) id union all select 'turn', id, $3::bigint from unnest($2::text[]) id
         on conflict do nothing)
       delete from @memory_chunks where fact_id = any($1) or turn_id = any($2)";
    let deleted = transaction.exec(text, &both).await?;
    if deleted > 0 {
        chunks::deleted(transaction).await?;
    }
    Ok(MemoryForgotten {
        turns: turns.len() as u64,
        facts: facts.len() as u64,
        chunks: deleted,
        summaries,
        // Rows that are gone stay on the server's disk until it vacuums.
        overwritten: false,
    })
}

/// Whether a fact was forgotten.
pub(crate) async fn is_forgotten(server: &Server, id: &str) -> Stored<bool> {
    let text = "select from @memory_forgotten where kind = 'fact' and id = $1";
    Ok(server.row("forget", text, &[(&id, Type::TEXT)]).await?.is_some())
}
