//! What no tool may touch: the repository's own files (`.git`), because a hook or a setting there is a command that the host
//! runs later, the journal of a patch, by which files are restored, and the files that the host names, a ledger with SQLite's
//! files beside it.
//!
//! Files are compared by what they are and not by how they are called. A ledger must not even be opened: closing any handle
//! of it in this process drops SQLite's locks (docs/rules/faults.md#no-second-sqlite).

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};

use super::directory::{Create, Root};
use super::opened::Identity;
use crate::error::{ToolError, quoted, system};
use crate::protected_paths::of_process;

/// The journal of `apply_patch`, in a workspace.
pub(crate) const JOURNAL: &str = ".nexus-patch";
/// Directories that no tool writes, wherever they are.
const RESERVED: [&str; 2] = [".git", JOURNAL];
/// The most directories between a file and its root.
const MAX_DEPTH: usize = 4_096;

/// The files that the host named.
#[derive(Debug)]
pub(crate) struct Protected {
    files: Vec<PathBuf>,
}

impl Protected {
    pub(crate) fn new(paths: &[PathBuf]) -> Self {
        Self { files: paths.to_vec() }
    }

    /// These, and those of the process, with the files that SQLite has beside each.
    fn all(&self) -> Vec<PathBuf> {
        with_sqlite(self.files.iter().cloned().chain(of_process()))
    }

    /// The files as they are now, for a search: each name is looked up once.
    pub(crate) fn files(&self) -> ProtectedFiles {
        let all = self.all();
        let stats: Vec<_> = all.iter().filter_map(|file| rustix::fs::stat(file).ok()).collect();
        ProtectedFiles {
            identities: stats.iter().map(Identity::of).collect(),
            have_links: stats.iter().any(|stat| stat.st_nlink > 1),
            names: all.iter().filter_map(|file| file.file_name().map(OsStr::to_owned)).collect(),
        }
    }

    /// Refuses a file that is one of them, under any name.
    pub(crate) fn refuse_file(&self, file: Identity, path: &str) -> Result<(), ToolError> {
        for each in self.all() {
            if identity(&each) == Some(file) {
                return Err(refused(path));
            }
        }
        Ok(())
    }

    /// Refuses to write `name` in a directory beneath `root`.
    pub(crate) fn refuse_entry(
        &self,
        root: &Root,
        directory: &OwnedFd,
        name: &OsStr,
        path: &str,
    ) -> Result<(), ToolError> {
        let parent = Identity::of_handle(directory).map_err(|error| system(path, error))?;
        for each in self.all() {
            let same_name = each.file_name().is_some_and(|other| other.eq_ignore_ascii_case(name));
            if same_name && each.parent().and_then(identity) == Some(parent) {
                return Err(refused(path));
            }
        }
        refuse_reserved(root, directory, name, path)
    }

    /// Refuses to make the directories of `parent` where a protected directory would get them.
    pub(crate) fn refuse_new(
        &self,
        root: &Root,
        parent: &Path,
        name: &OsStr,
        path: &str,
    ) -> Result<(), ToolError> {
        for each in parent.ancestors() {
            let each = if each.as_os_str().is_empty() { Path::new(".") } else { each };
            if let Ok(directory) = root.open_directory(each, Create::Nothing) {
                return self.refuse_entry(root, &directory, name, path);
            }
        }
        Ok(())
    }
}

/// The protected files while a search goes on. One that is made meanwhile is known by its name.
#[derive(Debug)]
pub(crate) struct ProtectedFiles {
    identities: Vec<Identity>,
    have_links: bool,
    names: Vec<OsString>,
}

impl ProtectedFiles {
    pub(crate) fn has(&self, file: Identity) -> bool {
        self.identities.contains(&file)
    }

    /// Whether one of them has another name, which only the file itself shows.
    pub(crate) fn have_links(&self) -> bool {
        self.have_links
    }

    /// Whether it has the name of one, in whatever directory.
    pub(crate) fn has_name(&self, name: &OsStr) -> bool {
        self.names.iter().any(|other| other.eq_ignore_ascii_case(name))
    }
}

/// Each path, the file that it leads to if it is a link, and SQLite's files beside both: SQLite names them after the file itself.
fn with_sqlite(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let with = |path: &PathBuf, end: &str| {
        let mut name = path.clone().into_os_string();
        name.push(end);
        PathBuf::from(name)
    };
    let beside = ["", "-wal", "-shm", "-journal"];
    paths
        .flat_map(|path| {
            let target = std::fs::canonicalize(&path).ok().filter(|target| *target != path);
            std::iter::once(path).chain(target)
        })
        .flat_map(|path| beside.map(|end| with(&path, end)))
        .collect()
}

/// Refuses a file in a reserved directory, and its name itself: walks up by handles, so that no link and no other spelling
/// hides it.
fn refuse_reserved(
    root: &Root,
    directory: &OwnedFd,
    name: &OsStr,
    path: &str,
) -> Result<(), ToolError> {
    refuse_reserved_parts(Path::new(name), path)?;
    let fail = |error| system(path, error);
    let up = |from: &OwnedFd, to: &str| {
        rustix::fs::openat(
            from,
            to,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )
    };
    let mut current = up(directory, ".").map_err(fail)?;
    for _ in 0..MAX_DEPTH {
        let here = Identity::of_handle(current.as_fd()).map_err(fail)?;
        if here == root.identity() {
            return Ok(());
        }
        let parent = up(&current, "..").map_err(fail)?;
        if Identity::of_handle(parent.as_fd()).map_err(fail)? == here {
            // The top of the file system: the directory was moved out of the root meanwhile.
            break;
        }
        for reserved in RESERVED {
            let found = rustix::fs::statat(&parent, reserved, AtFlags::SYMLINK_NOFOLLOW);
            if found.is_ok_and(|stat| Identity::of(&stat) == here) {
                return Err(in_reserved(reserved, path));
            }
        }
        current = parent;
    }
    Err(ToolError::new(format!("`{}` is not in the workspace any more", quoted(path))))
}

/// Whether a path that is to be made would have a reserved name in it.
pub(crate) fn refuse_reserved_parts(relative: &Path, path: &str) -> Result<(), ToolError> {
    for part in relative.components() {
        if let Some(name) = RESERVED.iter().find(|name| part.as_os_str().eq_ignore_ascii_case(name))
        {
            return Err(in_reserved(name, path));
        }
    }
    Ok(())
}

fn identity(path: &Path) -> Option<Identity> {
    rustix::fs::stat(path).ok().map(|stat| Identity::of(&stat))
}

fn in_reserved(name: &str, path: &str) -> ToolError {
    ToolError::new(format!(
        "`{}` is in a `{name}`, which the file tools do not write",
        quoted(path)
    ))
}

fn refused(path: &str) -> ToolError {
    ToolError::new(format!("`{}` is protected: the host's own data is in it", quoted(path)))
}
