//! Goes through a directory in the order of its names, by handles: each name is opened in the open directory that has it, and no
//! link is followed. It must never open a path, and never hold the names of more than the directories above where it is.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use ignore::Match;
use ignore::overrides::Override;
use rustix::fs::{FileType, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::rules::{NAMES, Rules};
use crate::cancel::Cancel;
use crate::error::ToolError;
use crate::root::{Opened, Root};

/// The most names that one search looks at.
const MAX_NAMES: usize = 4_000_000;
/// The deepest directory: each one above it is an open handle.
const MAX_DEPTH: usize = 200;
const BUFFER: usize = 32 * 1024;
const GIT: &str = ".git";

/// A name that is not excluded.
#[derive(Debug, Clone)]
pub(super) struct Found {
    /// Relative to the directory that is searched.
    pub(super) path: String,
    pub(super) kind: FileType,
    pub(super) directory: Arc<OwnedFd>,
    pub(super) name: OsString,
}

/// Why a search did not see everything.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unseen {
    /// Its time was up.
    pub(super) time: bool,
    /// There are more names, or deeper directories, than it looks at.
    pub(super) size: bool,
    /// How many files and directories could not be read.
    pub(super) unreadable: usize,
}

struct Frame {
    directory: Arc<OwnedFd>,
    device: u64,
    /// Relative to the root, with a slash at the end unless it is empty.
    path: String,
    rules: Option<Rc<Rules>>,
    /// The names that are left, the next one last.
    names: Vec<(OsString, FileType)>,
}

/// A walk under way.
pub(super) struct Walk<'w> {
    files: Option<&'w Override>,
    cancel: &'w Cancel,
    frames: Vec<Frame>,
    /// The directory that was found last, which comes next.
    next: Option<Found>,
    start: usize,
    seen: usize,
    pub(super) unseen: Unseen,
    buffer: Vec<MaybeUninit<u8>>,
}

impl<'w> Walk<'w> {
    /// A walk through `directory`, which is `relative` beneath `root`. `files` are searched, or not, whatever the rules say.
    pub(super) fn new(
        root: &Root,
        relative: &Path,
        directory: Opened,
        files: Option<&'w Override>,
        cancel: &'w Cancel,
    ) -> Result<Self, Errno> {
        let mut path = String::new();
        if relative != Path::new(".") {
            path = relative.to_string_lossy().into_owned();
            path.push('/');
        }
        let device = directory.device();
        let mut walk = Self {
            files,
            cancel,
            frames: Vec::new(),
            next: None,
            start: path.len(),
            seen: 0,
            unseen: Unseen::default(),
            buffer: vec![MaybeUninit::uninit(); BUFFER],
        };
        let rules = Rules::above(root, relative);
        walk.push(directory.into_directory()?, device, path, rules)?;
        Ok(walk)
    }

    /// The next name; nothing at the end, or where the search stops early.
    pub(super) fn next(&mut self) -> Result<Option<Found>, ToolError> {
        if let Some(directory) = self.next.take() {
            self.descend(&directory);
        }
        while let Some(frame) = self.frames.last_mut() {
            self.cancel.check()?;
            if self.cancel.is_expired() {
                self.unseen.time = true;
                return Ok(None);
            }
            let Some((name, kind)) = frame.names.pop() else {
                self.frames.pop();
                continue;
            };
            self.seen += 1;
            if self.seen > MAX_NAMES {
                self.unseen.size = true;
                return Ok(None);
            }
            let path = format!("{}{}", frame.path, name.to_string_lossy());
            let kind = if kind == FileType::Unknown {
                match Opened::entry(&frame.directory, &name) {
                    Ok(opened) => opened.kind(),
                    Err(_) => continue,
                }
            } else {
                kind
            };
            let is_directory = kind == FileType::Directory;
            let shown = path.get(self.start..).unwrap_or_default();
            if excluded(self.files, frame.rules.as_deref(), shown, &path, is_directory) {
                continue;
            }
            let directory = Arc::clone(&frame.directory);
            let mut found = Found { path, kind, directory, name };
            if is_directory {
                self.next = Some(found.clone());
            }
            if self.start > 0 {
                found.path = found.path.get(self.start..).unwrap_or_default().to_owned();
            }
            return Ok(Some(found));
        }
        Ok(None)
    }

    /// Continues in a directory; one that is gone, or a link by now, is left out.
    fn descend(&mut self, found: &Found) {
        let Some(above) = self.frames.last() else { return };
        let (device, rules) = (above.device, above.rules.clone());
        if self.frames.len() == MAX_DEPTH {
            self.unseen.size = true;
            return;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&*found.directory, &found.name, flags, Mode::empty())
            .and_then(Opened::new)
            .and_then(|opened| {
                // Another file system is mounted here: it may be the kernel's.
                let other = opened.device() != device;
                if other && opened.refuse_special("").is_err() {
                    return Ok(());
                }
                let device = opened.device();
                self.push(opened.into_handle(), device, format!("{}/", found.path), rules)
            });
        match opened {
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(_) => self.unseen.unreadable += 1,
        }
    }

    fn push(
        &mut self,
        directory: OwnedFd,
        device: u64,
        path: String,
        above: Option<Rc<Rules>>,
    ) -> Result<(), Errno> {
        let mut names = Vec::new();
        let mut entries = RawDir::new(&directory, &mut self.buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name != "." && name != ".." && !name.eq_ignore_ascii_case(GIT) {
                names.push((name.to_owned(), entry.file_type()));
            }
            if self.seen + names.len() > MAX_NAMES || self.cancel.is_expired() {
                // The next step ends the walk.
                break;
            }
        }
        names.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
        let there = NAMES.map(|name| {
            names.binary_search_by(|(other, _)| OsStr::new(name).cmp(other)).is_ok().then_some(name)
        });
        let there: Vec<&str> = there.into_iter().flatten().collect();
        let rules = Rules::of(&directory, &there, path.len(), above);
        self.frames.push(Frame { directory: Arc::new(directory), device, path, rules, names });
        Ok(())
    }
}

fn excluded(
    files: Option<&Override>,
    rules: Option<&Rules>,
    shown: &str,
    path: &str,
    is_directory: bool,
) -> bool {
    match files.map(|files| files.matched(shown, is_directory)) {
        Some(Match::Ignore(_)) => true,
        Some(Match::Whitelist(_)) => false,
        Some(Match::None) | None => rules.is_some_and(|rules| rules.exclude(path, is_directory)),
    }
}
