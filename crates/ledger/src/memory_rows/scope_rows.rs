//! The scopes of what is remembered, as numbers, and what decides the scope of a session. It must never decide a scope.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::sessions::persona;
use crate::sqlite::checksum::insert;
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use model::{MemoryScope, MemoryScopeKind, SessionIdentity, SessionKey};

pub(crate) const NUMBER: &str = "SELECT n FROM memory_scopes WHERE kind = ?1 AND id = ?2";
static ADD: LazyLock<String> = LazyLock::new(|| {
    format!("{} RETURNING n", insert("memory_scopes", &[("kind", "?1"), ("id", "?2")]))
});
/// Who a session is, and the session that it works for.
pub(crate) const SESSION: &str = "SELECT persona_id, agent_id, CASE WHEN is_subagent THEN parent_session_label END FROM sessions WHERE label = ?1";

/// A session works for one that works for another, and so on: at most so often.
const MOST_ABOVE: usize = 16;
const DOING: &str = "read the scopes of the memory";

/// The number of a scope, which is stored if it is new.
pub(crate) fn number(connection: &Connection, scope: &MemoryScope) -> Stored<i64> {
    let values = (scope.kind.as_str(), scope.id.as_str());
    if let Some(n) = sql::optional(connection, NUMBER, values, DOING)? {
        return Ok(n);
    }
    sql::one(connection, &ADD, values, "write a scope of the memory")
}

/// The numbers of the scopes that something is in, as a JSON array.
pub(crate) fn numbers(connection: &Connection, scopes: &[MemoryScope]) -> Stored<Vec<i64>> {
    let mut numbers = Vec::new();
    for scope in scopes {
        let values = (scope.kind.as_str(), scope.id.as_str());
        numbers.extend(sql::optional::<i64>(connection, NUMBER, values, DOING)?);
    }
    Ok(numbers)
}

/// The scope of a row that has its kind and its id.
pub(crate) fn scope_of(kind: &str, id: String) -> Stored<MemoryScope> {
    let kind = MemoryScopeKind::of_name(kind)
        .ok_or_else(|| damaged("a scope of the memory has no kind that is known"))?;
    Ok(MemoryScope { kind, id })
}

/// What decides the scope of a session: that of the session it works for, at the top.
pub(crate) fn identity_of(connection: &Connection, label: &str) -> Stored<SessionIdentity> {
    type Row = (String, String, Option<String>);
    let mut label = label.to_owned();
    let mut found: Option<Row> = None;
    for _ in 0..MOST_ABOVE {
        found = sql::optional(connection, SESSION, (&label,), DOING)?;
        match &found {
            Some((_, _, Some(above))) => label.clone_from(above),
            Some((_, _, None)) | None => break,
        }
    }
    let (persona, agent) = match found {
        Some((persona, agent, _)) => (persona, agent),
        None => {
            let identity = persona::of_session(connection, &label, None)?;
            (identity.persona, identity.agent)
        }
    };
    let key = SessionKey::parse(&label);
    Ok(SessionIdentity { label, kind: key.kind, peer: key.peer, persona, agent })
}
