//! `import`: reads a file line by line, with a problem for each line that was not imported.
//!
//! It must never move a session that existed before.

use std::path::Path;

use serde_json::Value;

use crate::error::Stored;
use crate::lines::{Line, Lines};
use crate::own::Read;
use crate::pi::entries::Numbered;
use crate::report::Problems;
use crate::restore::{Record, Restore};
use crate::{myclaw, own, pi};
use base::clock::Clock;
use model::{
    LedgerFormat, LedgerImport, StorageError, StorageErrorKind, TransferCode, repair_surrogates,
    session_label,
};

/// Lines of one transaction, so that other jobs wait only briefly.
const BATCH: usize = 256;
/// Bytes of one transaction.
const BATCH_BYTES: usize = 8 << 20;

/// Imports the sessions of a file. It blocks: on the disk, and on the target.
///
/// # Errors
/// `invalid_import` for what is no file of that format; those of the target.
pub fn import(
    path: &Path,
    format: LedgerFormat,
    label: Option<String>,
    target: &dyn Target,
) -> Stored<LedgerImport> {
    match format {
        LedgerFormat::Ledger => import_own(path, target),
        LedgerFormat::Pi | LedgerFormat::Myclaw => import_foreign(path, format, label, target),
    }
}

/// The target of an import, called from a thread that may block.
pub trait Target {
    /// Calls [`Restore::take`] with each record, in one transaction; with `last` also [`Restore::finish`].
    ///
    /// # Errors
    /// Those of storage.
    fn write(&self, done: &mut Restore, records: Vec<(u64, Record)>, last: bool) -> Stored<()>;
    /// Whether there is such a session.
    ///
    /// # Errors
    /// Those of storage.
    fn is_taken(&self, label: &str) -> Stored<bool>;
    /// The clock of new ids.
    fn clock(&self) -> &Clock;
}

fn import_own(path: &Path, target: &dyn Target) -> Stored<LedgerImport> {
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
    target: &dyn Target,
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
    let records = pi::records(&session, &origin, &mut problems, target.clock());
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
