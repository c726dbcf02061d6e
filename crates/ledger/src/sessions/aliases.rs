//! Aliases of sessions (docs/rules/sessions-and-ledger.md#aliases): following them, and refusing cycles.
//!
//! A session's label is its key and never changes: a session is renamed by an alias. An alias may name a session that does
//! not exist yet.

use std::fmt::Display;
use std::sync::LazyLock;

use rusqlite::{Connection, params_from_iter};

use crate::sqlite::checksum::{self, insert_all};
use crate::sqlite::columns::{columns, list as list_columns, values};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{AliasRow, Page, PageOptions, StorageError, StorageErrorKind};

/// The longest chain of aliases that is followed.
const MAX_CHAIN: usize = 8;

columns!(AliasRow { alias, session_label, created_at, updated_at });

pub(crate) const STATUS: &str = "SELECT status FROM sessions WHERE label = ?1";
pub(crate) const TARGET: &str = "SELECT session_label FROM session_aliases WHERE alias = ?1";
pub(crate) static ALIASES: LazyLock<String> =
    LazyLock::new(|| aliases_of("alias > ?1 ORDER BY alias LIMIT ?2"));
pub(crate) static ALIASES_OF: LazyLock<String> =
    LazyLock::new(|| aliases_of("session_label = ?3 AND alias > ?1 ORDER BY alias LIMIT ?2"));
/// The length of the longest chain of aliases that leads to `?1`.
pub(crate) const LEADING: &str =
    "WITH RECURSIVE leading (alias, steps) AS (
       SELECT ?1, 0
       UNION ALL
       SELECT a.alias, leading.steps + 1 FROM leading JOIN session_aliases a ON a.session_label = leading.alias
       WHERE leading.steps <= ?2
     ) SELECT max(steps) FROM leading";

/// The label of the session that `label` names: the label itself, or the one to which an alias leads. An alias takes
/// precedence over an archived session.
///
/// # Errors
/// `storage_constraint` for a chain that is longer than this engine writes.
pub(crate) fn resolve(connection: &Connection, label: &str) -> Stored<String> {
    let doing = format_args!("find session `{label}`");
    let mut at = label.to_owned();
    for _ in 0..=MAX_CHAIN {
        if is_active(connection, &at, doing)? {
            return Ok(at);
        }
        match target(connection, &at)? {
            None => return Ok(at),
            Some(next) => at = next,
        }
    }
    Err(too_long(label))
}

fn is_active(connection: &Connection, label: &str, doing: impl Display) -> Stored<bool> {
    let status = sql::first(connection, STATUS, (label,), doing, |fields| {
        Ok(fields.next::<&str>()? == "active")
    })?;
    Ok(status.unwrap_or(false))
}

fn target(connection: &Connection, alias: &str) -> Stored<Option<String>> {
    sql::optional(connection, TARGET, (alias,), format_args!("read alias `{alias}`"))
}

/// Whether the label is an alias.
pub(crate) fn is_alias(connection: &Connection, label: &str) -> Stored<bool> {
    Ok(target(connection, label)?.is_some())
}

static PUT: LazyLock<String> = LazyLock::new(|| {
    let add = insert_all::<AliasRow>("session_aliases");
    let change = checksum::set(&[
        ("session_label", "excluded.session_label"),
        ("updated_at", "excluded.updated_at"),
    ]);
    let columns = list_columns::<AliasRow>();
    format!("{add} ON CONFLICT (alias) DO UPDATE SET {change} RETURNING {columns}")
});

/// Makes `alias` a name of `label`, in place of its former target.
///
/// # Errors
/// `storage_constraint` for a label that a session in use has, for a cycle, and for a chain of more than 8.
pub(crate) fn set(connection: &Connection, alias: &str, label: &str, now: i64) -> Stored<AliasRow> {
    crate::sessions::moved::refuse(connection)?;
    let doing = format_args!("write alias `{alias}`");
    if is_active(connection, alias, doing)? {
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
    let most = i64::try_from(MAX_CHAIN).unwrap_or(8);
    let leading: i64 = sql::one(connection, LEADING, (alias, most), doing)?;
    if usize::try_from(leading).unwrap_or(usize::MAX).saturating_add(steps) > MAX_CHAIN {
        return Err(too_long(alias));
    }
    let row = AliasRow {
        alias: alias.to_owned(),
        session_label: label.to_owned(),
        created_at: now,
        updated_at: now,
    };
    sql::one(connection, &PUT, params_from_iter(values(&row)), doing)
}

/// Removes an alias; false if it does not exist. Its session stays.
pub(crate) fn remove(connection: &Connection, alias: &str) -> Stored<bool> {
    let doing = format_args!("remove alias `{alias}`");
    let delete = "DELETE FROM session_aliases WHERE alias = ?1";
    Ok(sql::exec(connection, delete, (alias,), doing)? > 0)
}

/// The aliases, by name: all, or those that lead straight to `label`.
pub(crate) fn list(
    connection: &Connection,
    label: Option<&str>,
    page: &PageOptions,
) -> Stored<Page<AliasRow>> {
    let after = page.after.as_deref().unwrap_or_default();
    let (limit, doing) = (page.limit.and_one(), "list the aliases");
    let found: Vec<AliasRow> = match label {
        None => sql::all(connection, &ALIASES, (after, limit), doing)?,
        Some(label) => sql::all(connection, &ALIASES_OF, (after, limit, label), doing)?,
    };
    Ok(Page::cut(found.into_iter().map(|row| (row.alias.clone(), row)).collect(), page.limit))
}

fn aliases_of(condition: &str) -> String {
    format!("SELECT {} FROM session_aliases WHERE {condition}", list_columns::<AliasRow>())
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
