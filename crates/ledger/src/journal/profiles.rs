//! The state of auth profiles: read whole, changed one at a time, each change one transaction (docs/rules/failover.md#profile-state).
//!
//! It must never hold a key, and never decide what a failure comes to: that is the caller's.

use rusqlite::{Connection, OptionalExtension as _, Row};
use serde::{Deserialize, Serialize};

use crate::lease::claim::Claim;
use crate::sqlite::checksum::{numbered, replace};
use crate::sqlite::error::{Stored, damaged, sqlite};
use crate::sqlite::writer::Job;
use base::telemetry;
use model::{Attempt, CallPurpose, ProfileUsage, ProfileWindow, StorageError};

const COLUMNS: &str = "profile_id, last_used_at, last_failure_at, failures, refusals, windows_json";

/// The two clocks are read one after the other, and drift: less is no step of one of them.
const STEP_MS: u64 = 1_000;

/// A window as its row has it: beside its wall times, when it began by the clock that the machine's processes share. Within
/// one boot that one counts, so that a step of the wall clock makes no window longer or shorter.
#[derive(Serialize, Deserialize)]
struct StoredWindow {
    #[serde(flatten)]
    window: ProfileWindow,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began_at: Option<i64>,
}

/// The clocks at one moment, as a job of the writer or a reader finds them.
struct Now<'a> {
    wall: i64,
    shared: i64,
    boot_id: &'a str,
}

impl<'a> Now<'a> {
    fn of(claim: &'a Claim) -> Self {
        let (wall, shared) = (claim.clock.now_ms(), claim.clock.shared_ms());
        Self { wall, shared, boot_id: &claim.owner.boot_id }
    }

    /// The window in today's wall time.
    fn load(&self, stored: StoredWindow) -> ProfileWindow {
        let StoredWindow { window, boot_id, began_at } = stored;
        match (boot_id, began_at) {
            (Some(boot_id), Some(began_at)) if boot_id == self.boot_id => {
                let length = window.until.saturating_sub(window.from);
                let from = self.wall.saturating_sub(self.shared.saturating_sub(began_at));
                if from.abs_diff(window.from) <= STEP_MS {
                    return window;
                }
                ProfileWindow { from, until: from.saturating_add(length), ..window }
            }
            (_, _) => window,
        }
    }

    fn store(&self, window: ProfileWindow) -> StoredWindow {
        // Where the system names no boot, its shared clock may be the wall clock.
        let known = !self.boot_id.is_empty();
        let began_at = self.shared.saturating_sub(self.wall.saturating_sub(window.from));
        StoredWindow {
            window,
            boot_id: known.then(|| self.boot_id.to_owned()),
            began_at: known.then_some(began_at),
        }
    }
}

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

fn whole(
    (id, usage, windows): (String, ProfileUsage, String),
    now: &Now<'_>,
) -> Stored<(String, ProfileUsage)> {
    let windows: Vec<StoredWindow> = serde_json::from_str(&windows)
        .map_err(|_| damaged(&format!("the state of auth profile `{id}` cannot be read")))?;
    let windows = windows.into_iter().map(|stored| now.load(stored)).collect();
    Ok((id, ProfileUsage { windows, ..usage }))
}

pub(crate) fn all(connection: &Connection, claim: &Claim) -> Stored<Vec<(String, ProfileUsage)>> {
    let failed = |error| sqlite("read the auth profiles", &error);
    let mut statement = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM auth_profile_usage"))
        .map_err(failed)?;
    let rows = statement.query_map((), row).map_err(failed)?;
    let now = Now::of(claim);
    rows.map(|found| whole(found.map_err(failed)?, &now)).collect()
}

pub(crate) const ATTEMPTS: &str = "SELECT attempts_json FROM turns WHERE id = ?1";

/// The profile that `provider` last answered a turn with.
pub(crate) fn answered_with(
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

pub(crate) fn change(
    connection: &Connection,
    id: &str,
    claim: &Claim,
    apply: &mut dyn FnMut(&mut ProfileUsage),
) -> Stored<ProfileUsage> {
    let now = Now::of(claim);
    let failed = |error| sqlite(&format!("write auth profile `{id}`"), &error);
    let found = connection
        .prepare_cached(&format!("SELECT {COLUMNS} FROM auth_profile_usage WHERE profile_id = ?1"))
        .and_then(|mut statement| statement.query_row((id,), row).optional())
        .map_err(failed)?;
    let mut usage = found
        .map(|found| whole(found, &now))
        .transpose()?
        .map(|(_, usage)| usage)
        .unwrap_or_default();
    apply(&mut usage);
    let windows: Vec<StoredWindow> =
        usage.windows.iter().map(|window| now.store(window.clone())).collect();
    let windows = serde_json::to_string(&windows)
        .map_err(|_| damaged("the state of an auth profile cannot be written"))?;
    connection
        .prepare_cached(&replace("auth_profile_usage", &numbered(COLUMNS)))
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

/// A profile's last use, as a job that never waits for the disk: it goes along with whatever is committed, and what a crash
/// takes is the order of turns between keys.
pub(crate) struct Used {
    id: String,
    at_ms: i64,
    claim: Claim,
}

impl Used {
    pub(crate) fn new(id: &str, at_ms: i64, claim: &Claim) -> Self {
        Self { id: id.to_owned(), at_ms, claim: claim.clone() }
    }
}

impl Job for Used {
    fn run(&mut self, connection: &Connection) -> bool {
        let at = self.at_ms;
        let mut apply =
            |usage: &mut ProfileUsage| usage.last_used_at = usage.last_used_at.max(Some(at));
        change(connection, &self.id, &self.claim, &mut apply).is_ok()
    }

    fn waits_for_disk(&self) -> bool {
        false
    }

    fn answer(self: Box<Self>, failure: Option<&StorageError>) {
        if let Some(error) = failure {
            telemetry::storage_failed(error.kind.code());
        }
    }
}
