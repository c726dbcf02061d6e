//! A root: a directory handle beneath which the kernel resolves every path (`openat2` with `RESOLVE_BENEATH` and
//! `RESOLVE_NO_MAGICLINKS`). It must never resolve a path in another way.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::opened::{Identity, Opened};

/// How often a lookup is repeated that a concurrent rename disturbed.
const ATTEMPTS: usize = 256;

/// A directory, and everything beneath it.
#[derive(Debug)]
pub(crate) struct Root {
    handle: OwnedFd,
    identity: Identity,
}

impl Root {
    /// Opens a directory; returns its names too: as given, and without symbolic links.
    pub(crate) fn open(path: &Path) -> Result<(Self, Vec<PathBuf>), Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = rustix::fs::open(path, flags, Mode::empty())?;
        let identity = Identity::of_handle(&handle)?;
        let root = Self { handle, identity };
        root.open_path(Path::new("."))?;
        let mut given = PathBuf::new();
        for part in path.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => {
                    given.pop();
                }
                Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                    given.push(part)
                }
            }
        }
        let mut names = vec![given];
        let real = std::fs::canonicalize(path);
        let real = real.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        if !names.contains(&real) {
            names.push(real);
        }
        Ok((root, names))
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Whether the directory itself has an entry of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        rustix::fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// What a path beneath this root names. Symbolic links are followed as long as they stay beneath it.
    pub(crate) fn open_path(&self, relative: &Path) -> Result<Opened, Errno> {
        Opened::new(self.resolve(relative, OFlags::PATH)?)
    }

    /// The directory of this path; with `create` it is made, and so is every directory before it.
    pub(crate) fn open_directory(&self, relative: &Path, create: Create) -> Result<OwnedFd, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        match (self.resolve(relative, flags), create) {
            (Err(Errno::NOENT), Create::Missing) => {}
            (found, Create::Missing | Create::Nothing) => return found,
        }
        let mut directory = self.resolve(Path::new("."), flags)?;
        let mut path = PathBuf::new();
        for part in relative.components() {
            path.push(part);
            directory = match self.resolve(&path, flags) {
                Err(Errno::NOENT) => {
                    make(&directory, part.as_os_str())?;
                    self.resolve(&path, flags)?
                }
                found => found?,
            };
        }
        Ok(directory)
    }

    fn resolve(&self, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut last = Errno::AGAIN;
        for _ in 0..ATTEMPTS {
            match rustix::fs::openat2(&self.handle, relative, flags, Mode::empty(), beneath) {
                Err(error @ (Errno::AGAIN | Errno::INTR)) => last = error,
                found => return found,
            }
        }
        Err(last)
    }
}

/// Whether directories are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Create {
    Missing,
    Nothing,
}

/// Makes one directory in an open one. One that another call made meanwhile is fine.
fn make(directory: &OwnedFd, name: &OsStr) -> Result<(), Errno> {
    match rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(0o777)) {
        Err(Errno::EXIST) | Ok(()) => Ok(()),
        Err(error) => Err(error),
    }
}
