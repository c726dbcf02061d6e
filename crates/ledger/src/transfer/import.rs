//! `import`: reads a file line by line, with a problem for each line that was not imported.
//!
//! It must never move a session that existed before.

use std::path::Path;
use std::sync::Arc;

use serde_json::Value;

use super::lines::{Line, Lines};
use super::own::Read;
use super::pi::entries::Numbered;
use super::report::Problems;
use super::restore::{Record, Restore};
use super::{myclaw, own, pi};
use crate::events::poller::Poller;
use crate::sessions::pointers;
use crate::sqlite::error::Stored;
use crate::sqlite::writer::Writer;
use base::clock::Clock;
use model::{
    LedgerFormat, LedgerImport, StorageError, StorageErrorKind, TransferCode, repair_surrogates,
    session_label,
};

/// Lines of one transaction, so that other jobs wait only briefly.
const BATCH: usize = 256;
/// Bytes of one transaction.
const BATCH_BYTES: usize = 8 << 20;

/// Imports the sessions of a file. It blocks: on the disk, and on the writer.
pub(crate) fn import(
    path: &Path,
    format: LedgerFormat,
    label: Option<String>,
    target: Target,
) -> Stored<LedgerImport> {
    match format {
        LedgerFormat::Ledger => import_own(path, target),
        LedgerFormat::Pi | LedgerFormat::Myclaw => import_foreign(path, format, label, &target),
    }
}

/// The target of an import: the writer, called from a thread that may block.
pub(crate) struct Target {
    pub(crate) writer: Arc<Writer>,
    pub(crate) poller: Arc<Poller>,
    pub(crate) clock: Clock,
    pub(crate) runtime: tokio::runtime::Handle,
}

impl Target {
    /// Writes the records in one transaction; with `last` also the final rows.
    fn write(&self, done: &mut Restore, records: Vec<(u64, Record)>, last: bool) -> Stored<()> {
        let (begun, clock) = (done.clone(), self.clock.clone());
        let work = move |connection: &rusqlite::Connection| {
            // Each attempt starts from a copy, because the transaction may be rolled back and run again.
            let mut restore = begun.clone();
            for (line, record) in &records {
                restore.take(connection, Some(*line), record, &clock)?;
            }
            if last {
                restore.finish(connection)?;
            }
            Ok(restore)
        };
        let before = done.turns;
        *done = self.runtime.block_on(self.writer.submit(work))?;
        self.poller.ended(done.turns - before);
        Ok(())
    }
}

impl Target {
    fn is_taken(&self, label: &str) -> Stored<bool> {
        let label = label.to_owned();
        let there = move |connection: &rusqlite::Connection| pointers::head(connection, &label);
        Ok(self.runtime.block_on(self.writer.submit(there))?.is_some())
    }
}

fn import_own(path: &Path, target: Target) -> Stored<LedgerImport> {
    let mut lines = Lines::open(path)?;
    let mut done = Restore::default();
    let (mut batch, mut bytes, mut usable) = (Vec::new(), 0, false);
    while let Some(line) = lines.next()? {
        let (number, text) = match line {
            Line::Text(number, text) => (number, text),
            Line::Damaged(number, why) => {
                done.problems.add(number, TransferCode::DamagedLine, format!("the line {why}"));
                continue;
            }
        };
        let text = repair_surrogates(text.as_bytes());
        let Ok(text) = std::str::from_utf8(&text) else { continue };
        if serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
            done.problems.add(number, TransferCode::DamagedLine, "the line is no JSON");
            continue;
        }
        match own::read(text)? {
            Read::Header => usable = true,
            Read::Record(record) => {
                usable = true;
                bytes += text.len();
                batch.push((number, record));
            }
            Read::Invalid(why) => {
                done.problems.add(number, TransferCode::InvalidLine, format!("the line {why}"));
            }
        }
        if batch.len() >= BATCH || bytes >= BATCH_BYTES {
            target.write(&mut done, std::mem::take(&mut batch), false)?;
            bytes = 0;
        }
    }
    if !usable {
        return Err(none_usable(path));
    }
    target.write(&mut done, batch, true)?;
    Ok(report(done))
}

