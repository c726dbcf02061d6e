//! The temporary directory of a workspace's shells, and the files with long outputs: of shells, and of other tools of a run. All of it is
//! removed with the workspace.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Numbers the directories of this process.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A directory that only this user reads.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    outputs: AtomicU32,
}

impl Scratch {
    pub(crate) fn create(beneath: &Path) -> io::Result<Self> {
        let mut builder = DirBuilder::new();
        builder.mode(0o700);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = beneath.join(format!("nexus-agent-{}-{number}", std::process::id()));
            match builder.create(&path) {
                // It may be of an earlier process, or a link that somebody else put there.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                created => {
                    created?;
                    let scratch = Self { path, outputs: AtomicU32::new(0) };
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

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed is in the system's temporary directory, which the system clears.
        let _removed = std::fs::remove_dir_all(&self.path);
    }
}
