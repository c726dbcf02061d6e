//! The codes of a ledger's vectors in this process: read once, then only what is new.
//!
//! A deletion in any process raises the generation, and what is gone is dropped at the next search. It must never answer a search by
//! itself: candidates are ranked by their stored vectors.

use std::collections::HashSet;

use memory::vectors::codes::Codes;
use memory::vectors::vector::read_bytes;
use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::{Param, Server};
use crate::connect::worker::cut_off;
use crate::memory::code_cache::{Label, ModelCodes};
use crate::rows::turn_read::get;

/// Vectors that are read at once.
const PAGE: i64 = 1_000;
const READING: &str = "read vectors of the memory";

/// The chunks of the vectors that are probably the closest, the closest first.
pub(crate) async fn closest(
    server: &Server,
    (model, query): (i64, &[f32]),
    most: usize,
    accepts: impl Fn(&Label) -> bool + Send + 'static,
) -> Stored<Vec<i64>> {
    let mut models = server.codes.0.lock().await;
    let mut held = models.remove(&model).unwrap_or_else(|| ModelCodes {
        codes: Codes::new(query.len()),
        last: 0,
        generation: 0,
    });
    if held.codes.dimensions() != query.len() {
        models.insert(model, held);
        return Ok(Vec::new());
    }
    if let Err(error) = refresh(&mut held, server, model).await {
        models.insert(model, held);
        return Err(error);
    }
    let query = query.to_vec();
    // All codes are compared: on another thread, because this one has the heartbeats and the commits.
    let compare = move || {
        let found = held.codes.closest(query, most, accepts);
        let found = found.into_iter().map(|label| label.chunk).collect();
        (held, found)
    };
    let compared = tokio::task::spawn_blocking(compare).await;
    // After a panic the codes are read again.
    let (held, found) = compared.map_err(|_| cut_off())?;
    models.insert(model, held);
    Ok(found)
}

/// Drops what is gone, and reads what is new.
async fn refresh(held: &mut ModelCodes, server: &Server, model: i64) -> Stored<()> {
    let of: [Param<'_>; 1] = [(&model, Type::INT8)];
    let row = server.row(READING, "select generation from @memory_state", &[]).await?;
    let generation = row.map_or(Ok(0), |row| get(&row, "generation"))?;
    if generation > held.generation {
        let all = server.rows(READING, "select n from @memory_vectors where model = $1", &of);
        let left: HashSet<i64> =
            all.await?.iter().map(|row| get(row, "n")).collect::<Stored<_>>()?;
        held.codes.retain(|label| left.contains(&label.n));
        held.generation = generation;
    }
    let text = "select v.n, v.chunk, v.vector, c.scope, c.kind, c.created_at from @memory_vectors v
       join @memory_chunks c on c.n = v.chunk where v.model = $1 and v.n > $2 order by v.n limit $3";
    let mut vector = vec![0.0; held.codes.dimensions()];
    loop {
        let of: [Param<'_>; 3] =
            [(&model, Type::INT8), (&held.last, Type::INT8), (&PAGE, Type::INT8)];
        let rows = server.rows(READING, text, &of).await?;
        for row in &rows {
            held.last = get(row, "n")?;
            if !read_bytes(get(row, "vector")?, &mut vector) {
                continue;
            }
            let kind = match get::<&str>(row, "kind")? {
                "turn" => "turn",
                "fact" => "fact",
                _ => "summary",
            };
            let label = Label {
                n: held.last,
                chunk: get(row, "chunk")?,
                scope: get(row, "scope")?,
                kind,
                created_at: get(row, "created_at")?,
            };
            held.codes.push(&mut vector, label);
        }
        if i64::try_from(rows.len()).is_ok_and(|read| read < PAGE) {
            return Ok(());
        }
    }
}
