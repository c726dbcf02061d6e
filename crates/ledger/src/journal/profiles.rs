//! The state of auth profiles: all are read at once, each change is one transaction of one profile
//! (docs/rules/failover.md#profile-state).
//!
//! It must never hold a key, and never decide what a failure means: the caller does.

use std::sync::LazyLock;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::lease::claim::Claim;
use crate::sqlite::checksum::replace_all;
use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::sql;
use crate::sqlite::writer::Job;
use base::telemetry;
use model::{Attempt, CallPurpose, ProfileUsage, ProfileWindow, StorageError};

/// A row of `auth_profile_usage`.
struct ProfileColumns<'r> {
    profile_id: &'r str,
    last_used_at: Option<i64>,
    last_failure_at: Option<i64>,
    failures: u32,
    refusals: u32,
    /// A JSON array of [`StoredWindow`].
    windows_json: &'r str,
}

columns!(for<'r> ProfileColumns<'r> {
    profile_id,
    last_used_at,
    last_failure_at,
    failures,
    refusals,
    windows_json,
});

static ALL: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM auth_profile_usage", list::<ProfileColumns<'_>>()));
static ONE: LazyLock<String> = LazyLock::new(|| format!("{} WHERE profile_id = ?1", *ALL));
static STORE: LazyLock<String> =
    LazyLock::new(|| replace_all::<ProfileColumns<'_>>("auth_profile_usage"));

/// The two clocks are read one after the other, and drift: a smaller difference is not a step of a clock.
const STEP_MS: u64 = 1_000;

/// A window as its row stores it: its wall times, and its beginning by the clock that the machine's processes share. Within
/// one boot the shared clock decides, so that a step of the wall clock makes no window longer or shorter.
#[derive(Serialize, Deserialize)]
struct StoredWindow {
    #[serde(flatten)]
    window: ProfileWindow,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    boot_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    began_at: Option<i64>,
}

/// The clocks at one moment of a job or a read.
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

    /// The window in the current wall time.
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
        // If the system reports no boot id, its shared clock may be the wall clock.
        let known = !self.boot_id.is_empty();
        let began_at = self.shared.saturating_sub(self.wall.saturating_sub(window.from));
        StoredWindow {
            window,
            boot_id: known.then(|| self.boot_id.to_owned()),
            began_at: known.then_some(began_at),
        }
    }
}

/// The state of a profile, with its windows in the current wall time.
fn profile_usage(row: &ProfileColumns<'_>, now: &Now<'_>) -> Stored<ProfileUsage> {
    let windows: Vec<StoredWindow> = serde_json::from_str(row.windows_json).map_err(|_| {
        damaged(&format!("the state of auth profile `{}` cannot be read", row.profile_id))
    })?;
    Ok(ProfileUsage {
        last_used_at: row.last_used_at,
        last_failure_at: row.last_failure_at,
        failures: row.failures,
        refusals: row.refusals,
        windows: windows.into_iter().map(|stored| now.load(stored)).collect(),
    })
}

pub(crate) fn all(connection: &Connection, claim: &Claim) -> Stored<Vec<(String, ProfileUsage)>> {
    let now = Now::of(claim);
    sql::map(connection, &ALL, (), "read the auth profiles", |fields| {
        let row: ProfileColumns<'_> = fields.next()?;
        Ok((row.profile_id.to_owned(), profile_usage(&row, &now)?))
    })
}

pub(crate) const ATTEMPTS: &str = "SELECT attempts_json FROM turns WHERE id = ?1";

/// The profile of the last answer of `provider` in a turn.
pub(crate) fn answered_with(
    connection: &Connection,
    turn_id: &str,
    provider: &str,
) -> Stored<Option<String>> {
    let doing = format_args!("read the attempts of turn `{turn_id}`");
    let attempts: Option<Option<String>> = sql::optional(connection, ATTEMPTS, (turn_id,), doing)?;
    let attempts: Vec<Attempt> = match attempts.flatten() {
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
    let doing = format_args!("write auth profile `{id}`");
    let stored =
        sql::first(connection, &ONE, (id,), doing, |fields| profile_usage(&fields.next()?, &now))?;
    let mut usage = stored.unwrap_or_default();
    apply(&mut usage);
    let windows: Vec<StoredWindow> =
        usage.windows.iter().map(|window| now.store(window.clone())).collect();
    let windows = serde_json::to_string(&windows)
        .map_err(|_| damaged("the state of an auth profile cannot be written"))?;
    let row = ProfileColumns {
        profile_id: id,
        last_used_at: usage.last_used_at,
        last_failure_at: usage.last_failure_at,
        failures: usage.failures,
        refusals: usage.refusals,
        windows_json: &windows,
    };
    sql::insert(connection, &STORE, &row, doing)?;
    Ok(usage)
}

/// Writes a profile's last use, in a job that never waits for the disk: a crash can only change the order of the rotation.
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
