//! The checksum of a row: which columns it covers, that any change shows, and that an update hides no damage.

use proptest::prelude::*;
use rusqlite::Connection;
use rusqlite::types::{Value, ValueRef};

use super::super::{TABLES, columns, insert, is_whole, numbered, set};
use super::*;
use crate::sqlite::schema;

fn connection() -> Connection {
    #[expect(clippy::disallowed_methods, reason = "a database in memory")]
    let connection = Connection::open_in_memory().unwrap();
    add(&connection).unwrap();
    connection
}

#[test]
fn every_column_of_the_schema_is_covered_or_checked_otherwise() {
    let connection = connection();
    schema::migrate(&connection, schema::MIGRATIONS).unwrap();
    let mut statement = connection
        .prepare(
            "SELECT t.name, c.name FROM sqlite_schema t, pragma_table_info(t.name) c
             WHERE (t.type = 'table' OR t.name IN ('turns', 'message_values', 'call_values')) AND t.name NOT LIKE 'sqlite_%' AND t.name NOT LIKE 'message_words%' AND t.name NOT LIKE 'memory_words%'
               AND c.name <> 'row_checksum'",
        )
        .unwrap();
    let all: Vec<(String, String)> = statement
        .query_map((), |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert!(all.len() > 150, "{}", all.len());
    let mut left: Vec<String> = all
        .iter()
        .filter(|(table, column)| !columns(table).split(SEPARATOR).any(|it| it == column))
        .map(|(table, column)| format!("{table}.{column}"))
        .collect();
    left.sort();
    let mut elsewhere: Vec<String> = [
        // The name of a blob is the hash of its text.
        "blobs.codec",
        "blobs.data",
        "blobs.hash",
        "blobs.size",
        // An entry ends with a checksum of its row.
        "journal.entry",
        "journal.id",
        "journal.kind",
        "journal.run",
        // Rowids, which an index also contains.
        "deliveries.n",
        "queue_items.n",
        "run_contexts.id",
        "session_commands.id",
        "session_history.id",
        "session_waits.id",
        // The table has one row.
        "schema_meta.id",
        // Not of the ledger's content: one row, which ends its use.
        "moved.id",
        "moved.is_final",
        "moved.place",
        "moved.token",
        // Of one copy.
        "copy_mark.id",
        "copy_mark.mark",
        // What processes share of the limits of a provider: it is of a minute.
        "rate_queues.queue",
        "rate_queues.state",
        "search_progress.id",
        // `verify()` compares them with the children.
        "turns.has_children",
        "turns.first_child",
        "turn_branches.parent_turn_id",
        "turn_branches.id",
        // A rowid, which an index also contains.
        "turns.n",
        // The checksums of the turns that name a text are of the text.
        "strings.id",
        // `verify()` compares them with the turns and the calls.
        "turns_of_days.day",
        "turns_of_days.block",
        "turns_of_models.provider",
        "turns_of_models.model",
        "turns_of_models.block",
        "turns_of_tools.tool_name",
        "turns_of_tools.block",
        // Rowids, whose row has a checksum.
        "memory_chunks.n",
        "memory_facts.n",
        "memory_scopes.n",
        // What the memory has indexed and embedded: no text, and made anew by `reindex`.
        "memory_forgotten.forgotten_at",
        "memory_forgotten.id",
        "memory_forgotten.kind",
        "memory_models.dimensions",
        "memory_models.embedded_through",
        "memory_models.n",
        "memory_models.name",
        "memory_models.nanos",
        "memory_models.tokens",
        "memory_models.unpriced_tokens",
        "memory_pending.turn_id",
        "memory_skipped.chunk",
        "memory_skipped.model",
        "memory_skipped.problem",
        "memory_state.generation",
        "memory_state.id",
        "memory_turns.is_clipped",
        "memory_turns.session_label",
        "memory_turns.turn_id",
        "memory_vectors.chunk",
        "memory_vectors.model",
        "memory_vectors.n",
        "memory_vectors.vector",
        // A wrong row costs one call of a model.
        "memory_extractions.attempts",
        "memory_extractions.is_skipped",
        "memory_extractions.problem",
        "memory_extractions.session_label",
        "memory_extractions.turn_id",
        // A wrong sum costs a report.
        "memory_usage.cache_write_tokens",
        "memory_usage.cached_input_tokens",
        "memory_usage.calls",
        "memory_usage.day",
        "memory_usage.input_tokens",
        "memory_usage.model",
        "memory_usage.nanos",
        "memory_usage.output_tokens",
        "memory_usage.provider",
        "memory_usage.purpose",
        "memory_usage.reasoning_tokens",
        "memory_usage.session_label",
        "memory_usage.total_tokens",
        "memory_usage.unpriced_calls",
        // Times of the owner's heartbeat, which no reader receives.
        "deliveries.expires_at",
        "deliveries.heartbeat_at",
        "session_leases.expires_at",
        "session_leases.heartbeat_at",
    ]
    .map(ToOwned::to_owned)
    .into();
    // The columns that `message_values.checksum` covers.
    for column in [
        "api",
        "blocks_json",
        "content",
        "is_error",
        "model",
        "provider",
        "response_id",
        "role",
        "stop_reason",
        "thinking",
        "tool_call_id",
    ] {
        elsewhere.push(format!("message_values.{column}"));
    }
    // The values of the views are made of them alone: see `any_changed_value_of_a_narrow_row_is_reported`.
    let narrow = ["turn_rows", "message_rows", "call_rows"];
    let narrow = all.iter().filter(|(table, _)| narrow.contains(&table.as_str()));
    elsewhere.extend(narrow.map(|(table, column)| format!("{table}.{column}")));
    elsewhere.sort();
    assert_eq!(left, elsewhere);
    for table in &TABLES {
        for column in table.columns.split(SEPARATOR) {
            let known = all.iter().any(|(of, name)| of == table.name && name == column);
            assert!(known, "{}.{column}", table.name);
        }
    }
}

#[test]
fn a_function_that_is_given_too_few_values_is_an_error() {
    let connection = connection();
    for sql in [
        "SELECT checksum_of()",
        "SELECT checksum_of('a, b', 1)",
        "SELECT checksum_of('a', 1, 2)",
        "SELECT checksum_after(1, 'a', 1)",
        "SELECT checksum_after(1)",
        "SELECT checksum_of(1, 2)",
    ] {
        assert!(connection.query_row(sql, (), |_| Ok(())).is_err(), "{sql}");
    }
    let none: Option<i64> = connection
        .query_row("SELECT checksum_after(NULL, 'a', 1, 2)", (), |row| row.get(0))
        .unwrap();
    assert_eq!(none, None, "a row that lost its checksum does not get one by an update");
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::Integer),
        (-3_i64..3).prop_map(Value::Integer),
        prop::num::f64::NORMAL.prop_map(Value::Real),
        ".{0,12}".prop_map(Value::Text),
        prop::collection::vec(any::<u8>(), 0..12).prop_map(Value::Blob),
    ]
}

