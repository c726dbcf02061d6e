//! The reader of SQLite's file format: it finds the rows that SQLite has written, and does not panic on any bytes.

use proptest::prelude::*;
use rusqlite::types::Value as Sql;

use crate::salvage::cells::{self, Found, Value};
use crate::salvage::pages::Pages;

/// Every row of a table page of the file.
fn read(path: &std::path::Path) -> Vec<(Option<i64>, Vec<Value>)> {
    let mut pages = Pages::open(path).unwrap();
    let mut found = Vec::new();
    for number in 1..=pages.count {
        if let Found::Rows(rows, lost) = cells::rows(&mut pages, number).unwrap() {
            assert_eq!(lost, 0, "page {number}");
            found.extend(rows.into_iter().filter(|(number, _)| number.is_some()));
        }
    }
    found
}

fn value() -> impl Strategy<Value = Sql> {
    prop_oneof![
        Just(Sql::Null),
        any::<i64>().prop_map(Sql::Integer),
        (-200_i64..200).prop_map(Sql::Integer),
        (-1e6..1e6_f64).prop_map(Sql::Real),
        ".{0,40}".prop_map(Sql::Text),
        (0_usize..30_000).prop_map(|length| Sql::Text("ü".repeat(length))),
        (0_usize..30_000).prop_map(|length| Sql::Blob(vec![0xfe; length])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_rows_are_those_that_sqlite_wrote(
        rows in prop::collection::vec(prop::collection::vec(value(), 4), 1..40),
        in_log in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        #[expect(clippy::disallowed_methods, reason = "a file of the test's own")]
        let connection = rusqlite::Connection::open(&path).unwrap();
        let mode = if in_log { "WAL" } else { "DELETE" };
        connection.query_row(&format!("PRAGMA journal_mode = {mode}"), (), |_| Ok(())).unwrap();
        connection.execute_batch("CREATE TABLE t (a, b, c, d)").unwrap();
        for row in &rows {
            connection
                .execute("INSERT INTO t VALUES (?1, ?2, ?3, ?4)", rusqlite::params_from_iter(row))
                .unwrap();
        }
        // In WAL mode the rows are still in the log only, because the connection is open.
        let mut found: Vec<_> =
            read(&path).into_iter().filter(|(_, values)| values.len() == 4).collect();
        drop(connection);
        found.sort_by_key(|(number, _)| *number);
        let found: Vec<Vec<Value>> = found.into_iter().map(|(_, values)| values).collect();
        let wanted: Vec<Vec<Value>> = rows
            .into_iter()
            .map(|row| {
                row.into_iter()
                    .map(|value| match value {
                        Sql::Null => Value::Null,
                        Sql::Integer(value) => Value::Integer(value),
                        Sql::Real(value) => Value::Real(value),
                        Sql::Text(value) => Value::Text(value),
                        Sql::Blob(value) => Value::Blob(value),
                    })
                    .collect()
            })
            .collect();
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn any_bytes_can_be_read(
        bytes in prop::collection::vec(any::<u8>(), 0..12_000),
        log in prop::collection::vec(any::<u8>(), 0..6_000),
        kind in prop::sample::select(vec![2_u8, 10, 13]),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.db");
        let mut bytes = bytes;
        for at in (4096..bytes.len()).step_by(4096) {
            bytes[at] = kind;
        }
        std::fs::write(&path, &bytes).unwrap();
        std::fs::write(folder.path().join("a.db-wal"), &log).unwrap();
        let (_, pages, _) = super::scan(&path).unwrap();
        prop_assert_eq!(pages, bytes.len().div_ceil(4096) as u64);
    }
}
