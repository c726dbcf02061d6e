//! `export`: writes one snapshot as lines. The caller names the file when it is complete.

use std::collections::BTreeSet;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::error::Stored;
use crate::out::Out;
use crate::own::{HeaderOut, LineOut};
use crate::record::TurnRecord;
use crate::rows::Rows;
use crate::{myclaw, pi, tree};
use model::{LedgerExport, LedgerFormat, StorageError, StorageErrorKind, TransferCode};

/// What is exported.
#[derive(Debug, Clone, Copy)]
pub struct Export<'a> {
    /// The format of the file.
    pub format: LedgerFormat,
    /// The session; all without one.
    pub label: Option<&'a str>,
    /// The id of the ledger.
    pub ledger_id: &'a str,
    /// Unix milliseconds.
    pub now: i64,
}

/// Writes a session, or all of them, to an empty file.
///
/// # Errors
/// `unknown_session`; those of storage and of the file.
pub async fn export(rows: &dyn Rows, to: &Path, of: Export<'_>) -> Stored<LedgerExport> {
    if let Some(label) = of.label
        && rows.session(label).await?.is_none()
    {
        return Err(unknown_session(label));
    }
    let mut out = Out::create(to)?;
    out.report.open_turns = rows.open_turns(of.label).await?;
    match of.format {
        LedgerFormat::Ledger => own(rows, of, &mut out).await?,
        LedgerFormat::Pi | LedgerFormat::Myclaw => foreign(rows, of, &mut out).await?,
    }
    out.finish()
}

type File = BufWriter<std::fs::File>;

async fn own(rows: &dyn Rows, of: Export<'_>, out: &mut Out<File>) -> Stored<()> {
    out.line(&LineOut::Ledger(HeaderOut::new(of.ledger_id, of.now)))?;
    let turns = tree::turns(rows, of.label).await?;
    // All sessions, or one and the sessions from whose turns it was forked.
    let owners: BTreeSet<String> = match of.label {
        None => rows.labels().await?.into_iter().collect(),
        Some(label) => {
            let mut owners = BTreeSet::from([label.to_owned()]);
            for id in &turns {
                match rows.turn(id).await {
                    Ok(turn) => drop(owners.insert(turn.session_label)),
                    Err(error) if is_of_one(&error) => {}
                    Err(error) => return Err(error),
                }
            }
            owners
        }
    };
    for owner in owners {
        if let Some(mut record) = rows.session(&owner).await? {
            if of.label.is_some_and(|label| label != owner) {
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
        if let Some(mut turn) = readable(rows, id, out).await? {
            match rows.approvals(id).await {
                Ok(approvals) => turn.approvals = approvals,
                Err(error) if is_of_one(&error) => {
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
    }
    Ok(())
}

/// Writes one session in the format of another system.
async fn foreign(rows: &dyn Rows, of: Export<'_>, out: &mut Out<File>) -> Stored<()> {
    let label = of.label.unwrap_or_default();
    let session = rows.session(label).await?.ok_or_else(|| unknown_session(label))?.session;
    let listed = match (of.format, &session.thread_id) {
        // A flat file has no branches.
        (LedgerFormat::Myclaw, Some(head)) => rows.thread(head).await?,
        (LedgerFormat::Myclaw, None) => Vec::new(),
        (LedgerFormat::Ledger | LedgerFormat::Pi, _) => tree::turns(rows, Some(label)).await?,
    };
    let mut turns = Vec::with_capacity(listed.len());
    for id in &listed {
        turns.extend(readable(rows, id, out).await?);
    }
    let lines = match of.format {
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

async fn readable<W: Write>(
    rows: &dyn Rows,
    id: &str,
    out: &mut Out<W>,
) -> Stored<Option<TurnRecord>> {
    match rows.turn(id).await {
        Ok(turn) => Ok(Some(turn)),
        Err(error) if is_of_one(&error) => {
            let message = format!("turn `{id}` is not in the file: {}", error.message);
            out.problems.add(None, TransferCode::Unreadable, message);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether an error concerns one turn only, so that the others can still be exported.
fn is_of_one(error: &StorageError) -> bool {
    error.kind == StorageErrorKind::Corrupt
}

fn unknown_session(label: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownSession,
        format!("`{label}` is neither a session nor a turn of the ledger"),
    )
}
