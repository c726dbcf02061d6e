//! What a path names, held by a handle that reads nothing (`O_PATH`), and opened for reading after its kind is known.
//!
//! It must never open a FIFO, a device, a socket or a file of `/proc` for reading: one blocks, another acts when it is opened. A
//! search opens what its directory calls a file in one step; what took its place since then is closed, without a wait or a read.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat};
use rustix::io::Errno;

use crate::error::{ToolError, quoted, system};

const NOT_WAITING: OFlags = OFlags::CLOEXEC.union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

/// Which file it is, whatever its names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }

    pub(crate) fn of_handle(handle: impl AsFd) -> Result<Self, Errno> {
        Ok(Self::of(&rustix::fs::fstat(handle)?))
    }
}

/// A file or directory that a path named.
#[derive(Debug)]
pub(crate) struct Opened {
    handle: OwnedFd,
    stat: Stat,
}

impl Opened {
    pub(crate) fn new(handle: OwnedFd) -> Result<Self, Errno> {
        let stat = rustix::fs::fstat(&handle)?;
        Ok(Self { handle, stat })
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity::of(&self.stat)
    }

    /// The size, and when the content changed last: a file that was written meanwhile differs.
    pub(crate) fn version(&self) -> (Identity, i64, i64, u64) {
        version(&self.stat)
    }

    /// A name in an open directory; a link is not followed.
    pub(crate) fn entry(directory: &OwnedFd, name: &OsStr) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Self::new(rustix::fs::openat(directory, name, flags, Mode::empty())?)
    }

    /// A regular file by its name in an open directory, opened for reading; nothing where it is something else by now. A link is not
    /// followed, and a FIFO is not waited for.
    pub(crate) fn regular(directory: &OwnedFd, name: &OsStr) -> Result<Option<Self>, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | NOT_WAITING;
        match rustix::fs::openat(directory, name, flags, Mode::empty()) {
            Ok(handle) => {
                let opened = Self::new(handle)?;
                Ok((opened.kind() == FileType::RegularFile).then_some(opened))
            }
            // A link, or a socket.
            Err(Errno::LOOP | Errno::NXIO) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn stat(&self) -> &Stat {
        &self.stat
    }

    pub(crate) fn kind(&self) -> FileType {
        file_type(&self.stat)
    }

    pub(crate) fn device(&self) -> u64 {
        self.stat.st_dev
    }

    pub(crate) fn into_handle(self) -> OwnedFd {
        self.handle
    }

    /// This directory, opened for reading its names.
    pub(crate) fn into_directory(self) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.handle, ".", flags, Mode::empty())
    }

    pub(crate) fn is_directory(&self) -> bool {
        file_type(&self.stat) == FileType::Directory
    }

    pub(crate) fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }

    /// Refuses everything but files and directories, and the file systems of the kernel.
    pub(crate) fn refuse_special(&self, path: &str) -> Result<(), ToolError> {
        refuse_kind(file_type(&self.stat), path)?;
        let system_of = rustix::fs::fstatfs(&self.handle).map_err(|error| system(path, error))?;
        // The second number is sysfs.
        if system_of.f_type == PROC_SUPER_MAGIC || system_of.f_type == 0x6265_6572 {
            let path = quoted(path);
            return Err(ToolError::new(format!("`{path}` belongs to the kernel, and is not read")));
        }
        Ok(())
    }

    /// Opens exactly this file for reading, whatever its path names by now.
    pub(crate) fn file(&self, path: &str) -> Result<File, ToolError> {
        let name = format!("/proc/self/fd/{}", self.handle.as_raw_fd());
        let flags = OFlags::RDONLY | NOT_WAITING;
        let handle = rustix::fs::open(name, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOENT => ToolError::new("a file can only be read while `/proc` is mounted"),
            other => system(path, other),
        })?;
        Ok(File::from(handle))
    }

    /// Opens this directory for reading.
    pub(crate) fn directory(&self, path: &str) -> Result<OwnedFd, ToolError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.handle, ".", flags, Mode::empty())
            .map_err(|error| system(path, error))
    }
}

impl AsFd for Opened {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.handle.as_fd()
    }
}

pub(crate) fn version(stat: &Stat) -> (Identity, i64, i64, u64) {
    let nanoseconds = u64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    (Identity::of(stat), stat.st_size, stat.st_mtime, nanoseconds)
}

pub(crate) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Refuses what is neither a file nor a directory.
pub(crate) fn refuse_kind(kind: FileType, path: &str) -> Result<(), ToolError> {
    let what = match kind {
        FileType::RegularFile | FileType::Directory => return Ok(()),
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Symlink => "a symbolic link",
        FileType::Unknown => "of an unknown kind",
    };
    Err(ToolError::new(format!("`{}` is {what}, and not a file or a directory", quoted(path))))
}
