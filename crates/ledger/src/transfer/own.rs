//! The engine's JSONL: a header, a line for each session, a line for each turn (docs/jsonl.md).
//!
//! It must never lose a value of a column, except those of open turns.

use std::collections::BTreeSet;
use std::io::Write;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::out::Out;
use super::record::{Moved, SessionRecord, TurnRecord};
use super::restore::Record;
use super::tree;
use crate::journal_rows::approval_rows;
use crate::rows::session_rows;
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use base::clock::Clock;
use model::{StorageError, StorageErrorKind, TransferCode, error_path};

/// The format that the header names.
const FORMAT: &str = "nexus-agent-ledger";
/// The newest version that can be read, and the version that is written.
const VERSION: u64 = 1;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum LineOut<'a> {
    Ledger(HeaderOut<'a>),
    Session(&'a SessionRecord),
    Turn(&'a TurnRecord),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HeaderOut<'a> {
    format: &'static str,
    version: u64,
    ledger_id: &'a str,
    engine_version: &'static str,
    exported_at: i64,
}

/// Writes a session, or the whole ledger.
pub(super) fn export<W: Write>(
    connection: &Connection,
    label: Option<&str>,
    (ledger_id, clock): (&str, &Clock),
    out: &mut Out<W>,
) -> Stored<()> {
    out.line(&LineOut::Ledger(HeaderOut {
        format: FORMAT,
        version: VERSION,
        ledger_id,
        engine_version: env!("CARGO_PKG_VERSION"),
        exported_at: clock.now_ms(),
    }))?;
    let turns = tree::turns(connection, label)?;
    for owner in owners(connection, label, &turns)? {
        if let Some(session) = session_rows::session(connection, &owner)? {
            let mut record = SessionRecord { history: history(connection, &owner)?, session };
            if label.is_some_and(|label| label != owner) {
                // The file has only the forked turns of this session, not its head.
                record.session.thread_id = None;
                record.session.parent_turn_id = None;
                record.history.clear();
            }
            out.line(&LineOut::Session(&record))?;
            out.report.sessions += 1;
        }
    }
    for id in &turns {
        match tree::turn(connection, id) {
            Ok(mut turn) => {
                match approval_rows::of_turn(connection, id) {
                    Ok(approvals) => turn.approvals = approvals,
                    Err(error) if tree::is_of_one(&error) => {
                        let message = format!(
                            "the approvals of turn `{id}` are not in the file: {}",
                            error.message
                        );
                        out.problems.add(None, TransferCode::Unreadable, message);
                    }
                    Err(error) => return Err(error),
                }
                out.line(&LineOut::Turn(&turn))?;
                out.report.turns += 1;
            }
            Err(error) if tree::is_of_one(&error) => {
                let message = format!("turn `{id}` is not in the file: {}", error.message);
                out.problems.add(None, TransferCode::Unreadable, message);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The sessions of an export: all, or one and the sessions from whose turns it was forked.
fn owners(
    connection: &Connection,
    label: Option<&str>,
    turns: &[String],
) -> Stored<BTreeSet<String>> {
    let doing = "list the ledger's sessions";
    let Some(label) = label else {
        let select = "SELECT label FROM sessions WHERE opening = 0";
        return Ok(sql::all(connection, select, (), doing)?.into_iter().collect());
    };
    let mut owners = BTreeSet::from([label.to_owned()]);
    for id in turns {
        let select = "SELECT session_label FROM turns WHERE id = ?1";
        owners.insert(sql::one(connection, select, (id,), doing)?);
    }
    Ok(owners)
}

fn history(connection: &Connection, label: &str) -> Stored<Vec<Moved>> {
    let select =
        "SELECT thread_id, changed_at FROM session_history WHERE session_label = ?1 ORDER BY id";
    let doing = format_args!("read the log of session `{label}`");
    sql::map(connection, select, (label,), doing, |fields| {
        Ok(Moved { turn_id: fields.next()?, changed_at: fields.next()? })
    })
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
pub(super) enum Read {
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
pub(super) fn read(line: &str) -> Stored<Read> {
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
