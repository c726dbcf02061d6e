//! `export`: writes one snapshot to a new file. It must never leave an incomplete file.

use std::io::Write;
use std::path::Path;

use super::out::Out;
use super::{myclaw, own, pi, tree};
use crate::open::draft;
use crate::rows::session_rows;
use crate::sessions::pointers::{self, unknown_session};
use crate::sqlite::error::Stored;
use base::clock::Clock;
use model::{LedgerExport, LedgerFormat, TransferCode};

/// Writes a session, or all of them without a label, to a new file, from one snapshot.
pub(crate) fn export(
    connection: &rusqlite::Connection,
    to: &Path,
    format: LedgerFormat,
    label: Option<&str>,
    (ledger_id, clock): (&str, &Clock),
) -> Stored<LedgerExport> {
    if let Some(label) = label
        && pointers::visible_head(connection, label)?.is_none()
    {
        return Err(unknown_session(label));
    }
    let (path, out) = draft::write(to, clock, |draft| {
        let mut out = Out::create(draft)?;
        out.report.open_turns = tree::open_turns(connection, label)?;
        match format {
            LedgerFormat::Ledger => own::export(connection, label, (ledger_id, clock), &mut out)?,
            LedgerFormat::Pi | LedgerFormat::Myclaw => {
                foreign(connection, format, label.unwrap_or_default(), &mut out)?;
            }
        }
        out.finish()
    })?;
    Ok(LedgerExport { path: path.to_string_lossy().into_owned(), ..out })
}

/// Writes one session in the format of another system.
fn foreign<W: Write>(
    connection: &rusqlite::Connection,
    format: LedgerFormat,
    label: &str,
    out: &mut Out<W>,
) -> Stored<()> {
    let session =
        session_rows::session(connection, label)?.ok_or_else(|| unknown_session(label))?;
    let listed = match format {
        // A flat file has no branches.
        LedgerFormat::Myclaw => tree::thread(connection, session.thread_id.as_deref())?,
        LedgerFormat::Ledger | LedgerFormat::Pi => tree::turns(connection, Some(label))?,
    };
    let mut turns = Vec::with_capacity(listed.len());
    for id in listed {
        match tree::turn(connection, &id) {
            Ok(turn) => turns.push(turn),
            Err(error) if tree::is_of_one(&error) => {
                let message = format!("turn `{id}` is not in the file: {}", error.message);
                out.problems.add(None, TransferCode::Unreadable, message);
            }
            Err(error) => return Err(error),
        }
    }
    let lines = match format {
        LedgerFormat::Myclaw => myclaw::export(&turns, &mut out.report.left_out),
        LedgerFormat::Ledger | LedgerFormat::Pi => {
            pi::export(&session, &turns, &mut out.report.left_out)
        }
    };
    for line in &lines {
        out.line(line)?;
    }
    out.report.sessions = 1;
    out.report.turns = turns.len() as u64;
    Ok(())
}
