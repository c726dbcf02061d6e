//! The codes of a ledger's vectors in this process: read once, then only what is new.
//!
//! A deletion in any process raises the generation, and what is gone is dropped at the next search. It must never answer a search by
//! itself: candidates are ranked by their stored vectors.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use rusqlite::Connection;

use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use memory::vectors::codes::Codes;
use memory::vectors::vector::read_bytes;

pub(crate) const GENERATION: &str = "SELECT generation FROM memory_state WHERE id = 1";
pub(crate) const DIMENSIONS: &str = "SELECT dimensions FROM memory_models WHERE n = ?1";
/// The vectors after the last one that is known. The unary plus leaves the order to the primary key.
pub(crate) const NEW: &str = "SELECT v.n, v.chunk, v.vector, c.scope, c.kind, c.created_at
     FROM memory_vectors v CROSS JOIN memory_chunks c ON c.n = v.chunk WHERE v.n > ?2 AND +v.model = ?1 ORDER BY v.n";
const ALL: &str = "SELECT n FROM memory_vectors WHERE +model = ?1";
const DOING: &str = "read the vectors of the memory";

/// What a search knows of a vector.
#[derive(Debug, Clone, Copy)]
pub(crate) struct VectorLabel {
    pub(crate) n: i64,
    pub(crate) chunk: i64,
    pub(crate) scope: i64,
    /// The bit of its kind.
    pub(crate) kind: u8,
    pub(crate) created_at: i64,
}

/// The codes of one model.
struct ModelCodes {
    codes: Codes<VectorLabel>,
    last: i64,
    generation: i64,
}

/// The codes of all models that were searched.
#[derive(Default)]
pub(crate) struct CodeCache {
    models: Mutex<HashMap<i64, Arc<RwLock<ModelCodes>>>>,
}

/// The bit of a kind.
pub(crate) fn kind_bit(kind: &str) -> u8 {
    match kind {
        "turn" => 1,
        "fact" => 2,
        _ => 4,
    }
}

impl CodeCache {
    /// The labels of the closest vectors, the closest first.
    pub(crate) fn closest(
        &self,
        connection: &Connection,
        (model, query): (i64, &[f32]),
        most: usize,
        accepts: impl Fn(&VectorLabel) -> bool,
    ) -> Stored<Vec<VectorLabel>> {
        let Some(dimensions) = sql::optional::<u32>(connection, DIMENSIONS, (model,), DOING)?
        else {
            return Ok(Vec::new());
        };
        let dimensions = usize::try_from(dimensions).unwrap_or_default();
        let entry = {
            let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(models.entry(model).or_insert_with(|| {
                let codes = Codes::new(dimensions);
                Arc::new(RwLock::new(ModelCodes { codes, last: 0, generation: 0 }))
            }))
        };
        {
            let mut held = entry.write().unwrap_or_else(PoisonError::into_inner);
            held.refresh(connection, model)?;
        }
        let held = entry.read().unwrap_or_else(PoisonError::into_inner);
        Ok(held.codes.closest(query.to_vec(), most, accepts).into_iter().copied().collect())
    }
}

impl ModelCodes {
    /// Drops what is gone, and reads what is new.
    fn refresh(&mut self, connection: &Connection, model: i64) -> Stored<()> {
        let generation: i64 = sql::one(connection, GENERATION, (), DOING)?;
        // A search that began before a deletion does not know the vectors that came after it.
        if generation > self.generation {
            let left: Vec<i64> = sql::all(connection, ALL, (model,), DOING)?;
            let left: HashSet<i64> = left.into_iter().collect();
            self.codes.retain(|label| left.contains(&label.n));
            self.generation = generation;
        }
        let mut vector = vec![0.0; self.codes.dimensions()];
        let (codes, last) = (&mut self.codes, &mut self.last);
        sql::each(connection, NEW, (model, *last), DOING, |fields| {
            let (n, chunk): (i64, i64) = fields.next()?;
            let bytes: &[u8] = fields.next()?;
            let whole = read_bytes(bytes, &mut vector);
            let scope: i64 = fields.next()?;
            let kind: &str = fields.next()?;
            *last = n;
            if whole {
                let kind = kind_bit(kind);
                let created_at = fields.next()?;
                codes.push(&mut vector, VectorLabel { n, chunk, scope, kind, created_at });
            }
            Ok(ControlFlow::Continue(()))
        })
    }
}
