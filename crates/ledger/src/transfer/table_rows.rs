//! The rows of the tables that a copy takes row by row, as texts.

use rusqlite::{Connection, params_from_iter};

use crate::memory_rows::forget;
use crate::sqlite::checksum::insert;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::CopiedTable;

const DOING: &str = "copy the ledger";

/// A page of the rows after the one with this key, or from the first one.
pub(super) fn page(
    connection: &Connection,
    of: CopiedTable,
    after: &[String],
) -> Stored<Vec<Vec<String>>> {
    let (table, names, keys) = of.parts();
    let key = names.get(..keys).unwrap_or_default().join(", ");
    let from = match after {
        [] => String::new(),
        _ => format!(" WHERE ({key}) > ({})", list(keys, |at| format!("?{at}"), ", ")),
    };
    let select = list(names.len(), |at| text(names, at), ", ");
    let select = format!("SELECT {select} FROM {table}{from} ORDER BY {key} LIMIT 1024");
    sql::map(connection, &select, params_from_iter(after), DOING, |fields| {
        names.iter().map(|_| fields.next()).collect()
    })
}

/// Those of the rows that are not there.
pub(super) fn missing(
    connection: &Connection,
    of: CopiedTable,
    rows: &[Vec<String>],
) -> Stored<Vec<Vec<String>>> {
    let (table, names, _) = of.parts();
    let same = |at: usize| format!("{} = ?{at}", text(names, at));
    let select = format!("SELECT 1 FROM {table} WHERE {}", list(names.len(), same, " AND "));
    let missing = rows.iter().filter_map(|row| {
        match sql::exists(connection, &select, params_from_iter(row), DOING) {
            Ok(true) => None,
            Ok(false) => Some(Ok(row.clone())),
            Err(error) => Some(Err(error)),
        }
    });
    missing.collect()
}

/// Writes rows, in the place of those with the same keys. What is forgotten goes from the index.
pub(super) fn write(connection: &Connection, of: CopiedTable, rows: &[Vec<String>]) -> Stored<()> {
    if of == CopiedTable::Forgotten {
        for row in rows {
            if let [kind, id, at] = row.as_slice() {
                forget::copied(connection, (kind, id), at)?;
            }
        }
        return Ok(());
    }
    let (table, names, _) = of.parts();
    let value = |at: usize| match at == names.len() {
        true => format!("CAST(?{at} AS INTEGER)"),
        false => format!("?{at}"),
    };
    let row: Vec<(&str, String)> = names.iter().copied().zip((1..).map(value)).collect();
    let add = insert(table, &row).replacen("INSERT", "INSERT OR REPLACE", 1);
    for row in rows {
        sql::exec(connection, &add, params_from_iter(row), DOING)?;
    }
    Ok(())
}

/// A column as a text; the last one is a time.
fn text(names: &[&str], at: usize) -> String {
    let name = names.get(at - 1).copied().unwrap_or_default();
    match at == names.len() {
        true => format!("CAST({name} AS TEXT)"),
        false => name.to_owned(),
    }
}

fn list(many: usize, of: impl Fn(usize) -> String, between: &str) -> String {
    (1..=many).map(of).collect::<Vec<_>>().join(between)
}
