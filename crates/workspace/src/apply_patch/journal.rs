//! Makes the changes of a patch on disk. Before the first of them, a plan is on disk with what every file was; after the last,
//! the plan is removed. While it is there, the patch did not happen, and `recovery` undoes it.
//!
//! It must never change a file before the plan is durable, nor one that another process changed meanwhile.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::crash_point;
use super::lock::Lock;
use super::plan::{FORMAT, JOURNAL, PLAN, Plan, PlannedChange, Version, new_name, old_name};
use super::recovery::{remove_journal, roll_back};
use super::slot::{Slot, split};
use crate::cancel::Cancel;
use crate::error::{ToolError, quoted, system};
use crate::root::{Create, Protected, Root, changed, sync_directory};

/// A change of one file.
#[derive(Debug)]
pub(super) struct Change<'c> {
    pub(super) path: &'c str,
    /// The file that was read.
    pub(super) old: Option<Stat>,
    /// Its content after the patch; none if it is removed.
    pub(super) content: Option<&'c [u8]>,
    /// The mode of a new file, if it was another one before.
    pub(super) mode: Option<Mode>,
}

/// Makes all changes, or none.
pub(super) fn commit(
    root: &Root,
    protected: &Protected,
    lock: &Lock,
    changes: &[Change<'_>],
    cancel: &Cancel,
) -> Result<(), ToolError> {
    let fail = |error| system(JOURNAL, error);
    match rustix::fs::mkdirat(&lock.root, JOURNAL, Mode::from_raw_mode(0o700)) {
        Ok(()) => {}
        Err(Errno::EXIST) => {
            return Err(ToolError::new(format!(
                "`{JOURNAL}` is in the way, where patches have their journal"
            )));
        }
        Err(error) => return Err(fail(error)),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let journal = rustix::fs::openat(&lock.root, JOURNAL, flags, Mode::empty()).map_err(fail)?;
    let done = prepare(root, protected, lock, &journal, changes, cancel)
        .and_then(|()| make(root, protected, &journal, changes))
        .and_then(|()| rustix::fs::unlinkat(&journal, PLAN, AtFlags::empty()).map_err(fail));
    if let Err(error) = done {
        roll_back(root, protected, lock, &journal)?;
        return Err(error);
    }
    sync_directory(&journal).map_err(fail)?;
    crash_point();
    // The patch is applied. What cannot be removed now is removed at the next use.
    let _removed = remove_journal(lock, &journal);
    Ok(())
}

/// Everything up to the plan: no file of the workspace is changed.
fn prepare(
    root: &Root,
    protected: &Protected,
    lock: &Lock,
    journal: &OwnedFd,
    changes: &[Change<'_>],
    cancel: &Cancel,
) -> Result<(), ToolError> {
    let device = rustix::fs::fstat(journal).map_err(|error| system(JOURNAL, error))?.st_dev;
    let mut planned = Vec::new();
    let mut new_directories = BTreeSet::new();
    for (number, change) in changes.iter().enumerate() {
        cancel.check()?;
        let fail = |error| system(change.path, error);
        let slot = Slot::open(root, protected, change.path, Create::Nothing)?;
        let Some(slot) = slot else {
            new_directories.extend(missing_directories(root, change.path));
            planned.push(staged(journal, number, change)?);
            continue;
        };
        let directory = rustix::fs::fstat(&slot.directory).map_err(fail)?;
        if directory.st_dev != device {
            let path = quoted(change.path);
            return Err(ToolError::new(format!(
                "`{path}` is on another file system than the workspace; use `edit` or `write` for it"
            )));
        }
        if slot.stat().map_err(fail)?.as_ref().map(Version::of)
            != change.old.as_ref().map(Version::of)
        {
            return Err(changed(change.path));
        }
        planned.push(staged(journal, number, change)?);
        if let Some(old) = &change.old {
            back_up(&slot, journal, number, old, change.path)?;
        }
        crash_point();
    }
    let plan = Plan {
        format: FORMAT,
        changes: planned,
        new_directories: new_directories.into_iter().collect(),
    };
    let json = serde_json::to_vec(&plan)
        .map_err(|error| ToolError::new(format!("the plan cannot be written: {error}")))?;
    let fail = |error| system(JOURNAL, error);
    create(journal, "plan.tmp", &json, None).map_err(fail)?;
    crash_point();
    rustix::fs::renameat(journal, "plan.tmp", journal, PLAN).map_err(fail)?;
    sync_directory(journal).and_then(|()| sync_directory(&lock.root)).map_err(fail)
}

/// Writes the new content into the journal.
fn staged(
    journal: &OwnedFd,
    number: usize,
    change: &Change<'_>,
) -> Result<PlannedChange, ToolError> {
    let old = change.old.as_ref().map(Version::of);
    let mode = change.old.as_ref().map(|stat| Mode::from_raw_mode(stat.st_mode & 0o777));
    let new = change
        .content
        .map(|content| create(journal, &new_name(number), content, mode.or(change.mode)))
        .transpose()
        .map_err(|error| system(change.path, error))?;
    Ok(PlannedChange { path: change.path.to_owned(), old, new })
}

fn create(
    journal: &OwnedFd,
    name: &str,
    content: &[u8],
    mode: Option<Mode>,
) -> Result<Version, Errno> {
    let of = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let handle = rustix::fs::openat(journal, name, flags, Mode::from_raw_mode(0o666))?;
    let mut file = File::from(handle);
    file.write_all(content).map_err(of)?;
    if let Some(mode) = mode {
        rustix::fs::fchmod(&file, mode)?;
    }
    file.sync_all().map_err(of)?;
    rustix::fs::fstat(&file).map(|stat| Version::of(&stat))
}

/// The old file under a second name, so that it can come back as the same file; a copy where the file system has no links.
fn back_up(
    slot: &Slot,
    journal: &OwnedFd,
    number: usize,
    old: &Stat,
    path: &str,
) -> Result<(), ToolError> {
    let fail = |error| system(path, error);
    let name = old_name(number);
    match rustix::fs::linkat(&slot.directory, slot.name(), journal, &name, AtFlags::empty()) {
        Ok(()) => {
            let linked = rustix::fs::statat(journal, &name, AtFlags::SYMLINK_NOFOLLOW);
            if linked.map(|stat| Version::of(&stat)).map_err(fail)? != Version::of(old) {
                return Err(changed(path));
            }
            Ok(())
        }
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK | Errno::NOSYS) => {
            let opened = crate::root::Opened::entry(&slot.directory, slot.name()).map_err(fail)?;
            if Version::of(opened.stat()) != Version::of(old) {
                return Err(changed(path));
            }
            let mut content = Vec::new();
            std::io::Read::read_to_end(&mut opened.file(path)?, &mut content)
                .map_err(|error| fail(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
            let mode = Mode::from_raw_mode(old.st_mode & 0o777);
            create(journal, &name, &content, Some(mode)).map(|_| ()).map_err(fail)
        }
        Err(error) => Err(fail(error)),
    }
}

/// The directories of a path that do not exist.
fn missing_directories(root: &Root, path: &str) -> Vec<String> {
    let parents = Path::new(path).ancestors().skip(1);
    let missing = parents.take_while(|parent| {
        !parent.as_os_str().is_empty()
            && matches!(root.open_directory(parent, Create::Nothing), Err(Errno::NOENT))
    });
    missing.map(|parent| parent.to_string_lossy().into_owned()).collect()
}

/// The changes themselves.
fn make(
    root: &Root,
    protected: &Protected,
    journal: &OwnedFd,
    changes: &[Change<'_>],
) -> Result<(), ToolError> {
    crash_point();
    let mut synced = BTreeSet::new();
    let mut directories = Vec::new();
    for (number, change) in changes.iter().enumerate() {
        let fail = |error| system(change.path, error);
        let slot = Slot::open(root, protected, change.path, Create::Missing)?
            .ok_or_else(|| fail(Errno::NOENT))?;
        if slot.stat().map_err(fail)?.as_ref().map(Version::of)
            != change.old.as_ref().map(Version::of)
        {
            return Err(changed(change.path));
        }
        match change.content {
            Some(_) => {
                let new = new_name(number);
                rustix::fs::renameat(journal, &new, &slot.directory, slot.name()).map_err(fail)?;
            }
            None => {
                rustix::fs::unlinkat(&slot.directory, slot.name(), AtFlags::empty())
                    .map_err(fail)?;
            }
        }
        crash_point();
        if synced.insert(split(change.path).map(|(parent, _)| parent)) {
            directories.push((slot.directory, change.path));
        }
    }
    for (directory, path) in directories {
        sync_directory(&directory).map_err(|error| system(path, error))?;
        crash_point();
    }
    Ok(())
}
