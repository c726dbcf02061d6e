//! Which descriptors of this process are our SQLite's, so that those of another one on the same file are known.
//!
//! SQLite opens files inside `sqlite3_open` and a connection's first read: what appears meanwhile is ours. Linux only:
//! elsewhere the system lists no descriptors. It must never hold up a connection because `/proc` is missing.

use crate::sqlite::error::Stored;

#[cfg(target_os = "linux")]
mod list {
    use std::collections::HashSet;
    use std::fs;
    use std::io;
    use std::sync::{LazyLock, Mutex, PoisonError};

    use crate::sqlite::file::{self, FileId};

    /// A descriptor by its number, and the file that it leads to.
    type Descriptor = (String, FileId);

    #[derive(Default)]
    struct Ours {
        known: HashSet<Descriptor>,
        /// Files that were opened more than once while one connection was opened: SQLite opens each once, so that another one
        /// came at the same moment.
        doubted: HashSet<FileId>,
        /// A connection was opened while the descriptors could not be listed: ours cannot be distinguished from others' any more.
        blind: bool,
    }

    /// Held while a connection is opened, so that each new descriptor is accounted for.
    static OURS: LazyLock<Mutex<Ours>> = LazyLock::new(Mutex::default);

    /// The descriptors of regular files that this process may write to; `None` where they cannot be listed. Sockets and pipes
    /// are known by their names, and skipped: those are most of them in a server.
    fn writable() -> Option<HashSet<Descriptor>> {
        let mut found = HashSet::new();
        for entry in fs::read_dir("/proc/self/fd").ok()?.flatten() {
            let held = entry.path();
            // One that was closed meanwhile leads nowhere.
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

    /// From the flags in `/proc/self/fdinfo`: whoever only reads the bytes, a copying host for one, is no SQLite.
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

    /// Runs `open`; what it leaves open is ours.
    pub(crate) fn opening<T>(open: impl FnOnce() -> T) -> T {
        let mut ours = OURS.lock().unwrap_or_else(PoisonError::into_inner);
        let before = writable();
        let opened = open();
        match (before, writable()) {
            (Some(before), Some(now)) => {
                // A file that nobody has open any more begins anew.
                ours.doubted.retain(|file| before.iter().any(|(_, held)| held == file));
                ours.known.retain(|known| now.contains(known));
                let mut opened = HashSet::new();
                for found in now.into_iter().filter(|found| !before.contains(found)) {
                    if !opened.insert(found.1.clone()) {
                        ours.doubted.insert(found.1.clone());
                    }
                    ours.known.insert(found);
                }
            }
            (_, _) => ours.blind = true,
        }
        opened
    }

    /// Whether somebody else in this process may write to one of `files`.
    pub(crate) fn strangers(files: &[&FileId]) -> bool {
        // A connection is being opened: what it opens is not known yet, and the next check is soon.
        let Ok(mut ours) = OURS.try_lock() else { return false };
        let Some(now) = writable().filter(|_| !ours.blind) else { return false };
        ours.known.retain(|known| now.contains(known));
        files.iter().any(|file| ours.doubted.contains(*file))
            || now.iter().any(|found| files.contains(&&found.1) && !ours.known.contains(found))
    }
}

/// Opens a connection by `open`, whose descriptors are ours from then on.
pub(crate) fn opening<T>(open: impl FnOnce() -> Stored<T>) -> Stored<T> {
    #[cfg(target_os = "linux")]
    return list::opening(open);
    #[cfg(not(target_os = "linux"))]
    open()
}

#[cfg(target_os = "linux")]
pub(super) use self::list::strangers;

#[cfg(not(target_os = "linux"))]
pub(super) fn strangers(_files: &[&crate::sqlite::file::FileId]) -> bool {
    false
}
