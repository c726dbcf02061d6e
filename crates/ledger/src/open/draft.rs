//! A new file: written completely under a temporary name in the same folder, then renamed.
//!
//! It must never overwrite a file, nor leave an incomplete one. The next process that writes or opens the same file removes
//! the draft of a killed process; a draft whose process may be alive is never touched.

use std::fs::{self, Metadata};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::lease::owner::Owner;
use crate::sqlite::error::{self, Stored};
use crate::sqlite::file;
use base::clock::Clock;
use model::{StorageError, StorageErrorKind};

/// Calls `make` to fill a file that only its owner can read, and renames the file to `to`. Returns its path and the value of
/// `make`.
///
/// # Errors
/// `storage_exists` if a file exists at `to`, before or after; those of `make`; any of storage.
pub(crate) fn write<T>(
    to: &Path,
    clock: &Clock,
    make: impl FnOnce(&Path) -> Stored<T>,
) -> Stored<(PathBuf, T)> {
    if fs::symlink_metadata(to).is_ok() {
        return Err(exists(to));
    }
    let to = file::resolve(to)?;
    sweep(&to, clock);
    let draft = name(&to, clock);
    let writing = |error| error::file(&format!("write `{}`", to.display()), &error);
    let made = file::create_private(&draft).map_err(writing).and_then(|()| make(&draft)).and_then(
        |made| match file::rename_new(&draft, &to).map_err(writing)? {
            true => Ok(made),
            false => Err(exists(&to)),
        },
    );
    if made.is_err() {
        remove(&draft);
    }
    made.map(|made| (to, made))
}

/// The age at which a draft is removed whose process cannot be checked on this machine.
const OLD_MS: i64 = 24 * 3_600_000;
/// The separator between the file's name and the draft's id.
const MARK: &str = ".new-";
/// The files that SQLite may create beside a draft.
const COMPANIONS: [&str; 4] = ["", "-journal", "-wal", "-shm"];

/// The name of a new draft of `to`: it names the process that writes it.
pub(crate) fn name(to: &Path, clock: &Clock) -> PathBuf {
    let owner = Owner::this(clock);
    let started = owner.pid_started.unwrap_or_default();
    let of = format!("{MARK}{}-{}-{started}-{:016x}", owner.id, owner.pid, machine(&owner));
    file::companion(to, &of)
}

/// Identifies the boot and the pid namespace: processes of another machine cannot be checked.
fn machine(owner: &Owner) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&owner.boot_id, &owner.pid_space).hash(&mut hasher);
    hasher.finish()
}

/// Removes the drafts of `to` that killed processes have left.
pub(crate) fn sweep(to: &Path, clock: &Clock) {
    let (Some(folder), Some(name)) = (to.parent(), to.file_name().and_then(|name| name.to_str()))
    else {
        return;
    };
    // Best effort, here and below: a remaining draft is harmless.
    let Ok(entries) = fs::read_dir(folder) else { return };
    let me = Owner::this(clock);
    for entry in entries.flatten() {
        let found = entry.file_name();
        let rest = found.to_str().and_then(|found| found.strip_prefix(name)?.strip_prefix(MARK));
        if let Some(rest) = rest
            && let Ok(metadata) = entry.metadata()
            && metadata.is_file()
            && is_left(rest, &metadata, &me, clock.now_ms())
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// Whether a draft's process has ended. `rest` is the part of its name after the mark.
fn is_left(rest: &str, metadata: &Metadata, me: &Owner, now: i64) -> bool {
    let own = COMPANIONS.iter().rev().find_map(|suffix| rest.strip_suffix(suffix)).unwrap_or(rest);
    let mut parts = own.split('-');
    if parts.next().is_none_or(|id| id.len() != 26) {
        return false;
    }
    let numbers = (|| {
        let pid: i64 = parts.next()?.parse().ok()?;
        let started: i64 = parts.next()?.parse().ok()?;
        let machine = u64::from_str_radix(parts.next()?, 16).ok()?;
        Some((pid, started, machine))
    })();
    match numbers {
        Some((pid, started, of)) if of == machine(me) => {
            let pid_started = (started != 0).then_some(started);
            me.knows_dead(&Owner { pid, pid_started, ..me.clone() })
        }
        Some(_) | None => {
            let modified =
                metadata.modified().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
            modified
                .and_then(|at| i64::try_from(at.as_millis()).ok())
                .is_some_and(|at| now.saturating_sub(at) > OLD_MS)
        }
    }
}

/// Removes a draft, with the files that SQLite may have created beside it.
pub(crate) fn remove(draft: &Path) {
    for suffix in COMPANIONS {
        // Best effort: a remaining draft is harmless.
        let _ = fs::remove_file(file::companion(draft, suffix));
    }
}

fn exists(path: &Path) -> StorageError {
    StorageError::new(
        StorageErrorKind::Exists,
        format!("`{}` exists already; pass a path where nothing is", path.display()),
    )
}
