//! The tables, indexes, views and triggers of a ledger against those of its schema version.
//!
//! Objects that a host has added are ignored. It must never compare the tables that SQLite makes for an index of words.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::each::each;
use crate::sqlite::connection;
use crate::sqlite::error::Stored;
use crate::sqlite::schema::{self, MIGRATIONS};

/// The statement of each object, by its name.
type Objects = BTreeMap<String, String>;

/// The names of the missing and different objects.
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
    let select = "SELECT name, type || ' ' || tbl_name || ' ' || coalesce(sql, '') FROM sqlite_schema
         WHERE name NOT LIKE 'message\\_words\\_%' ESCAPE '\\' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let mut objects = Objects::new();
    each(connection, select, (), "read the ledger's schema", |fields| {
        objects.insert(fields.next()?, fields.next()?);
        Ok(())
    })?;
    Ok(objects)
}
