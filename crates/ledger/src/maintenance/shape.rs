//! The tables, indexes, views and triggers of a ledger against those that its schema version makes.
//!
//! What a host has added is its own. It must never look at the tables that SQLite makes for an index of words.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::sqlite::connection;
use crate::sqlite::error::{Stored, in_check};
use crate::sqlite::schema::{self, MIGRATIONS};

/// What each object was made by, by its name.
type Objects = BTreeMap<String, String>;

/// The names of those that are missing, or made otherwise.
pub(super) fn altered(connection: &Connection) -> Stored<Vec<String>> {
    let version = schema::version(connection)?;
    if version != MIGRATIONS.len() {
        return Ok(vec![format!("user_version {version}")]);
    }
    let model = connection::in_memory()?;
    schema::migrate(&model, MIGRATIONS)?;
    let found = objects(connection)?;
    let wanted = objects(&model)?;
    Ok(wanted
        .into_iter()
        .filter(|(name, sql)| found.get(name) != Some(sql))
        .map(|it| it.0)
        .collect())
}

fn objects(connection: &Connection) -> Stored<Objects> {
    let failed = |error| in_check("read the ledger's schema", &error);
    let mut statement = connection
        .prepare(
            "SELECT name, type || ' ' || tbl_name || ' ' || coalesce(sql, '') FROM sqlite_schema
             WHERE name NOT LIKE 'message\\_words\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'",
        )
        .map_err(failed)?;
    let rows = statement.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).map_err(failed)?;
    rows.collect::<Result<_, _>>().map_err(failed)
}
