//! A name in an open directory that a patch writes. It must never follow a link at the name itself.

use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, FileType, Stat};
use rustix::io::Errno;

use crate::error::{ToolError, quoted, system};
use crate::root::{
    Create, Identity, Protected, Root, file_type, refuse_kind, refuse_reserved_parts,
};

/// A name and its directory.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) directory: OwnedFd,
    pub(super) name: OsString,
}

/// The directory of a path beneath a root, and its name there.
pub(super) fn split(path: &str) -> Option<(PathBuf, OsString)> {
    let path = Path::new(path);
    let name = path.file_name()?.to_owned();
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    Some((parent.unwrap_or(Path::new(".")).to_owned(), name))
}

impl Slot {
    /// Opens the directory of a path; nothing where it does not exist, and is not made.
    pub(super) fn open(
        root: &Root,
        protected: &Protected,
        path: &str,
        create: Create,
    ) -> Result<Option<Self>, ToolError> {
        let fail = |error| system(path, error);
        refuse_reserved_parts(Path::new(path), path)?;
        let Some((parent, name)) = split(path) else { return Err(fail(Errno::ISDIR)) };
        let directory = match root.open_directory(&parent, Create::Nothing) {
            Err(Errno::NOENT) => {
                protected.refuse_new(root, &parent, &name, path)?;
                if create == Create::Nothing {
                    return Ok(None);
                }
                root.open_directory(&parent, create).map_err(fail)?
            }
            found => found.map_err(fail)?,
        };
        protected.refuse_entry(root, &directory, &name, path)?;
        Ok(Some(Self { directory, name }))
    }

    /// What has the name now. It is a file that may be written.
    pub(super) fn existing(
        &self,
        protected: &Protected,
        path: &str,
    ) -> Result<Option<Stat>, ToolError> {
        let fail = |error| system(path, error);
        let Some(stat) = self.stat().map_err(fail)? else { return Ok(None) };
        match file_type(&stat) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(fail(Errno::ISDIR)),
            FileType::Symlink => {
                let path = quoted(path);
                return Err(ToolError::new(format!(
                    "`{path}` is a symbolic link; name the file that it leads to"
                )));
            }
            other => refuse_kind(other, path)?,
        }
        protected.refuse_file(Identity::of(&stat), path)?;
        rustix::fs::accessat(&self.directory, &self.name, Access::WRITE_OK, AtFlags::EACCESS)
            .map_err(fail)?;
        Ok(Some(stat))
    }

    pub(super) fn stat(&self) -> Result<Option<Stat>, Errno> {
        match rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }
}
