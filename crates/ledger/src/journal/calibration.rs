//! How models count tokens, as engines have learnt it: read whole, kept one at a time, the last one stands.
//!
//! It must never decide what is learnt: that is the caller's.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::sqlite::checksum::{numbered, replace};
use crate::sqlite::error::{Stored, sqlite};
use model::TokenRatio;

static KEEP: LazyLock<String> = LazyLock::new(|| {
    replace("model_calibration", &numbered("provider, model, per_mille, samples, updated_at"))
});

/// How every model counts.
pub(crate) fn all(connection: &Connection) -> Stored<Vec<TokenRatio>> {
    let failed = |error| sqlite("read how models count tokens", &error);
    let mut statement = connection
        .prepare_cached(
            "SELECT provider, model, per_mille, samples, updated_at FROM model_calibration",
        )
        .map_err(failed)?;
    let rows = statement
        .query_map((), |row| {
            Ok(TokenRatio {
                provider: row.get(0)?,
                model: row.get(1)?,
                per_mille: row.get(2)?,
                samples: row.get(3)?,
                updated_at: row.get(4)?,
            })
        })
        .map_err(failed)?;
    rows.map(|row| row.map_err(failed)).collect()
}

/// Stores how a model counts.
pub(crate) fn store(connection: &Connection, ratio: &TokenRatio) -> Stored<()> {
    let TokenRatio { provider, model, per_mille, samples, updated_at } = ratio;
    connection
        .prepare_cached(&KEEP)
        .and_then(|mut statement| {
            statement.execute((provider, model, per_mille, samples, updated_at))
        })
        .map_err(|error| sqlite("keep how a model counts tokens", &error))?;
    Ok(())
}
