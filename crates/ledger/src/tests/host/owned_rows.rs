//! Every table of the schema, and what a deletion does with its rows. A new table is in one of the lists, or this fails. It must never
//! read rows.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::sqlite::sql;

/// The sources of what a deletion executes.
const SOURCES: [&str; 4] = [
    include_str!("../../deletion/owned_rows.rs"),
    include_str!("../../deletion/batch.rs"),
    include_str!("../../deletion/sessions.rs"),
    include_str!("../../deletion/overwrite.rs"),
];

/// Deleted by other modules for a deletion.
const ELSEWHERE: [(&str, &str); 19] = [
    ("memory_chunks", "`chunk_rows::delete`"),
    ("memory_extractions", "`extraction_rows::remove`"),
    ("memory_facts", "`forget::of_turn`"),
    ("memory_pending", "`forget::of_turn`"),
    ("memory_skipped", "`chunk_rows::delete`"),
    ("memory_turns", "`forget::of_turn`"),
    ("memory_usage", "`usage_rows::forget`"),
    ("memory_vectors", "`chunk_rows::delete`"),
    ("memory_words", "`chunk_rows::delete`"),
    ("memory_words_config", "of the index itself"),
    ("memory_words_data", "by the index"),
    ("memory_words_docsize", "by the index"),
    ("memory_words_idx", "by the index"),
    ("message_words", "`search_indexer::forget`"),
    ("message_words_config", "of the index itself"),
    ("message_words_data", "by the index"),
    ("message_words_idx", "by the index"),
    ("runs", "`run_rows::remove`"),
    ("session_prompts", "`prompt_files::forget`"),
];

/// Left as they are: they belong to no turn and no session.
const LEFT: [(&str, &str); 17] = [
    ("auth_profile_usage", "keys"),
    ("budget_accounts", "limits: what was spent stays spent"),
    ("budget_reservations", "limits"),
    ("copy_mark", "what a copy knows its target by"),
    ("memory_forgotten", "tombstones"),
    ("memory_models", "models"),
    ("memory_scopes", "names that chunks and facts share"),
    ("memory_state", "the index"),
    ("model_calibration", "models"),
    ("moved", "where the ledger is"),
    ("personas", "agents"),
    ("queue_events", "what was received: the same event is not accepted again"),
    ("rate_queues", "limits"),
    ("schedules", "times: the host ends them by their ids"),
    ("schema_meta", "the file"),
    ("search_progress", "the index"),
    ("sqlite_sequence", "SQLite"),
];

/// Columns that name a turn, a session or a run.
const REFERENCES: [&str; 8] =
    ["turn", "turn_id", "parent_turn_id", "thread_id", "session_label", "run", "run_id", "key"];

#[tokio::test]
async fn every_table_is_deleted_with_its_turn_or_its_session_or_has_a_reason_to_stay() {
    let fixture = Fixture::new();
    let read = |connection: &rusqlite::Connection| {
        let select = "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c
             WHERE m.type = 'table'";
        sql::all::<(String, String)>(connection, select, (), "read the schema")
    };
    let listed = fixture.ledger.core().unwrap().writer.submit(read).await.unwrap();
    let mut tables: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (table, column) in &listed {
        tables.entry(table).or_default().insert(column);
    }
    let mut deleted = BTreeSet::new();
    for source in SOURCES {
        for rest in source.split("DELETE FROM ").skip(1) {
            let end = rest.find(|c: char| !c.is_ascii_lowercase() && c != '_').unwrap();
            deleted.insert(&rest[..end]);
        }
    }
    let decided: BTreeSet<&str> = deleted
        .iter()
        .copied()
        .chain(ELSEWHERE.iter().map(|(table, _)| *table))
        .chain(LEFT.iter().map(|(table, _)| *table))
        .collect();
    assert_eq!(tables.keys().copied().collect::<BTreeSet<_>>(), decided);
    for (table, reason) in LEFT {
        let found: Vec<&&str> =
            REFERENCES.iter().filter(|it| tables[table].contains(*it)).collect();
        assert!(found.is_empty(), "{table} ({reason}): {found:?}");
    }
}
