//! The learned ratios of models: how each counts tokens. All are read at once and stored one at a time; the last write wins.
//!
//! It must never decide what is learned: the caller does.

use std::sync::LazyLock;

use rusqlite::Connection;

use crate::sqlite::checksum::replace_all;
use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::TokenRatio;

columns!(TokenRatio { provider, model, per_mille, samples, updated_at });

static READ: LazyLock<String> =
    LazyLock::new(|| format!("SELECT {} FROM model_calibration", list::<TokenRatio>()));
static STORE: LazyLock<String> = LazyLock::new(|| replace_all::<TokenRatio>("model_calibration"));

/// The ratios of all models.
pub(crate) fn all(connection: &Connection) -> Stored<Vec<TokenRatio>> {
    sql::all(connection, &READ, (), "read how models count tokens")
}

/// Stores the ratio of a model.
pub(crate) fn store(connection: &Connection, ratio: &TokenRatio) -> Stored<()> {
    sql::insert(connection, &STORE, ratio, "store how a model counts tokens")
}
