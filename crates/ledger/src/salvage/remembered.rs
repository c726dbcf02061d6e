//! What a damaged ledger remembers and nothing else has: facts, their scopes, and what was forgotten. Turns are indexed anew from their
//! messages.
//!
//! It must never bring back what was forgotten, and never use a fact that is not as it was written.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use rusqlite::Connection;
use serde_json::value::RawValue;

use super::cells::Value;
use super::row::{Layout, TableRow};
use crate::memory_rows::{fact_rows, forget, pending};
use crate::sqlite::error::Stored;
use memory::assemble::fact_text;
use memory::chunk::{CHUNK_TOKENS, chunks};
use model::{
    FactInput, FactSource, MemoryFact, MemoryScope, MemoryScopeKind, TransferCode, Vectors,
};
use portable::Problems;

/// Before this number of milliseconds no ledger was written: the number of a row is smaller.
const FIRST_TIME: i64 = 100_000_000_000;

/// The rows of the memory that were found.
#[derive(Default)]
pub(super) struct Remembered {
    scopes: HashMap<i64, MemoryScope>,
    /// By their numbers.
    facts: BTreeMap<i64, TableRow>,
    /// The kind and the id of what was forgotten, and when.
    forgotten: BTreeSet<(String, String, i64)>,
    /// The facts that are lost, by id.
    lost: BTreeSet<String>,
}

/// What was saved of the memory.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SavedMemory {
    /// The facts, superseded ones included.
    pub(super) facts: u64,
    /// The turns that are indexed anew.
    pub(super) turns: u64,
}

impl Remembered {
    pub(super) fn is_empty(&self) -> bool {
        self.scopes.is_empty() && self.facts.is_empty() && self.forgotten.is_empty()
    }

    /// Adds a row of a table with rowids whose first column is the rowid; false if it is of another table.
    pub(super) fn take(
        &mut self,
        number: i64,
        values: &Arc<[Value]>,
        (scopes, facts): (&Arc<Layout>, &Arc<Layout>),
    ) -> bool {
        if let [Value::Null, Value::Text(kind), Value::Text(id), Value::Integer(_)] = &**values
            && let Some(kind) = MemoryScopeKind::of_name(kind)
            && TableRow::new(scopes, values).is_whole()
        {
            self.scopes.insert(number, MemoryScope { kind, id: id.clone() });
            return true;
        }
        let row = TableRow::new(facts, values);
        let is_fact = row.is_complete()
            && matches!(
                &**values,
                [
                    Value::Null,
                    Value::Text(_),
                    Value::Text(_),
                    Value::Text(_),
                    Value::Text(_),
                    Value::Integer(_),
                    ..
                ]
            );
        let Some(id) = row.owned("id").filter(|_| is_fact) else { return false };
        if row.is_whole() {
            // Of two copies the one that has ended is the later one.
            let ended = row.integer("valid_to").is_some();
            if ended || !self.facts.contains_key(&number) {
                self.facts.insert(number, row);
            }
        } else {
            self.lost.insert(id);
        }
        true
    }

    /// Adds a row of `memory_forgotten`; false if it is of another table.
    pub(super) fn take_forgotten(&mut self, values: &[Value]) -> bool {
        let [Value::Text(kind), Value::Text(id), Value::Integer(at)] = values else { return false };
        let is_known = matches!(kind.as_str(), "turn" | "fact") && *at >= FIRST_TIME;
        if is_known {
            self.forgotten.insert((kind.clone(), id.clone(), *at));
        }
        is_known
    }

    /// Writes what was found to a ledger that has the turns already.
    pub(super) fn write(
        mut self,
        connection: &Connection,
        problems: &mut Problems,
    ) -> Stored<SavedMemory> {
        if self.is_empty() {
            return Ok(SavedMemory::default());
        }
        for (kind, id, at) in &self.forgotten {
            forget::tombstone(connection, kind, id, *at)?;
        }
        let mut saved = SavedMemory::default();
        for row in std::mem::take(&mut self.facts).into_values() {
            let Some(id) = row.owned("id") else { continue };
            self.lost.remove(&id);
            if forget::is_forgotten(connection, "fact", &id)? {
                continue;
            }
            match self.fact(&row) {
                Some(fact) => {
                    fact_rows::store(connection, &with_texts(fact))?;
                    saved.facts += 1;
                }
                None => {
                    self.lost.insert(id);
                }
            }
        }
        for id in &self.lost {
            let message = format!("fact `{id}` is not as it was written, or its scope is lost");
            problems.add(None, TransferCode::Unreadable, message);
        }
        saved.turns = pending::again(connection, None, Vectors::Stay)?.turns;
        Ok(saved)
    }

    fn fact(&self, row: &TableRow) -> Option<MemoryFact> {
        Some(MemoryFact {
            id: row.owned("id")?,
            entity: row.owned("entity")?,
            r#type: row.owned("fact_type")?,
            content: RawValue::from_string(row.owned("content_json")?).ok()?,
            scope: self.scopes.get(&row.integer("scope")?)?.clone(),
            source: FactSource { turn_id: row.owned("turn_id"), call_id: row.owned("call_id") },
            confidence: row.real("confidence")?,
            valid_from: row.integer("valid_from")?,
            valid_to: row.integer("valid_to"),
            superseded_by: row.owned("superseded_by"),
            created_at: row.integer("created_at")?,
        })
    }
}

/// A fact with the texts that are searched.
fn with_texts(fact: MemoryFact) -> FactInput {
    let text = fact_text(&fact.entity, &fact.r#type, fact.content.get());
    let texts = chunks(&text, CHUNK_TOKENS).into_iter().map(ToOwned::to_owned).collect();
    FactInput { fact, texts, supersedes: None, within: None }
}
