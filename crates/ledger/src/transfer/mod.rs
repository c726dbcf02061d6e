//! Sessions out of the ledger into a file, and into it from one.
//!
//! Owns `export` and `import` as the host calls them: one snapshot out, whole or not at all; in, line by line, with
//! everything that was not taken told by its number. It must never move a session that was there before.

mod fitted;
mod insert;
mod lines;
mod myclaw;
mod own;
mod pi;
mod record;
mod report;
mod restore;
mod tree;

use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use self::lines::{Line, Lines};
use self::own::Read;
use self::pi::entries::Numbered;
use crate::events::poller::Poller;
use crate::open::draft;
use crate::rows::row_types;
use crate::sessions::pointers::{self, unknown_session};
use crate::sqlite::error::{self, Stored};
use crate::sqlite::writer::Writer;
use base::clock::Clock;
use model::{StorageError, StorageErrorKind, repair_surrogates, session_label};

pub(super) use self::record::{MessageRecord, Moved, SessionRecord, TurnRecord};
pub(super) use self::report::Problems;
pub(super) use self::restore::{Record, Restore};

pub use self::report::{LedgerExport, LedgerFormat, LedgerImport, TransferCode, TransferProblem};

/// Lines of one transaction: what others wait for is short.
const BATCH: usize = 256;
/// Bytes of one transaction.
const BATCH_BYTES: usize = 8 << 20;

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

/// Where an import goes: the one writer, asked from a thread that may wait.
pub(crate) struct Target {
    pub(crate) writer: Arc<Writer>,
    pub(crate) poller: Arc<Poller>,
    pub(crate) clock: Clock,
    pub(crate) runtime: tokio::runtime::Handle,
}

impl Target {
    /// Writes the records in one transaction, and with `last` what had to wait for all of them.
    fn write(&self, done: &mut Restore, records: Vec<(u64, Record)>, last: bool) -> Stored<()> {
        let (begun, clock) = (done.clone(), self.clock.clone());
        let work = move |connection: &rusqlite::Connection| {
            // Begun anew each time: the transaction may be rolled back and done again.
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

/// Takes in a file that is one session of another system. It is read whole: an entry says where a later one begins.
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
            format!("session `{label}` is there already; pass another label as `session`"),
        ));
    }
    let origin = pi::Origin { name, label: &label, id: Some(id) };
    let records = pi::records(&session, &origin, &mut problems, &target.clock);
    let mut done = Restore::default();
    done.problems = problems;
    // In one transaction: half a session could not be told from a whole one when it is imported again.
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

/// Writes one session in the format of another system.
fn foreign<W: Write>(
    connection: &rusqlite::Connection,
    format: LedgerFormat,
    label: &str,
    out: &mut Out<W>,
) -> Stored<()> {
    let session = row_types::session(connection, label)?.ok_or_else(|| unknown_session(label))?;
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

/// The file that an export writes.
struct Out<W: Write> {
    file: W,
    report: LedgerExport,
    problems: Problems,
}

impl Out<BufWriter<std::fs::File>> {
    fn create(draft: &Path) -> Stored<Self> {
        let file = std::fs::OpenOptions::new()
            .write(true)
            .open(draft)
            .map_err(|error| error::file("write the export", &error))?;
        Ok(Self {
            file: BufWriter::with_capacity(1 << 16, file),
            report: LedgerExport::default(),
            problems: Problems::default(),
        })
    }

    /// All of it is on the disk, before it gets its name.
    fn finish(mut self) -> Stored<LedgerExport> {
        let writing = |error| error::file("write the export", &error);
        self.file.flush().map_err(writing)?;
        self.file.get_ref().sync_all().map_err(writing)?;
        let Problems { list, truncated } = self.problems;
        Ok(LedgerExport { problems: list, truncated, ..self.report })
    }
}

impl<W: Write> Out<W> {
    fn line(&mut self, value: &impl Serialize) -> Stored<()> {
        let mut text = serde_json::to_vec(value).map_err(|error| {
            StorageError::new(StorageErrorKind::Io, format!("a line has no JSON: {error}"))
        })?;
        text.push(b'\n');
        self.report.lines += 1;
        self.report.bytes += text.len() as u64;
        self.file.write_all(&text).map_err(|error| error::file("write the export", &error))
    }
}
