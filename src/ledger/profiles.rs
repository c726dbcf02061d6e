//! The state of auth profiles: read whole, changed one at a time, each change one transaction (RULES §2).
//!
//! It must never hold a key, and never decide what a failure comes to: that is the caller's.

use rusqlite::{Connection, OptionalExtension as _, Row};

use super::Ledger;
use super::error::{Stored, damaged, sqlite};
use crate::model::{
    Attempt, CallPurpose, JournalFuture, ProfileChange, ProfileStore, ProfileUsage,
};

const COLUMNS: &str = "profile_id, last_used_at, last_failure_at, failures, refusals, windows_json";

fn row(row: &Row<'_>) -> rusqlite::Result<(String, ProfileUsage, String)> {
    let usage = ProfileUsage {
        last_used_at: row.get(1)?,
        last_failure_at: row.get(2)?,
        failures: row.get(3)?,
        refusals: row.get(4)?,
        windows: Vec::new(),
    };
    Ok((row.get(0)?, usage, row.get(5)?))
}

fn whole((id, usage, windows): (String, ProfileUsage, String)) -> Stored<(String, ProfileUsage)> {
    let windows = serde_json::from_str(&windows)
        .map_err(|_| damaged(&format!("the state of auth profile `{id}` cannot be read")))?;
    Ok((id, ProfileUsage { windows, ..usage }))
}

fn all(connection: &Connection) -> Stored<Vec<(String, ProfileUsage)>> {
    let failed = |error| sqlite("read the auth profiles", &error);
    let mut statement = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM auth_profile_usage"))
        .map_err(failed)?;
    let rows = statement.query_map((), row).map_err(failed)?;
    rows.map(|found| whole(found.map_err(failed)?)).collect()
}

pub(super) const ATTEMPTS: &str = "SELECT attempts_json FROM turns WHERE id = ?1";

/// The profile that `provider` last answered a turn with.
pub(super) fn answered_with(
    connection: &Connection,
    turn_id: &str,
    provider: &str,
) -> Stored<Option<String>> {
    let attempts: Option<String> = connection
        .prepare_cached(ATTEMPTS)
        .and_then(|mut statement| statement.query_row((turn_id,), |row| row.get(0)).optional())
        .map_err(|error| sqlite(&format!("read the attempts of turn `{turn_id}`"), &error))?
        .flatten();
    let attempts: Vec<Attempt> = match attempts {
        Some(json) => serde_json::from_str(&json)
            .map_err(|_| damaged(&format!("the attempts of turn `{turn_id}` cannot be read")))?,
        None => Vec::new(),
    };
    let last = attempts.into_iter().rfind(|attempt| {
        attempt.purpose == CallPurpose::Run && attempt.ok && attempt.provider == provider
    });
    Ok(last.and_then(|attempt| attempt.profile_id))
}

fn change(connection: &Connection, id: &str, apply: &mut ProfileChange) -> Stored<ProfileUsage> {
    let failed = |error| sqlite(&format!("write auth profile `{id}`"), &error);
    let found = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM auth_profile_usage WHERE profile_id = ?1"))
        .and_then(|mut statement| statement.query_row((id,), row).optional())
        .map_err(failed)?;
    let mut usage = found.map(whole).transpose()?.map(|(_, usage)| usage).unwrap_or_default();
    apply(&mut usage);
    let windows = serde_json::to_string(&usage.windows)
        .map_err(|_| damaged("the state of an auth profile cannot be written"))?;
    connection
        .prepare_cached(&format!(
            "INSERT OR REPLACE INTO auth_profile_usage ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
        ))
        .and_then(|mut statement| {
            statement.execute((
                id,
                usage.last_used_at,
                usage.last_failure_at,
                usage.failures,
                usage.refusals,
                windows,
            ))
        })
        .map_err(failed)?;
    Ok(usage)
}

impl ProfileStore for Ledger {
    fn usage(&self) -> JournalFuture<'static, Vec<(String, ProfileUsage)>> {
        let core = self.core();
        Box::pin(async move { core?.readers.run(|connection| all(connection)).await })
    }

    fn change(&self, id: &str, mut apply: ProfileChange) -> JournalFuture<'static, ProfileUsage> {
        let id = id.to_owned();
        let handed = self
            .core()
            .map(|core| core.writer.submit(move |connection| change(connection, &id, &mut apply)));
        Box::pin(async move { handed?.await })
    }
}
