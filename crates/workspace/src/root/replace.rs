//! Replacing a file: a temporary file in the same directory, synced, then renamed over it. A reader sees the old content or the
//! new, and a crash leaves one of them.
//!
//! It must never write into a file that exists: a hard link of it may be outside.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Access, AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::directory::{Create, Root};
use super::opened::{Identity, Opened, file_type, refuse_kind, version};
use super::protected::{Protected, refuse_reserved_parts};
use crate::cancel::Cancel;
use crate::error::{ToolError, quoted, system};

/// Symbolic links of a file's own name that are followed.
const MAX_LINKS: usize = 16;
const CHUNK: usize = 1024 * 1024;
/// Numbers the temporary files of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A name in an open directory that is to be written.
#[derive(Debug)]
pub(crate) struct Target {
    directory: OwnedFd,
    name: OsString,
    existing: Option<Stat>,
}

impl Target {
    /// Finds the directory and name behind a path; missing directories are made with `Create::Missing`.
    pub(crate) fn find(
        root: &Root,
        protected: &Protected,
        relative: &Path,
        create: Create,
        path: &str,
    ) -> Result<Self, ToolError> {
        let fail = |error| system(path, error);
        let mut relative = relative.to_owned();
        let mut create = create;
        refuse_reserved_parts(&relative, path)?;
        for _ in 0..MAX_LINKS {
            let Some(name) = relative.file_name().map(OsStr::to_owned) else {
                return Err(is_directory(path));
            };
            let parent = match relative.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
                Some(_) | None => PathBuf::from("."),
            };
            if create == Create::Missing {
                protected.refuse_new(root, &parent, &name, path)?;
            }
            let directory = root.open_directory(&parent, create).map_err(fail)?;
            let stat = match rustix::fs::statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => Some(stat),
                Err(Errno::NOENT) => None,
                Err(error) => return Err(fail(error)),
            };
            match stat.as_ref().map(file_type) {
                None | Some(FileType::RegularFile) => {
                    protected.refuse_entry(root, &directory, &name, path)?;
                    if let Some(stat) = &stat {
                        protected.refuse_file(Identity::of(stat), path)?;
                        let write = Access::WRITE_OK;
                        rustix::fs::accessat(&directory, &name, write, AtFlags::EACCESS)
                            .map_err(fail)?;
                    }
                    return Ok(Self { directory, name, existing: stat });
                }
                Some(FileType::Symlink) => {
                    let link =
                        rustix::fs::readlinkat(&directory, &name, Vec::new()).map_err(fail)?;
                    let link = PathBuf::from(OsString::from_vec(link.into_bytes()));
                    if link.is_absolute() {
                        return Err(fail(Errno::XDEV));
                    }
                    relative = parent.join(link);
                    create = Create::Nothing;
                }
                Some(FileType::Directory) => return Err(is_directory(path)),
                Some(other) => refuse_kind(other, path)?,
            }
        }
        Err(fail(Errno::LOOP))
    }

    /// Whether the name still is the file that was read, unchanged.
    pub(crate) fn is_still(&self, read: &Opened) -> bool {
        self.existing.as_ref().map(version) == Some(read.version())
    }

    /// Writes the content. The mode of a file that exists stays. With `unless_changed` a file that another process replaced since
    /// `find` is left alone.
    pub(crate) fn replace(
        &self,
        content: &[u8],
        unless_changed: bool,
        cancel: &Cancel,
        path: &str,
    ) -> Result<(), ToolError> {
        let fail = |error| system(path, error);
        let mut temporary = Temporary::create(&self.directory).map_err(fail)?;
        for chunk in content.chunks(CHUNK) {
            cancel.check()?;
            temporary.file.write_all(chunk).map_err(|error| io_error(path, &error))?;
        }
        if let Some(existing) = &self.existing {
            let mode = Mode::from_raw_mode(existing.st_mode & 0o777);
            rustix::fs::fchmod(&temporary.file, mode).map_err(fail)?;
        }
        temporary.file.sync_all().map_err(|error| io_error(path, &error))?;
        cancel.check()?;
        if unless_changed {
            let now = rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW);
            if now.ok().as_ref().map(version) != self.existing.as_ref().map(version) {
                return Err(changed(path));
            }
        }
        temporary.rename(&self.name).map_err(fail)?;
        sync_directory(&self.directory).map_err(fail)
    }
}

/// The error of a file that another process changed.
pub(crate) fn changed(path: &str) -> ToolError {
    let path = quoted(path);
    ToolError::new(format!("`{path}` was changed by another process meanwhile; read it again"))
}

fn is_directory(path: &str) -> ToolError {
    ToolError::new(format!("`{}` is a directory", quoted(path)))
}

fn io_error(path: &str, error: &std::io::Error) -> ToolError {
    ToolError::new(format!("`{}` could not be written: {error}", quoted(path)))
}

/// Makes the rename durable. A directory that this process cannot read cannot be synced.
pub(crate) fn sync_directory(directory: &OwnedFd) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(directory, ".", flags, Mode::empty()) {
        Err(Errno::ACCESS) => Ok(()),
        Err(error) => Err(error),
        Ok(readable) => match rustix::fs::fsync(readable) {
            // Some file systems cannot sync a directory.
            Err(Errno::INVAL) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        },
    }
}

/// A temporary file, removed unless it is renamed.
struct Temporary<'a> {
    directory: &'a OwnedFd,
    name: String,
    file: File,
    renamed: bool,
}

impl<'a> Temporary<'a> {
    fn create(directory: &'a OwnedFd) -> Result<Self, Errno> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!(".nexus-{}-{number}.tmp", std::process::id());
            match rustix::fs::openat(directory, &name, flags, Mode::from_raw_mode(0o666)) {
                Ok(handle) => {
                    return Ok(Self { directory, name, file: File::from(handle), renamed: false });
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn rename(&mut self, name: &OsStr) -> Result<(), Errno> {
        rustix::fs::renameat(self.directory, &self.name, self.directory, name)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.renamed {
            // The call already fails; a file that cannot be removed stays, and harms nothing.
            let _removed = rustix::fs::unlinkat(self.directory, &self.name, AtFlags::empty());
        }
    }
}
