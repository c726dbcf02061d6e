//! The host's own SQL: the limits of a query, and its result.
//!
//! Limits of rows, bytes and time are reported, never silent.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

/// The limits of a query.
#[derive(Debug, Clone, Copy)]
pub struct QueryLimits {
    /// The maximum number of rows.
    pub rows: usize,
    /// The maximum number of bytes of values.
    pub bytes: usize,
    /// How long it may run.
    pub time: Duration,
}

impl Default for QueryLimits {
    fn default() -> Self {
        Self { rows: 10_000, bytes: 16 << 20, time: Duration::from_secs(5) }
    }
}

/// The limit at which a result was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum Truncation {
    /// More rows than a query returns.
    Rows,
    /// More bytes than a query returns.
    Bytes,
}

/// The result of `ledger.query`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct QueryResult {
    /// The columns' names in order; a repeated one carries a number.
    pub columns: Vec<String>,
    /// The rows, each an object by column. Integers beyond 2^53 and infinite numbers are strings, blobs are hex.
    #[cfg_attr(feature = "testing", ts(type = "Record<string, string | number | null>[]"))]
    pub rows: Vec<QueryRow>,
    /// The limit that cut the result; null when it is whole.
    pub truncated: Option<Truncation>,
}

/// One row, in the order of the columns.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryRow {
    /// The columns' names.
    pub columns: Arc<[String]>,
    /// The values.
    pub values: Vec<serde_json::Value>,
}

impl Serialize for QueryRow {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.columns.iter().zip(&self.values))
    }
}
