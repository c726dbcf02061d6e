//! Applies a patch to the files of a workspace: reads them, applies the patch in memory, and has the changes made on disk.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use patch::{ChangeKind, FileChange, Patch, PatchError};
use rustix::fs::{Mode, Stat};

use super::journal::{Change, commit};
use super::lock::Lock;
use super::recovery::recover_locked;
use super::report::{APPLIED, report};
use super::slot::Slot;
use crate::cancel::Cancel;
use crate::error::{ToolError, quoted, system};
use crate::output::{Outcome, Output};
use crate::params::ApplyPatchParams;
use crate::read::{MAX_WHOLE, read_whole};
use crate::root::{Create, Identity, Opened, Protected, Root, changed};
use crate::text::format_size;
use crate::workspace::Workspace;

/// The longest patch, and the most bytes of all its files.
const MAX_PATCH: usize = 16 * 1024 * 1024;
const MAX_FILES: u64 = 128 * 1024 * 1024;
/// How often, and how long, the patch of another process is waited for.
const ATTEMPTS: usize = 100;
const WAIT: Duration = Duration::from_millis(20);

/// Applies a patch to all its files, or to none.
pub(crate) fn apply_patch(
    workspace: &Workspace,
    params: &ApplyPatchParams,
    cancel: &Cancel,
) -> Result<Output, ToolError> {
    let patch = parsed(&params.patch)?;
    let (root, protected) = (workspace.root()?, workspace.protected());
    let dry_run = params.dry_run.unwrap_or(false);
    if dry_run {
        let files = Files::read(root, protected, &patch, cancel)?;
        return report(&files.apply(&patch)?, &files.contents, true);
    }
    let _writing = workspace.lock_writes();
    let lock = acquire(root, cancel)?;
    recover_locked(root, protected, &lock)?;
    let files = Files::read(root, protected, &patch, cancel)?;
    let changes = files.apply(&patch)?;
    let made: Vec<Change<'_>> = changes.iter().map(|change| files.change(change)).collect();
    commit(root, protected, &lock, &made, cancel)?;
    report(&changes, &files.contents, false)
}

/// Whether a patch in doubt was applied, by the files as they are now.
pub(crate) fn outcome(
    workspace: &Workspace,
    params: &ApplyPatchParams,
    cancel: &Cancel,
) -> Result<Outcome, ToolError> {
    let Ok(patch) = parsed(&params.patch) else { return Ok(Outcome::NotDone) };
    let (root, protected) = (workspace.root()?, workspace.protected());
    let applies = |patch: &Patch<'_>| -> Result<bool, ToolError> {
        Ok(Files::read(root, protected, patch, cancel)?.apply(patch).is_ok())
    };
    Ok(match (applies(&patch)?, applies(&patch.reversed())?) {
        (true, false) => Outcome::NotDone,
        (false, true) => Outcome::Done(Output::text(APPLIED)),
        (true, true) | (false, false) => Outcome::Unknown,
    })
}

fn parsed(text: &str) -> Result<Patch<'_>, ToolError> {
    if text.len() > MAX_PATCH {
        let most = format_size(u64::try_from(MAX_PATCH).unwrap_or(u64::MAX));
        return Err(ToolError::new(format!("the patch is longer than {most}")));
    }
    patch::parse(text.as_bytes()).map_err(|error| not_applied(&[error]))
}

fn not_applied(problems: &[PatchError]) -> ToolError {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    ToolError::new(format!("The patch was not applied. Nothing was changed.\n{}", lines.join("\n")))
}

fn acquire(root: &Root, cancel: &Cancel) -> Result<Lock, ToolError> {
    for _ in 0..ATTEMPTS {
        cancel.check()?;
        if let Some(lock) = Lock::acquire(root).map_err(|error| system(".", error))? {
            return Ok(lock);
        }
        // Another process applies a patch, or looked whether one was interrupted.
        std::thread::sleep(WAIT);
    }
    Err(ToolError::new("another process applies a patch in this workspace; try again"))
}

/// The files of a patch, as they are.
struct Files {
    contents: HashMap<String, Vec<u8>>,
    stats: BTreeMap<String, Stat>,
}

impl Files {
    fn read(
        root: &Root,
        protected: &Protected,
        patch: &Patch<'_>,
        cancel: &Cancel,
    ) -> Result<Self, ToolError> {
        let mut files = Self { contents: HashMap::new(), stats: BTreeMap::new() };
        let mut names: HashMap<(Identity, std::ffi::OsString), String> = HashMap::new();
        let mut total = 0;
        for path in patch.paths().read {
            cancel.check()?;
            let fail = |error| system(&path, error);
            let Some(slot) = Slot::open(root, protected, &path, Create::Nothing)? else { continue };
            let directory = Identity::of_handle(&slot.directory).map_err(fail)?;
            if let Some(other) = names.insert((directory, slot.name.clone()), path.clone()) {
                let (path, other) = (quoted(&path), quoted(&other));
                return Err(ToolError::new(format!("`{other}` and `{path}` are the same file")));
            }
            let Some(stat) = slot.existing(protected, &path)? else { continue };
            total += u64::try_from(stat.st_size).unwrap_or(0);
            if total > MAX_FILES {
                let most = format_size(MAX_FILES);
                return Err(ToolError::new(format!(
                    "the files of the patch have more than {most}; make several patches of it"
                )));
            }
            let opened = Opened::entry(&slot.directory, slot.name()).map_err(fail)?;
            if opened.identity() != Identity::of(&stat) {
                return Err(changed(&path));
            }
            let content =
                read_whole(Vec::new(), &mut opened.file(&path)?, &path, cancel, MAX_WHOLE)?;
            files.contents.insert(path.clone(), content);
            files.stats.insert(path, stat);
        }
        Ok(files)
    }

    fn apply(&self, patch: &Patch<'_>) -> Result<Vec<FileChange>, ToolError> {
        let read = |path: &str| self.contents.get(path).cloned();
        patch::apply(patch, &read).map_err(|problems| not_applied(&problems))
    }

    fn change<'c>(&self, change: &'c FileChange) -> Change<'c> {
        let FileChange { path, kind, content, source, .. } = change;
        let source = source.as_ref().and_then(|source| self.stats.get(source));
        let content = match kind {
            ChangeKind::Added | ChangeKind::Modified => content.as_deref(),
            ChangeKind::Deleted => None,
        };
        Change {
            path,
            old: self.stats.get(path).copied(),
            content,
            mode: source.map(|stat| Mode::from_raw_mode(stat.st_mode & 0o777)),
        }
    }
}
