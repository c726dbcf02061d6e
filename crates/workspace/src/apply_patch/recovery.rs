//! Undoes a patch that a crash interrupted, from its journal. It can be interrupted itself, and begins again.
//!
//! It must never overwrite what somebody wrote since, or leave the workspace: a journal is a file that anybody may have written.

use std::fs::File;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{AtFlags, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::crash_point;
use super::lock::Lock;
use super::plan::{FORMAT, JOURNAL, PLAN, Plan, PlannedChange, Version, old_name};
use super::slot::{Slot, split};
use crate::error::{ToolError, quoted, system};
use crate::root::{Create, Protected, Root, sync_directory};

/// The longest plan.
const MAX_PLAN: u64 = 64 * 1024 * 1024;
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Undoes what a crash left. Without a journal it is one call of the kernel; while another process applies a patch, that is its
/// own.
pub(crate) fn recover(root: &Root, protected: &Protected) -> Result<(), ToolError> {
    if !root.has(JOURNAL) {
        return Ok(());
    }
    let lock = Lock::acquire(root).map_err(|error| system(".", error))?;
    lock.map_or(Ok(()), |lock| recover_locked(root, protected, &lock))
}

pub(super) fn recover_locked(
    root: &Root,
    protected: &Protected,
    lock: &Lock,
) -> Result<(), ToolError> {
    match rustix::fs::openat(&lock.root, JOURNAL, DIRECTORY, Mode::empty()) {
        Ok(journal) => roll_back(root, protected, lock, &journal),
        // A file or a link of this name is not ours.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(()),
        Err(error) => Err(system(JOURNAL, error)),
    }
}

/// Undoes what the plan of a journal says, and removes the journal.
pub(super) fn roll_back(
    root: &Root,
    protected: &Protected,
    lock: &Lock,
    journal: &OwnedFd,
) -> Result<(), ToolError> {
    let undone = || -> Result<(), ToolError> {
        let Some(Plan { changes, new_directories, .. }) = read_plan(journal)? else {
            return Ok(());
        };
        for (number, change) in changes.iter().enumerate().rev() {
            undo(root, protected, journal, number, change)?;
            crash_point();
        }
        for directory in new_directories.iter().rev() {
            remove_directory(root, protected, directory)?;
            crash_point();
        }
        rustix::fs::unlinkat(journal, PLAN, AtFlags::empty())
            .and_then(|()| sync_directory(journal))
            .map_err(|error| system(JOURNAL, error))?;
        crash_point();
        Ok(())
    };
    undone().map_err(|error| {
        ToolError::new(format!(
            "a patch that was interrupted could not be undone ({error}); the files that it changed are in `{JOURNAL}`"
        ))
    })?;
    remove_journal(lock, journal)
}

fn read_plan(journal: &OwnedFd) -> Result<Option<Plan>, ToolError> {
    let fail = |error| system(PLAN, error);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let handle = match rustix::fs::openat(journal, PLAN, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        handle => handle.map_err(fail)?,
    };
    let mut json = Vec::new();
    File::from(handle)
        .take(MAX_PLAN)
        .read_to_end(&mut json)
        .map_err(|error| fail(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    let plan: Plan = serde_json::from_slice(&json)
        .map_err(|error| ToolError::new(format!("its plan cannot be read: {error}")))?;
    if plan.format != FORMAT {
        return Err(ToolError::new("its plan is of a newer version"));
    }
    Ok(Some(plan))
}

fn undo(
    root: &Root,
    protected: &Protected,
    journal: &OwnedFd,
    number: usize,
    change: &PlannedChange,
) -> Result<(), ToolError> {
    let PlannedChange { path, old, new } = change;
    refuse_odd(path)?;
    let fail = |error| system(path, error);
    let Some(slot) = slot(root, protected, path)? else { return Ok(()) };
    let now = slot.stat().map_err(fail)?.as_ref().map(Version::of);
    if now == *old || now != *new {
        // It was not changed, or is undone already; or somebody wrote it since.
        return Ok(());
    }
    match old {
        Some(_) => {
            let backup = old_name(number);
            match rustix::fs::renameat(journal, &backup, &slot.directory, slot.name()) {
                // A copy that an earlier recovery moved back.
                Err(Errno::NOENT) => return Ok(()),
                renamed => renamed.map_err(fail)?,
            }
        }
        None => {
            rustix::fs::unlinkat(&slot.directory, slot.name(), AtFlags::empty()).map_err(fail)?
        }
    }
    sync_directory(&slot.directory).map_err(fail)
}

/// The name of a file that was changed; nothing where its directory is gone, or where a file has the name of it: then there is
/// nothing to undo.
fn slot(root: &Root, protected: &Protected, path: &str) -> Result<Option<Slot>, ToolError> {
    let parent = split(path).map(|(parent, _)| root.open_directory(&parent, Create::Nothing));
    match parent {
        Some(Err(Errno::NOTDIR)) => Ok(None),
        Some(_) | None => Slot::open(root, protected, path, Create::Nothing),
    }
}

/// Removes a directory that the patch made; one that has other files stays.
fn remove_directory(root: &Root, protected: &Protected, path: &str) -> Result<(), ToolError> {
    refuse_odd(path)?;
    let Some(slot) = slot(root, protected, path)? else { return Ok(()) };
    match rustix::fs::unlinkat(&slot.directory, slot.name(), AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(()),
        Err(error) => Err(system(path, error)),
    }
}

/// Refuses a path that no plan of ours has.
fn refuse_odd(path: &str) -> Result<(), ToolError> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if path.is_empty() || !Path::new(path).components().all(plain) {
        return Err(ToolError::new(format!("its plan has the path `{}`", quoted(path))));
    }
    Ok(())
}

/// Removes a journal without a plan.
pub(super) fn remove_journal(lock: &Lock, journal: &OwnedFd) -> Result<(), ToolError> {
    let fail = |error| system(JOURNAL, error);
    let mut names = Vec::new();
    let mut buffer = [MaybeUninit::uninit(); 8 * 1024];
    let directory = rustix::fs::openat(journal, ".", DIRECTORY, Mode::empty()).map_err(fail)?;
    let mut entries = RawDir::new(&directory, &mut buffer);
    while let Some(entry) = entries.next() {
        let name = entry.map_err(fail)?.file_name().to_owned();
        if name.as_bytes() != b"." && name.as_bytes() != b".." {
            names.push(name);
        }
    }
    for name in names {
        rustix::fs::unlinkat(journal, &name, AtFlags::empty()).map_err(fail)?;
        crash_point();
    }
    rustix::fs::unlinkat(&lock.root, JOURNAL, AtFlags::REMOVEDIR)
        .and_then(|()| sync_directory(&lock.root))
        .map_err(fail)
}
