//! The lines that one thread finds in some files of a search. It must never find more of them than one result can show.

use std::ffi::OsString;
use std::fs;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::lines::{Line, Search};
use super::walk::Unseen;
use crate::error::{ToolError, system};
use crate::root::{Opened, ProtectedFiles};
use crate::text::MAX_BYTES;
use rustix::fs::FileType;

/// UTF-16 units of a line that are shown.
pub(super) const MAX_LINE: usize = 500;

/// A file to search.
pub(super) struct File {
    pub(super) path: String,
    pub(super) directory: Arc<OwnedFd>,
    pub(super) name: OsString,
}

/// Some files of a walk, in its order.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) files: Vec<File>,
    /// What the walk had not seen when it came to the last of them.
    pub(super) unseen: Unseen,
}

/// A line as it is shown.
pub(super) struct ShownLine {
    pub(super) number: u64,
    pub(super) text: String,
    pub(super) is_match: bool,
    pub(super) is_long: bool,
}

/// What was found in a batch.
#[derive(Default)]
pub(super) struct Searched {
    /// The lines of each file that has some, and those of a file that could not be read.
    pub(super) files: Vec<Result<(String, Vec<ShownLine>), ToolError>>,
    pub(super) unseen: Unseen,
}

/// Searches files, on one thread.
pub(super) struct Finder<'c> {
    search: Search<'c>,
    protected: &'c ProtectedFiles,
    /// The most matches that the result shows.
    limit: usize,
    matches: usize,
    bytes: usize,
}

impl<'c> Finder<'c> {
    pub(super) fn new(search: Search<'c>, protected: &'c ProtectedFiles, limit: usize) -> Self {
        Self { search, protected, limit, matches: 0, bytes: 0 }
    }

    /// Searches a batch. What comes after enough lines for the result is not searched.
    pub(super) fn batch(&mut self, batch: Batch) -> Searched {
        (self.matches, self.bytes) = (0, 0);
        let mut searched = Searched { files: Vec::new(), unseen: batch.unseen };
        for file in batch.files {
            if self.is_full() || self.search.is_stopped() {
                break;
            }
            match self.named(&file) {
                Ok(lines) if lines.is_empty() => {}
                Ok(lines) => searched.files.push(Ok((file.path, lines))),
                Err(error) => searched.files.push(Err(error)),
            }
        }
        searched
    }

    fn is_full(&self) -> bool {
        self.matches > self.limit || self.bytes > MAX_BYTES
    }

    fn named(&mut self, file: &File) -> Result<Vec<ShownLine>, ToolError> {
        let Some((mut content, size)) = self.open(file)? else { return Ok(Vec::new()) };
        Ok(self.file(&file.path, &mut content, size)?.unwrap_or_default())
    }

    /// A file and its size; nothing where it is not to be searched.
    fn open(&self, file: &File) -> Result<Option<(fs::File, u64)>, ToolError> {
        let File { path, directory, name } = file;
        let failed = |error| system(path, error);
        if self.protected.have_links() {
            // Each file may be one of them: it is not opened before that is known.
            let opened = Opened::entry(directory, name).map_err(failed)?;
            let is_searched =
                opened.kind() == FileType::RegularFile && !self.protected.has(opened.identity());
            return is_searched.then(|| Ok((opened.file(path)?, opened.size()))).transpose();
        }
        let Some(opened) = Opened::regular(directory, name).map_err(failed)? else {
            return Ok(None);
        };
        let size = opened.size();
        if self.protected.has(opened.identity()) {
            // It was moved here since the search began. Closing it would drop SQLite's locks: the handle stays open.
            std::mem::forget(opened);
            return Ok(None);
        }
        Ok(Some((fs::File::from(opened.into_handle()), size)))
    }

    /// The lines of a file; `None` where it is not text. One match more than the limit is looked for, to know whether there are more.
    pub(super) fn file(
        &mut self,
        path: &str,
        content: &mut fs::File,
        size: u64,
    ) -> Result<Option<Vec<ShownLine>>, ToolError> {
        let mut lines = Vec::new();
        if size == 0 {
            return Ok(Some(lines));
        }
        let Self { search, limit, matches, bytes, .. } = self;
        let is_text = search.file(content, size, path, |line| {
            let Line { number, text, is_match } = line;
            let (text, is_long) = shown(text);
            *matches += usize::from(is_match);
            *bytes += text.len();
            lines.push(ShownLine { number, text, is_match, is_long });
            // Lines before a match come with it: the last one is a match.
            !is_match || (*matches <= *limit && *bytes <= MAX_BYTES)
        })?;
        Ok(is_text.then_some(lines))
    }
}

/// A line without carriage returns, cut where pi cuts it; whether it was.
fn shown(line: &[u8]) -> (String, bool) {
    let text = String::from_utf8_lossy(line).replace('\r', "");
    let mut units = 0;
    for (at, char) in text.char_indices() {
        units += char.len_utf16();
        if units > MAX_LINE {
            let start = text.get(..at).unwrap_or_default();
            return (format!("{start}... [truncated]"), true);
        }
    }
    (text, false)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::AtomicBool;

    use rustix::fs::{Mode, mknodat};

    use super::*;
    use crate::cancel::Cancel;
    use crate::root::Protected;
    use crate::search::pattern::expression;

    #[test]
    fn what_took_the_place_of_a_file_is_not_read_and_the_handle_of_a_protected_one_stays_open() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["agent.db", "file"] {
            fs::write(path(name), "word").unwrap();
        }
        let protected = Protected::new(&[path("agent.db")]).files();
        assert!(!protected.have_links());
        // After the search has begun.
        fs::rename(path("agent.db"), path("moved")).unwrap();
        let directory = Arc::new(OwnedFd::from(fs::File::open(dir.path()).unwrap()));
        mknodat(&*directory, "fifo", FileType::Fifo, Mode::RUSR, 0).unwrap();
        symlink("file", path("link")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        let (cancel, stop) = (Cancel::default(), AtomicBool::new(false));
        let matcher = expression("word", false, false).unwrap();
        let mut finder = Finder::new(Search::new(matcher, 0, &cancel, &stop), &protected, 10);
        let mut lines = |name: &str| {
            let (path, name) = (name.to_owned(), OsString::from(name));
            let file = File { path, directory: Arc::clone(&directory), name };
            finder.named(&file).unwrap().len()
        };
        let found = ["file", "moved", "fifo", "link", "folder"].map(|name| (name, lines(name)));
        let expected = [("file", 1), ("moved", 0), ("fifo", 0), ("link", 0), ("folder", 0)];
        assert_eq!(found, expected);
        let handles = fs::read_dir("/proc/self/fd").unwrap().flatten();
        let open = handles.filter_map(|each| fs::read_link(each.path()).ok());
        let beneath: Vec<_> = open.filter(|each| each.parent() == Some(dir.path())).collect();
        assert_eq!(beneath, [path("moved")]);
    }
}
