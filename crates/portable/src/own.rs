//! The engine's JSONL: a header, a line for each session, a line for each turn (docs/jsonl.md).
//!
//! It must never lose a value of a column, except those of open turns.

use serde::{Deserialize, Serialize};

use crate::error::Stored;
use crate::record::{SessionRecord, TurnRecord};
use crate::restore::Record;
use model::{StorageError, StorageErrorKind, error_path};

/// The format that the header names.
const FORMAT: &str = "nexus-agent-ledger";
/// The newest version that can be read, and the version that is written.
const VERSION: u64 = 1;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum LineOut<'a> {
    Ledger(HeaderOut<'a>),
    Session(&'a SessionRecord),
    Turn(&'a TurnRecord),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct HeaderOut<'a> {
    format: &'static str,
    version: u64,
    ledger_id: &'a str,
    engine_version: &'static str,
    exported_at: i64,
}

impl<'a> HeaderOut<'a> {
    pub(crate) fn new(ledger_id: &'a str, exported_at: i64) -> Self {
        let engine_version = env!("CARGO_PKG_VERSION");
        Self { format: FORMAT, version: VERSION, ledger_id, engine_version, exported_at }
    }
}

#[derive(Deserialize)]
struct Kind {
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct HeaderIn {
    format: String,
    version: u64,
}

/// A line that was read.
pub(crate) enum Read {
    /// The header of a version that can be read.
    Header,
    Record(Record),
    /// Why it is not valid, without any of its content.
    Invalid(String),
}

/// Reads a line.
///
/// # Errors
/// `invalid_import` for the header of another format or of a newer version.
pub(crate) fn read(line: &str) -> Stored<Read> {
    let kind = match serde_json::from_str::<Kind>(line) {
        Ok(Kind { kind }) => kind,
        Err(_) => return Ok(Read::Invalid("has no `type`".to_owned())),
    };
    Ok(match kind.as_str() {
        "ledger" => match typed::<HeaderIn>(line) {
            Ok(header) if header.format == FORMAT && header.version <= VERSION => Read::Header,
            Ok(header) if header.format == FORMAT => {
                return Err(invalid(&format!(
                    "has version `{}`, and this engine reads `{VERSION}`; update `@nexus/agent-engine`",
                    header.version
                )));
            }
            Ok(_) => return Err(invalid("is a file of another format")),
            Err(why) => Read::Invalid(why),
        },
        "session" => match typed::<SessionRecord>(line) {
            // Pi's files also begin with a line of that type.
            Err(_) if line.contains("\"cwd\"") && !line.contains("\"label\"") => {
                return Err(invalid("is a session of pi; pass `format: 'pi'`"));
            }
            Ok(record) => Read::Record(Record::Session(Box::new(record))),
            Err(why) => Read::Invalid(why),
        },
        "turn" => match typed::<TurnRecord>(line) {
            Ok(record) => Read::Record(Record::Turn(Box::new(record))),
            Err(why) => Read::Invalid(why),
        },
        _ => Read::Invalid("has a `type` that is not one of ledger, session, turn".to_owned()),
    })
}

fn typed<T: serde::de::DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| {
        // The error's own text is not used, because it quotes the value.
        format!("has something missing or of a wrong type at `{}`", error_path::<T>(line, &error))
    })
}

fn invalid(why: &str) -> StorageError {
    StorageError::new(StorageErrorKind::InvalidImport, format!("the file {why}"))
}
