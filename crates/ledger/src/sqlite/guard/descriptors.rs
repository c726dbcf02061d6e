//! The descriptors of this process that belong to the engine's SQLite, so that those of another SQLite on the same file are
//! recognised.
//!
//! SQLite opens files inside `sqlite3_open` and a connection's first read: descriptors that appear meanwhile are the
//! engine's. Linux only: other systems list no descriptors. It must never delay a connection because `/proc` is missing.

use std::path::Path;

use crate::sqlite::error::Stored;
#[cfg(target_os = "linux")]
use crate::sqlite::file;

#[cfg(target_os = "linux")]
mod list {
    use std::collections::HashSet;
    use std::fs;
    use std::io;
    use std::sync::{LazyLock, Mutex, PoisonError};

    use crate::sqlite::file::{self, FileId};

    /// The number of a descriptor, and its file.
    type Descriptor = (String, FileId);

    #[derive(Default)]
    struct Ours {
        known: HashSet<Descriptor>,
        /// Files that were opened more often than SQLite does while one connection was opened: another library opened them
        /// at the same time.
        doubted: HashSet<FileId>,
        /// A connection was opened while the descriptors could not be listed: the engine's descriptors can no longer be
        /// distinguished from others.
        blind: bool,
    }

    /// Locked while a connection is opened, so that each new descriptor is attributed to it.
    static OURS: LazyLock<Mutex<Ours>> = LazyLock::new(Mutex::default);

    /// The descriptors of regular files that this process may write to; `None` if they cannot be listed. Sockets and pipes,
    /// the majority in a server, are recognised by their names and skipped.
    fn writable() -> Option<HashSet<Descriptor>> {
        let mut found = HashSet::new();
        for entry in fs::read_dir("/proc/self/fd").ok()?.flatten() {
            let held = entry.path();
            // A descriptor that was closed meanwhile has no link.
            if fs::read_link(&held).is_ok_and(|leads_to| leads_to.is_absolute())
                && let Some(number) = entry.file_name().to_str()
                && let Ok(Some(id)) = file::id_at(&held)
                && can_write(number)?
            {
                found.insert((number.to_owned(), id));
            }
        }
        Some(found)
    }

    /// Reads the flags in `/proc/self/fdinfo`: a read-only descriptor, for example of a host that copies the file, is not
    /// SQLite's.
    fn can_write(number: &str) -> Option<bool> {
        match fs::read_to_string(format!("/proc/self/fdinfo/{number}")) {
            Ok(info) => {
                let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
                Some(u64::from_str_radix(flags.trim(), 8).ok()? & 0o3 != 0)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Some(false),
            Err(_) => None,
        }
    }

    /// Runs `open`, and records the descriptors that it leaves open as the engine's. SQLite opens each file once, and
    /// `only_read` not for writing: what appears beyond that is another library's.
    pub(crate) fn opening<T>(only_read: Option<&FileId>, open: impl FnOnce() -> T) -> T {
        let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
        let before = writable();
        let opened = open();
        match (before, writable()) {
            (Some(before), Some(now)) => {
                // The doubt about a file ends when all its descriptors are closed.
                ours.doubted.retain(|file| before.iter().any(|(_, held)| held == file));
                ours.known.retain(|known| now.contains(known));
                let mut opened = HashSet::new();
                for found in now.into_iter().filter(|found| !before.contains(found)) {
                    if !opened.insert(found.1.clone()) || only_read == Some(&found.1) {
                        ours.doubted.insert(found.1.clone());
                    }
                    ours.known.insert(found);
                }
            }
            (_, _) => ours.blind = true,
        }
        opened
    }

    /// Whether another library in this process may write to one of `files`.
    pub(crate) fn strangers(files: &[&FileId]) -> bool {
        // While a connection is being opened, its descriptors are unknown; the next check follows soon.
        let Ok(mut ours) = OURS.try_lock() else { return false };
        let Some(now) = writable().filter(|_| !ours.blind) else { return false };
        ours.known.retain(|known| now.contains(known));
        files.iter().any(|file| ours.doubted.contains(*file))
            || now.iter().any(|found| files.contains(&&found.1) && !ours.known.contains(found))
    }
}

/// Opens a connection by `open`, and records its descriptors as the engine's. The connection writes to no file at `only_read`.
pub(crate) fn opening<T>(only_read: Option<&Path>, open: impl FnOnce() -> Stored<T>) -> Stored<T> {
    #[cfg(target_os = "linux")]
    {
        let only_read = only_read.and_then(|path| file::id_at(path).ok().flatten());
        list::opening(only_read.as_ref(), open)
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = only_read;
        open()
    }
}

#[cfg(target_os = "linux")]
pub(super) use self::list::strangers;

#[cfg(not(target_os = "linux"))]
pub(super) fn strangers(_files: &[&crate::sqlite::file::FileId]) -> bool {
    false
}
