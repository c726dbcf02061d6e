//! The temporary directory of a workspace's shells, and the files with long outputs: of shells, and of other tools of a run. All of it is
//! removed with the workspace; what a process left that was killed, with the next one that makes such a directory.
//!
//! It must never remove a directory that is in use: each has a lock, which ends with its process, also one of another container.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{FlockOperation, Mode, OFlags};

/// The beginning of their names; the number of the process and their own follow.
const PREFIX: &str = "nexus-agent-";
/// Numbers the directories of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A directory that only this user reads.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    outputs: AtomicU32,
    /// Held as long as it is in use; `None` where the file system has no locks, and nobody removes it.
    _lock: Option<OwnedFd>,
}

impl Scratch {
    pub(crate) fn create(beneath: &Path) -> io::Result<Self> {
        remove_abandoned(beneath);
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = beneath.join(format!("{PREFIX}{}-{number}", std::process::id()));
            match builder.create(&path) {
                // It may be of an earlier process, or a link that somebody else put there.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => {
                    created?;
                    let lock = locked(&path);
                    if lock.is_none() && !path.exists() {
                        // Another process removed it before it had its lock.
                        continue;
                    }
                    let scratch = Self { path, outputs: AtomicU32::new(0), _lock: lock };
                    builder.create(scratch.temporary())?;
                    builder.create(scratch.home())?;
                    builder.create(scratch.outputs())?;
                    return Ok(scratch);
                }
            }
        }
    }

    /// What shells have as `TMPDIR`.
    pub(crate) fn temporary(&self) -> PathBuf {
        self.path.join("tmp")
    }

    /// What restricted shells have as `HOME`.
    pub(crate) fn home(&self) -> PathBuf {
        self.path.join("home")
    }

    /// Where long outputs are; a shell cannot write there.
    pub(crate) fn outputs(&self) -> PathBuf {
        self.path.join("output")
    }

    /// A new file for an output of a tool.
    pub(crate) fn output(&self, tool: &str) -> io::Result<(PathBuf, File)> {
        let number = self.outputs.fetch_add(1, Ordering::Relaxed);
        let path = self.outputs().join(format!("{tool}-{number}.log"));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        Ok((path, file))
    }
}

/// The lock of a directory; `None` where another process has it, or it is none of this user's.
fn locked(path: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    rustix::fs::flock(&handle, FlockOperation::NonBlockingLockExclusive).ok()?;
    let opened = rustix::fs::fstat(&handle).ok()?;
    let named = rustix::fs::lstat(path).ok()?;
    let is_own = opened.st_uid == rustix::process::geteuid().as_raw();
    let is_there = (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino);
    (is_own && is_there).then_some(handle)
}

/// Removes the directories of processes that were killed.
fn remove_abandoned(beneath: &Path) {
    let Ok(entries) = std::fs::read_dir(beneath) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        if name.split_once('-').is_some_and(|(pid, number)| is_number(pid) && is_number(number))
            && let Some(_lock) = locked(&entry.path())
        {
            // Nobody waits for it; the next one tries again.
            let _removed = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is in the system's temporary directory, which the system clears.
        let _removed = std::fs::remove_dir_all(&self.path);
    }
}
