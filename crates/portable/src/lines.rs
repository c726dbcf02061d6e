//! The lines of a JSONL file, in order, with their numbers.
//!
//! A line that is not text is reported and skipped. It must never buffer more of a line than the limit.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::Path;

use crate::error::{self, Stored};
use model::{StorageError, StorageErrorKind};

/// The longest line; SQLite would refuse a longer one.
const LONGEST: u64 = 64 << 20;

/// A line that is not blank.
pub(crate) enum Line {
    Text(u64, String),
    /// Not UTF-8, or too long.
    Damaged(u64, &'static str),
}

pub(crate) struct Lines {
    file: BufReader<File>,
    number: u64,
    path: String,
}

impl Lines {
    /// # Errors
    /// `invalid_import` if the path is not a file; any of storage.
    pub(crate) fn open(path: &Path) -> Stored<Self> {
        let reading = |error: std::io::Error| match error.kind() {
            ErrorKind::NotFound => StorageError::new(
                StorageErrorKind::InvalidImport,
                format!("there is no file `{}`; pass the path of one", path.display()),
            ),
            _ => error::file(&format!("read `{}`", path.display()), &error),
        };
        // Reading a pipe could block forever.
        if !std::fs::metadata(path).map_err(reading)?.is_file() {
            return Err(StorageError::new(
                StorageErrorKind::InvalidImport,
                format!("`{}` is not a regular file; pass the path of one", path.display()),
            ));
        }
        let file = BufReader::new(File::open(path).map_err(reading)?);
        Ok(Self { file, number: 0, path: path.display().to_string() })
    }

    /// The next line that is not blank.
    pub(crate) fn next(&mut self) -> Stored<Option<Line>> {
        let path = self.path.clone();
        let reading = |error: std::io::Error| error::file(&format!("read `{path}`"), &error);
        loop {
            let mut bytes = Vec::new();
            let read =
                (&mut self.file).take(LONGEST).read_until(b'\n', &mut bytes).map_err(reading)?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            if !bytes.ends_with(b"\n") && read as u64 == LONGEST {
                self.skip_line().map_err(reading)?;
                return Ok(Some(Line::Damaged(self.number, "is longer than 64 MiB")));
            }
            // A byte order mark is not part of the content.
            let bytes = match self.number {
                1 => bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes).to_vec(),
                _ => bytes,
            };
            match String::from_utf8(bytes) {
                Err(_) => return Ok(Some(Line::Damaged(self.number, "is not UTF-8"))),
                Ok(text) if text.trim().is_empty() => {}
                Ok(text) => return Ok(Some(Line::Text(self.number, text))),
            }
        }
    }

    fn skip_line(&mut self) -> std::io::Result<()> {
        loop {
            let buffer = self.file.fill_buf()?;
            let (used, done) = match memchr::memchr(b'\n', buffer) {
                Some(at) => (at + 1, true),
                None => (buffer.len(), buffer.is_empty()),
            };
            self.file.consume(used);
            if done {
                return Ok(());
            }
        }
    }
}
