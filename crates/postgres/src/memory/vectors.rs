//! The rows of `memory_models`, `memory_vectors` and `memory_skipped`: which chunks have no vector yet, and what became of them.
//!
//! It must never compare vectors of two models.

use memory::vectors::vector::to_bytes;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored, damaged};
use crate::connect::server::{Param, Server};
use crate::memory::chunks;
use crate::queue::transaction::Transaction;
use crate::rows::turn_read::get;
use model::{EmbeddedChunk, EmbeddingCost, UnembeddedChunk};

/// The number of a model, which is stored if it is new.
pub(crate) async fn model(
    transaction: &Transaction<'_>,
    name: &str,
    dimensions: u32,
) -> Result<i64, Failure> {
    chunks::lock(transaction).await?;
    let dimensions = i32::try_from(dimensions).unwrap_or(i32::MAX);
    let of: [Param<'_>; 2] = [(&name, Type::TEXT), (&dimensions, Type::INT4)];
    let add =
        "insert into @memory_models (name, dimensions) values ($1, $2) on conflict do nothing";
    transaction.exec(add, &of).await?;
    let known = "select n from @memory_models where name = $1 and dimensions = $2";
    let row = transaction.row(known, &of).await?;
    Ok(get(&row.ok_or_else(|| damaged("a model of the memory has no number"))?, "n")?)
}

/// The next chunks without a vector of the model.
pub(crate) async fn unembedded(
    server: &Server,
    model: i64,
    limit: usize,
) -> Stored<Vec<UnembeddedChunk>> {
    let text = "select n, text from @memory_chunks
       where n > (select embedded_through from @memory_models where n = $1) order by n limit $2";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let of: [Param<'_>; 2] = [(&model, Type::INT8), (&limit, Type::INT8)];
    let rows = server.rows("read chunks of the memory without a vector", text, &of).await?;
    let chunk = |row| Ok(UnembeddedChunk { n: get(row, "n")?, text: get(row, "text")? });
    rows.iter().map(chunk).collect()
}

/// Deletes all vectors. Every chunk is embedded anew.
pub(crate) async fn delete_all(transaction: &Transaction<'_>) -> Result<(), Failure> {
    for change in [
        "delete from @memory_vectors",
        "delete from @memory_skipped",
        "update @memory_models set embedded_through = 0",
    ] {
        transaction.exec(change, &[]).await?;
    }
    chunks::deleted(transaction).await
}

/// Deletes the vectors of other models, once each chunk was embedded with this one. An engine that still embeds with another one makes its
/// vectors anew.
pub(crate) async fn delete_former(
    transaction: &Transaction<'_>,
    model: i64,
) -> Result<(), Failure> {
    let of: [Param<'_>; 1] = [(&model, Type::INT8)];
    let left = "select from @memory_chunks where n > (select embedded_through from @memory_models where n = $1) limit 1";
    if transaction.row(left, &of).await?.is_some() {
        return Ok(());
    }
    for change in [
        "delete from @memory_vectors where model <> $1",
        "delete from @memory_skipped where model <> $1",
        "update @memory_models set embedded_through = 0 where n <> $1",
    ] {
        transaction.exec(change, &of).await?;
    }
    chunks::deleted(transaction).await
}

/// Stores what became of chunks, and moves the cursor behind them.
pub(crate) async fn embedded(
    transaction: &Transaction<'_>,
    model: i64,
    chunks: &[(i64, EmbeddedChunk)],
    cost: EmbeddingCost,
) -> Result<(), Failure> {
    chunks::lock(transaction).await?;
    // Twice, the cost of the vectors would be counted twice.
    if transaction.has_committed().await? {
        return Ok(());
    }
    let (mut ids, mut vectors): (Vec<i64>, Vec<Vec<u8>>) = Default::default();
    let (mut skipped, mut problems): (Vec<i64>, Vec<&str>) = Default::default();
    for (n, outcome) in chunks {
        match outcome {
            EmbeddedChunk::Vector(vector) => {
                ids.push(*n);
                vectors.push(to_bytes(vector));
            }
            EmbeddedChunk::Skipped(problem) => {
                skipped.push(*n);
                problems.push(problem);
            }
        }
    }
    // A chunk that is gone is left out.
    let text = "with vectors as (
         insert into @memory_vectors (model, chunk, vector)
         select $1, c.n, v.vector from unnest($2::int8[], $3::bytea[]) as v (n, vector) join @memory_chunks c on c.n = v.n
         order by c.n on conflict do nothing),
       skips as (
         insert into @memory_skipped (chunk, model, problem)
         select c.n, $1, s.problem from unnest($4::int8[], $5::text[]) as s (n, problem) join @memory_chunks c on c.n = s.n
         on conflict (chunk, model) do update set problem = excluded.problem)
       update @memory_models set embedded_through = greatest(embedded_through, $6), tokens = tokens + $7, nanos = nanos + $8,
         unpriced_tokens = unpriced_tokens + $9 where n = $1";
    let through = chunks.last().map_or(0, |(n, _)| *n);
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let (tokens, nanos) = (number(cost.tokens), number(cost.nanos.unwrap_or_default()));
    let unpriced = if cost.nanos.is_some() { 0 } else { tokens };
    let params: [Param<'_>; 9] = [
        (&model, Type::INT8),
        (&ids, Type::INT8_ARRAY),
        (&vectors, Type::BYTEA_ARRAY),
        (&skipped, Type::INT8_ARRAY),
        (&problems, Type::TEXT_ARRAY),
        (&through, Type::INT8),
        (&tokens, Type::INT8),
        (&nanos, Type::INT8),
        (&unpriced, Type::INT8),
    ];
    transaction.exec(text, &params).await.map(drop)
}
