//! The files as they are before and while a patch is applied. It must never request a file twice, nor one that the patch does
//! not name.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::hunks::HunkReport;
use super::work::Work;

/// One file that the patch changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// Relative to the workspace.
    pub path: String,
    /// What happens to the file.
    pub kind: ChangeKind,
    /// Its content after the patch; none if it is deleted.
    pub content: Option<Vec<u8>>,
    /// The file that it was before, if it was moved or copied: the new one takes its mode.
    pub source: Option<String>,
    /// Where its hunks were applied, in the order of the patch.
    pub hunks: Vec<HunkReport>,
}

/// What happens to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ChangeKind {
    /// It did not exist.
    Added,
    /// It gets another content.
    Modified,
    /// It is removed. A file that is moved is deleted at its old path and added at its new one.
    Deleted,
}

/// The content of a file, with its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) bytes: Rc<Vec<u8>>,
    pub(super) source: Option<String>,
    pub(super) hunks: Vec<HunkReport>,
}

struct Versions {
    original: Option<Rc<Vec<u8>>>,
    current: Option<Content>,
    is_written: bool,
}

/// The files of a patch, by path.
pub(super) struct Files<'r> {
    read: &'r dyn Fn(&str) -> Option<Vec<u8>>,
    files: BTreeMap<String, Versions>,
}

impl<'r> Files<'r> {
    pub(super) fn new(read: &'r dyn Fn(&str) -> Option<Vec<u8>>) -> Self {
        Self { read, files: BTreeMap::new() }
    }

    fn versions(&mut self, path: &str, work: &mut Work) -> &mut Versions {
        let read = self.read;
        self.files.entry(path.to_owned()).or_insert_with(|| {
            let original = read(path).map(Rc::new);
            if let Some(bytes) = &original {
                work.allow(bytes.len());
            }
            let current =
                original.clone().map(|bytes| Content { bytes, source: None, hunks: Vec::new() });
            Versions { original, current, is_written: false }
        })
    }

    /// The file after the sections so far.
    pub(super) fn current(&mut self, path: &str, work: &mut Work) -> Option<Content> {
        self.versions(path, work).current.clone()
    }

    /// The file before the patch.
    pub(super) fn original(&mut self, path: &str, work: &mut Work) -> Option<Rc<Vec<u8>>> {
        self.versions(path, work).original.clone()
    }

    pub(super) fn write(&mut self, path: &str, content: Option<Content>, work: &mut Work) {
        let versions = self.versions(path, work);
        versions.current = content;
        versions.is_written = true;
    }

    /// A file whose name a directory of `path` needs.
    pub(super) fn above(&self, path: &str) -> Option<&str> {
        path.match_indices('/').find_map(|(end, _)| {
            let (file, versions) = self.files.get_key_value(path.get(..end)?)?;
            versions.current.is_some().then_some(file.as_str())
        })
    }

    /// What the sections changed, by path.
    pub(super) fn changes(self) -> Vec<FileChange> {
        let written = self.files.into_iter().filter(|(_, versions)| versions.is_written);
        written
            .filter_map(|(path, versions)| {
                let kind = match (&versions.original, &versions.current) {
                    (None, None) => return None,
                    (None, Some(_)) => ChangeKind::Added,
                    (Some(_), Some(_)) => ChangeKind::Modified,
                    (Some(_), None) => ChangeKind::Deleted,
                };
                let Some(Content { bytes, source, hunks }) = versions.current else {
                    return Some(FileChange {
                        path,
                        kind,
                        content: None,
                        source: None,
                        hunks: Vec::new(),
                    });
                };
                drop(versions.original);
                let content = Some(Rc::unwrap_or_clone(bytes));
                Some(FileChange { path, kind, content, source, hunks })
            })
            .collect()
    }
}
