//! The file that an export writes, and its report. It must never be reported as complete before it is on disk.

use std::io::{BufWriter, Write};
use std::path::Path;

use serde::Serialize;

use crate::error::{self, Stored};
use crate::report::Problems;
use model::{LedgerExport, StorageError, StorageErrorKind};

/// The file that an export writes.
pub(crate) struct Out<W: Write> {
    pub(crate) file: W,
    pub(crate) report: LedgerExport,
    pub(crate) problems: Problems,
}

impl Out<BufWriter<std::fs::File>> {
    pub(crate) fn create(draft: &Path) -> Stored<Self> {
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

    /// Completes the file, which is synced when it is renamed.
    pub(crate) fn finish(mut self) -> Stored<LedgerExport> {
        let writing = |error| error::file("write the export", &error);
        self.file.flush().map_err(writing)?;
        let Problems { list, truncated } = self.problems;
        Ok(LedgerExport { problems: list, truncated, ..self.report })
    }
}

impl<W: Write> Out<W> {
    pub(crate) fn line(&mut self, value: &impl Serialize) -> Stored<()> {
        let mut text = serde_json::to_vec(value).map_err(|error| {
            StorageError::new(StorageErrorKind::Io, format!("a line has no JSON: {error}"))
        })?;
        text.push(b'\n');
        self.report.lines += 1;
        self.report.bytes += text.len() as u64;
        self.file.write_all(&text).map_err(|error| error::file("write the export", &error))
    }
}
