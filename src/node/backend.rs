//! The backend of a ledger: opens a SQLite file by its options and returns its ports, and salvages a damaged file.
//!
//! Nothing else in this module names a backend. It must never leave a file behind for a wrong option.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::options::{EventFields, LedgerFields, SynchronousName};
use base::clock::Clock;
use base::config::{Environment, LOG_BOUND_VARIABLE};
use base::error::EngineError;
use ledger::{Ledger, LedgerOptions, LedgerSalvage, Synchronous};
use model::{InputError, LedgerPorts, StorageError};

/// A shorter lease could expire by chance; a longer one would block a session for too long.
const LEASES_MS: std::ops::RangeInclusive<u64> = 300..=600_000;

/// Checks the options of a ledger.
pub(super) fn check(fields: &LedgerFields) -> Result<(), InputError> {
    if fields.path.is_empty() {
        return Err(InputError::new("ledger.path", "is empty; pass the path of a file"));
    }
    if fields.lease_ms.is_some_and(|lease| !LEASES_MS.contains(&lease)) {
        let (least, most) = (LEASES_MS.start(), LEASES_MS.end());
        return Err(InputError::new(
            "ledger.leaseMs",
            format!("is not a lease; pass {least} to {most} milliseconds"),
        ));
    }
    EventFields::retention(fields.events.as_ref()).map(drop)
}

/// Opens the ledger of these options, which were checked.
pub(super) fn open(
    fields: LedgerFields,
    environment: &Environment,
    clock: &Clock,
) -> Result<LedgerPorts, EngineError> {
    let synchronous = match fields.synchronous {
        Some(SynchronousName::Normal) => Synchronous::Normal,
        Some(SynchronousName::Full) | None => Synchronous::Full,
    };
    let lease = fields.lease_ms.map_or(LedgerOptions::DEFAULT_LEASE, Duration::from_millis);
    let path = PathBuf::from(fields.path);
    let events = EventFields::retention(fields.events.as_ref()).map_err(EngineError::option)?;
    let log_bound = environment
        .get(LOG_BOUND_VARIABLE)
        .and_then(|bytes| bytes.parse().ok())
        .unwrap_or(LedgerOptions::LOG_BOUND);
    let options = LedgerOptions { path, synchronous, lease, events, log_bound };
    Ok(LedgerPorts::of(&Ledger::open(&options, clock.clone())?))
}

/// Copies everything that is readable in a damaged file to a new one.
pub(super) async fn salvage(damaged: &Path, fresh: &Path) -> Result<LedgerSalvage, StorageError> {
    Ledger::salvage(damaged, fresh, Clock::default()).await
}
