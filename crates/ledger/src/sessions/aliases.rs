//! Other names of sessions (docs/rules/sessions-and-ledger.md#aliases): following them, and keeping them free of cycles.
//!
//! A session's label is its key and never changes: a session is renamed by an alias. What an alias leads to may come later.

use std::sync::LazyLock;

use rusqlite::{Connection, OptionalExtension, params};

use crate::sqlite::checksum::{self, insert};
use crate::sqlite::error::{Stored, sqlite};
use model::{AliasRow, Page, PageOptions, StorageError, StorageErrorKind};

/// Aliases on the way to a session at most.
const MAX_CHAIN: usize = 8;

pub(crate) const STATUS: &str = "SELECT status FROM sessions WHERE label = ?1";
pub(crate) const TARGET: &str = "SELECT session_label FROM session_aliases WHERE alias = ?1";
pub(crate) const ALIASES: &str =
    "SELECT alias, session_label, created_at, updated_at FROM session_aliases
     WHERE alias > ?1 ORDER BY alias LIMIT ?2";
pub(crate) const ALIASES_OF: &str =
    "SELECT alias, session_label, created_at, updated_at FROM session_aliases
     WHERE session_label = ?3 AND alias > ?1 ORDER BY alias LIMIT ?2";
/// How many aliases lead to `?1`, one after another.
pub(crate) const LEADING: &str =
    "WITH RECURSIVE leading (alias, steps) AS (
       SELECT ?1, 0
       UNION ALL
       SELECT a.alias, leading.steps + 1 FROM leading JOIN session_aliases a ON a.session_label = leading.alias
       WHERE leading.steps <= ?2
     ) SELECT max(steps) FROM leading";

/// The label of the session that `label` names: its own, or, of an alias, the one it leads to. An archived session gives
/// way to an alias.
///
/// # Errors
/// `storage_constraint` for a chain that no version of this engine makes.
pub(crate) fn resolve(connection: &Connection, label: &str) -> Stored<String> {
    let failed = |error| sqlite(&format!("find session `{label}`"), &error);
    let mut at = label.to_owned();
    for _ in 0..=MAX_CHAIN {
        let status: Option<String> = connection
            .prepare_cached(STATUS)
            .and_then(|mut statement| statement.query_row((&at,), |row| row.get(0)).optional())
            .map_err(failed)?;
        if status.as_deref() == Some("active") {
            return Ok(at);
        }
        match target(connection, &at)? {
            None => return Ok(at),
            Some(next) => at = next,
        }
    }
    Err(too_long(label))
}

fn target(connection: &Connection, alias: &str) -> Stored<Option<String>> {
    connection
        .prepare_cached(TARGET)
        .and_then(|mut statement| statement.query_row((alias,), |row| row.get(0)).optional())
        .map_err(|error| sqlite(&format!("read alias `{alias}`"), &error))
}

/// Whether the label is an alias.
pub(crate) fn is_alias(connection: &Connection, label: &str) -> Stored<bool> {
    Ok(target(connection, label)?.is_some())
}

static PUT: LazyLock<String> = LazyLock::new(|| {
    let row =
        [("alias", "?1"), ("session_label", "?2"), ("created_at", "?3"), ("updated_at", "?3")];
    let change = checksum::set(&[
        ("session_label", "excluded.session_label"),
        ("updated_at", "excluded.updated_at"),
    ]);
    format!(
        "{} ON CONFLICT (alias) DO UPDATE SET {change} RETURNING alias, session_label, created_at, updated_at",
        insert("session_aliases", &row)
    )
});

/// Makes `alias` a name of `label`, or lets it lead there from now on.
///
/// # Errors
/// `storage_constraint` for a label that a session in use has, for a cycle, and for a chain of more than 8.
pub(crate) fn set(connection: &Connection, alias: &str, label: &str, now: i64) -> Stored<AliasRow> {
    let failed = |error| sqlite(&format!("write alias `{alias}`"), &error);
    let status: Option<String> = connection
        .prepare_cached(STATUS)
        .and_then(|mut statement| statement.query_row((alias,), |row| row.get(0)).optional())
        .map_err(failed)?;
    if status.as_deref() == Some("active") {
        return Err(refused(
            "alias",
            format!("a session `{alias}` is in use; archive it first, or pass another alias"),
        ));
    }
    let mut next = Some(label.to_owned());
    let mut steps = 1;
    while let Some(at) = next {
        if at == alias {
            return Err(refused("label", format!("`{label}` leads back to alias `{alias}`")));
        }
        next = target(connection, &at)?;
        if next.is_some() {
            steps += 1;
        }
        if steps > MAX_CHAIN {
            return Err(too_long(alias));
        }
    }
    let leading: usize = connection
        .prepare_cached(LEADING)
        .and_then(|mut statement| {
            statement.query_row(params![alias, i64::try_from(MAX_CHAIN).unwrap_or(8)], |row| {
                row.get::<_, i64>(0)
            })
        })
        .map_err(failed)
        .map(|steps| usize::try_from(steps).unwrap_or(usize::MAX))?;
    if leading.saturating_add(steps) > MAX_CHAIN {
        return Err(too_long(alias));
    }
    connection
        .prepare_cached(&PUT)
        .and_then(|mut statement| statement.query_row((alias, label, now), row))
        .map_err(failed)
}

/// Takes an alias away; false where there was none. Its session stays.
pub(crate) fn remove(connection: &Connection, alias: &str) -> Stored<bool> {
    connection
        .prepare_cached("DELETE FROM session_aliases WHERE alias = ?1")
        .and_then(|mut statement| statement.execute((alias,)))
        .map(|gone| gone > 0)
        .map_err(|error| sqlite(&format!("remove alias `{alias}`"), &error))
}

/// The aliases, by name: all, or those that lead straight to `label`.
pub(crate) fn list(
    connection: &Connection,
    label: Option<&str>,
    page: &PageOptions,
) -> Stored<Page<AliasRow>> {
    let after = page.after.as_deref().unwrap_or_default();
    let failed = |error| sqlite("list the aliases", &error);
    let keyed = |found: &rusqlite::Row<'_>| row(found).map(|it| (it.alias.clone(), it));
    let limit = page.limit.and_one();
    let read = match label {
        None => connection.prepare_cached(ALIASES).and_then(|mut statement| {
            statement.query_map((after, limit), keyed)?.collect::<rusqlite::Result<Vec<_>>>()
        }),
        Some(label) => connection.prepare_cached(ALIASES_OF).and_then(|mut statement| {
            statement.query_map((after, limit, label), keyed)?.collect::<rusqlite::Result<Vec<_>>>()
        }),
    };
    Ok(Page::cut(read.map_err(failed)?, page.limit))
}

fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<AliasRow> {
    Ok(AliasRow {
        alias: row.get(0)?,
        session_label: row.get(1)?,
        created_at: row.get(2)?,
        updated_at: row.get(3)?,
    })
}

fn too_long(alias: &str) -> StorageError {
    refused(
        "alias",
        format!(
            "alias `{alias}` is part of a chain of more than {MAX_CHAIN}; point it at the session"
        ),
    )
}

fn refused(field: &str, message: String) -> StorageError {
    StorageError::new(StorageErrorKind::Constraint, message).at(field)
}