/// Imports a file that is one session of another system. It is read whole: an entry may refer to later entries.
fn import_foreign(
    path: &Path,
    format: LedgerFormat,
    label: Option<String>,
    target: &Target,
) -> Stored<LedgerImport> {
    let mut problems = Problems::default();
    let objects = objects(path, format, &mut problems)?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let session = pi::entries::read(objects, &mut problems).map_err(|version| {
        StorageError::new(
            StorageErrorKind::InvalidImport,
            format!(
                "the file has version `{version}` of pi's sessions; update `@nexus/agent-engine`"
            ),
        )
    })?;
    if session.header.is_none() && session.entries.is_empty() {
        return Err(none_usable(path));
    }
    let id = session.header.as_ref().and_then(|header| header.get("id")?.as_str()).unwrap_or(&stem);
    let name = if format == LedgerFormat::Pi { "pi" } else { "myclaw" };
    let label = label.unwrap_or_else(|| format!("{name}:{id}"));
    session_label("session", &label).map_err(|error| {
        StorageError::new(StorageErrorKind::InvalidImport, format!("{error}; pass `session`"))
    })?;
    if target.is_taken(&label)? {
        return Err(StorageError::new(
            StorageErrorKind::Constraint,
            format!("session `{label}` exists already; pass another label as `session`"),
        ));
    }
    let origin = pi::Origin { name, label: &label, id: Some(id) };
    let records = pi::records(&session, &origin, &mut problems, &target.clock);
    let mut done = Restore::default();
    done.problems = problems;
    // In one transaction: a second import could not distinguish half a session from a whole one.
    target.write(&mut done, records, true)?;
    Ok(report(done))
}

/// The lines of a file as entries, each with its number.
fn objects(path: &Path, format: LedgerFormat, problems: &mut Problems) -> Stored<Vec<Numbered>> {
    let mut lines = Lines::open(path)?;
    let mut objects = Vec::new();
    while let Some(line) = lines.next()? {
        let (number, object) = match line {
            Line::Damaged(number, why) => {
                problems.add(number, TransferCode::DamagedLine, format!("the line {why}"));
                (number, None)
            }
            Line::Text(number, text) => {
                match serde_json::from_slice(&repair_surrogates(text.as_bytes())) {
                    Ok(Value::Object(object)) => (number, Some(object)),
                    Ok(_) => {
                        problems.add(number, TransferCode::InvalidLine, "the line is no object");
                        (number, None)
                    }
                    Err(_) => {
                        problems.add(number, TransferCode::DamagedLine, "the line is no JSON");
                        (number, None)
                    }
                }
            }
        };
        let object = match (format, object) {
            (LedgerFormat::Myclaw, Some(object)) => {
                let entry = myclaw::entry(object);
                if entry.is_none() {
                    let why = "the line has no `role` and `content` as MyClaw writes them";
                    problems.add(number, TransferCode::InvalidLine, why);
                }
                entry
            }
            (_, object) => object,
        };
        objects.push((number, object));
    }
    Ok(objects)
}

fn none_usable(path: &Path) -> StorageError {
    StorageError::new(
        StorageErrorKind::InvalidImport,
        format!("`{}` has no line of that format; pass another file or `format`", path.display()),
    )
}

fn report(done: Restore) -> LedgerImport {
    let Problems { mut list, truncated } = done.problems.clone();
    list.sort_by_key(|problem| problem.line);
    LedgerImport {
        sessions: done.labels(),
        turns: done.turns,
        messages: done.messages,
        tool_calls: done.tool_calls,
        skipped_turns: done.skipped_turns,
        problems: list,
        truncated,
        left_out: std::collections::BTreeMap::new(),
    }
}