proptest! {
    #[test]
    fn updates_give_the_checksum_of_the_stored_rows(
        steps in prop::collection::vec((0..3_usize, value()), 1..8),
        damage in prop::option::of((0..8_usize, 0..3_usize, value())),
    ) {
        let connection = connection();
        // The columns of the schema's table, without types.
        let names = ["ledger_id", "created_at", "engine_version"];
        let columns = names.join(", ");
        connection.execute_batch(&format!("CREATE TABLE schema_meta ({columns}, row_checksum)")).unwrap();
        connection.execute(&insert("schema_meta", &numbered(&columns)), (1, "two", 3.5)).unwrap();
        let whole = || -> bool {
            connection
                .query_row(&format!("SELECT {} FROM schema_meta", is_whole("schema_meta", "schema_meta")), (), |row| row.get(0))
                .unwrap()
        };
        prop_assert!(whole());
        let mut damaged = None;
        for (number, (column, value)) in steps.into_iter().enumerate() {
            if let Some((at, column, value)) = &damage && *at == number {
                let name = names[*column];
                let before: Value = connection
                    .query_row(&format!("SELECT {name} FROM schema_meta"), (), |row| row.get(0))
                    .unwrap();
                connection.execute(&format!("UPDATE schema_meta SET {name} = ?1"), (value,)).unwrap();
                if ValueRef::from(&before) != ValueRef::from(value) {
                    damaged = Some(*column);
                }
            }
            connection.execute(&format!("UPDATE schema_meta SET {}", set(&[(names[column], "?1")])), (value,)).unwrap();
            // A damaged row stays damaged, also after an update of the damaged column.
            prop_assert_eq!(whole(), damaged.is_none());
        }
    }
}

#[test]
fn a_value_of_another_column_or_type_adds_something_else() {
    let values = [
        ValueRef::Integer(1),
        ValueRef::Real(1.5),
        ValueRef::Text(b"1"),
        ValueRef::Blob(b"1"),
        ValueRef::Text(b""),
        ValueRef::Blob(b""),
    ];
    let mut sums: Vec<i64> =
        values.iter().flat_map(|value| ["a", "b"].map(|name| column(name, *value))).collect();
    sums.sort_unstable();
    sums.dedup();
    assert_eq!(sums.len(), 2 * values.len());
    assert_eq!(column("a", ValueRef::Null), 0);
    // SQLite stores such integers in a column of reals.
    assert_eq!(column("a", ValueRef::Real(2.0)), column("a", ValueRef::Integer(2)));
    assert_eq!(column("a", ValueRef::Real(-0.0)), column("a", ValueRef::Real(0.0)));
}

/// Every file of the crate that is not a test.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(path) = open.pop() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            open.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if name.ends_with(".rs") && name != "tests.rs" {
            found.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

#[test]
fn every_statement_that_writes_a_row_writes_its_checksum() {
    // They change columns that no checksum covers.
    let allowed = [
        "UPDATE turns SET has_children = ",
        // It is found by its checksum, which is computed for that.
        "INSERT INTO strings (id, text, row_checksum)",
        "UPDATE search_progress SET indexed_through = 0",
        "UPDATE deliveries SET expires_at = ?4, heartbeat_at = ?5",
        "UPDATE session_leases SET expires_at = ?4, heartbeat_at = ?5",
    ];
    let mut bad = Vec::new();
    let mut seen = 0;
    for (name, text) in sources() {
        for table in &TABLES {
            let table = table.name;
            for begins in [
                format!("INSERT INTO {table} ("),
                format!("INSERT OR REPLACE INTO {table} ("),
                format!("UPDATE {table} SET "),
            ] {
                for (at, _) in text.match_indices(&begins) {
                    seen += 1;
                    let statement = text[at..].split('"').next().unwrap();
                    let built = statement[begins.len()..].starts_with('{');
                    let sealed = statement.contains("row_checksum");
                    if !built && !sealed && !allowed.iter().any(|it| statement.starts_with(it)) {
                        bad.push(format!("{name}: {statement}"));
                    }
                }
            }
        }
    }
    assert!(seen > 15, "{seen}");
    assert!(bad.is_empty(), "use the statements of `checksum`: {bad:#?}");
}
