//! The ledger's file before SQLite sees it: identity, folder, header, file system, and other holders in this process.
//!
//! It must never open a file that another SQLite in this process has open: closing a descriptor would drop the other's POSIX
//! locks (docs/rules/faults.md#no-second-sqlite). So the checks that need no descriptor run first.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::sqlite::error::{self, Stored};
use crate::sqlite::schema;
use model::{StorageError, StorageErrorKind};

const MAGIC: &[u8; 16] = b"SQLite format 3\0";

/// The identity of a file: all paths of one file have the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum FileId {
    /// Device and inode.
    #[cfg(unix)]
    Inode(u64, u64),
    /// The canonical path, on systems without inodes.
    #[cfg(not(unix))]
    Path(PathBuf),
}

/// The identity of the file at `path`; `None` without a file.
///
/// # Errors
/// If the path is not a regular file, or its metadata cannot be read.
pub(crate) fn identify(path: &Path) -> Stored<Option<(FileId, u64)>> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(error::file(&format!("find the ledger `{}`", path.display()), &error));
        }
    };
    if metadata.is_dir() {
        return Err(refuse(
            StorageErrorKind::Foreign,
            path,
            "is a folder; pass the path of a file",
        ));
    }
    if !metadata.is_file() {
        return Err(refuse(
            StorageErrorKind::Foreign,
            path,
            "is not a regular file; pass another path",
        ));
    }
    Ok(Some((id_of(path, &metadata), metadata.len())))
}

/// The identity of the file or folder at `path`; `None` if nothing exists there.
pub(crate) fn id_at(path: &Path) -> io::Result<Option<FileId>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(id_of(path, &metadata))),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn id_of(_path: &Path, metadata: &Metadata) -> FileId {
    use std::os::unix::fs::MetadataExt;
    FileId::Inode(metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn id_of(path: &Path, _metadata: &Metadata) -> FileId {
    FileId::Path(path.to_owned())
}

/// The absolute path with its folder resolved; missing folders are created for the owner alone.
pub(crate) fn resolve(path: &Path) -> Stored<PathBuf> {
    let Some(name) = path.file_name() else {
        return Err(refuse(
            StorageErrorKind::Foreign,
            path,
            "names no file; pass the path of a file",
        ));
    };
    // A link to a ledger is that ledger: SQLite names the -wal after the target, and so does this module.
    if let Ok(target) = fs::canonicalize(path) {
        return Ok(target);
    }
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    create_folder(folder)
        .and_then(|()| fs::canonicalize(folder))
        .map(|folder| folder.join(name))
        .map_err(|error| error::file(&format!("create the folder `{}`", folder.display()), &error))
}

fn create_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::DirBuilderExt;
        builder.mode(0o700);
    }
    builder.create(folder)
}

/// Creates an empty file that only its owner can read. SQLite gives the -wal and -shm the same mode.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    options.open(path).map(drop)
}

/// Makes a finished new file durable and renames it, unless a file with that name exists. True when it was renamed. Nothing
/// has to be synced while the file is filled: after a power cut it has its name only with its whole content.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<bool> {
    if has_log(from) {
        return Err(io::Error::other("its log could not be copied into it"));
    }
    // Only a descriptor for writing can be synced everywhere. No connection has the file open any more.
    OpenOptions::new().write(true).open(from)?.sync_all()?;
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => return sync_folder(to).map(|()| true),
            Err(Errno::EXIST) => return Ok(false),
            // File systems without this operation may have hard links.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    match fs::hard_link(from, to) {
        Ok(()) => fs::remove_file(from).and_then(|()| sync_folder(to)).map(|()| true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(unix)]
fn sync_folder(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(not(unix))]
fn sync_folder(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// The name of a companion file: `-wal` or `-shm`.
pub(crate) fn companion(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Whether a non-empty log exists.
pub(crate) fn has_log(path: &Path) -> bool {
    fs::metadata(companion(path, "-wal")).is_ok_and(|metadata| metadata.len() > 0)
}

/// Refuses a ledger that this process may not write, because SQLite would open it read-only.
#[cfg(unix)]
pub(crate) fn check_writable(path: &Path) -> Stored<()> {
    use rustix::fs::{Access, access};
    let folder = path.parent().unwrap_or(path);
    access(path, Access::READ_OK | Access::WRITE_OK)
        .and_then(|()| access(folder, Access::WRITE_OK | Access::EXEC_OK))
        .map_err(|error| {
            error::file(&format!("write to the ledger `{}`", path.display()), &error.into())
        })
}

#[cfg(not(unix))]
pub(crate) fn check_writable(_path: &Path) -> Stored<()> {
    Ok(())
}

/// Refuses to create a ledger next to the log of a lost one: SQLite would replay it into the new file.
pub(crate) fn check_no_orphan_log(path: &Path) -> Stored<()> {
    if has_log(path) && !path.exists() {
        return Err(refuse(
            StorageErrorKind::Corrupt,
            path,
            "is missing but its `-wal` file exists; put the ledger back, or move the `-wal` and `-shm` files away",
        ));
    }
    Ok(())
}

/// Refuses a file whose header is not a ledger's or is of a newer version. Reads 100 bytes and writes nothing.
pub(crate) fn check_header(path: &Path, length: u64) -> Stored<()> {
    if length == 0 {
        return Err(refuse(
            StorageErrorKind::Corrupt,
            path,
            "is empty: restore a backup if a ledger was there, or remove the file and a new ledger is created",
        ));
    }
    let mut header = [0_u8; 100];
    let read = File::open(path)
        .and_then(|mut file| read_up_to(&mut file, &mut header))
        .map_err(|error| error::file(&format!("read the ledger `{}`", path.display()), &error))?;
    let begun = header.get(..read.min(MAGIC.len())).unwrap_or_default();
    if !MAGIC.starts_with(begun) {
        return Err(refuse(
            StorageErrorKind::Foreign,
            path,
            "is not a SQLite file; pass another path",
        ));
    }
    if read < header.len() {
        return Err(refuse(StorageErrorKind::Corrupt, path, "is cut short; restore a backup"));
    }
    if big_endian(&header, 68) != u32::try_from(schema::APPLICATION_ID).ok() {
        return Err(refuse(
            StorageErrorKind::Foreign,
            path,
            "is a SQLite file of another application; pass another path",
        ));
    }
    // Without a log the header's page count must fit the length; with one, SQLite finds the missing pages in the log.
    if !has_log(path) && shorter_than_its_header(&header, length) {
        return Err(refuse(StorageErrorKind::Corrupt, path, "is cut short; restore a backup"));
    }
    // SQLite would treat a file of a newer format as read-only.
    if [header[18], header[19]].iter().any(|format| !(1..=2).contains(format)) {
        return Err(refuse(
            StorageErrorKind::Corrupt,
            path,
            "has a damaged header: it names a file format that no ledger has; restore a backup",
        ));
    }
    match big_endian(&header, 60).and_then(|version| usize::try_from(version).ok()) {
        Some(version) if version > schema::MIGRATIONS.len() => Err(schema::newer(version)),
        _ => Ok(()),
    }
}

fn read_up_to(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut read = 0;
    while let Some(rest) = buffer.get_mut(read..)
        && !rest.is_empty()
    {
        match file.read(rest)? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

fn shorter_than_its_header(header: &[u8; 100], length: u64) -> bool {
    // One size does not fit into the two bytes: 65,536 is stored as 1.
    let page = match u64::from(header[16]) << 8 | u64::from(header[17]) {
        1 => 65_536,
        size => size,
    };
    big_endian(header, 28).is_some_and(|pages| u64::from(pages) * page > length)
}

fn big_endian(header: &[u8], at: usize) -> Option<u32> {
    header.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

/// Refuses a file that other code in this process holds open. Linux only: elsewhere there is no cheap list of a process's
/// descriptors, and the user is responsible for the rule "one SQLite per ledger and process" (README).
#[cfg(target_os = "linux")]
pub(crate) fn check_not_held(path: &Path) -> Stored<()> {
    let mut ours = Vec::with_capacity(3);
    for suffix in ["", "-wal", "-shm"] {
        let name = companion(path, suffix);
        if let Ok(metadata) = fs::metadata(&name) {
            ours.push(id_of(&name, &metadata));
        }
    }
    let Ok(descriptors) = fs::read_dir("/proc/self/fd") else {
        // Without /proc the check is impossible; a refusal would exclude every such container.
        return Ok(());
    };
    for descriptor in descriptors.flatten() {
        let held = descriptor.path();
        if fs::metadata(&held).is_ok_and(|metadata| ours.contains(&id_of(&held, &metadata))) {
            return Err(refuse(
                StorageErrorKind::InUse,
                path,
                "is already open in this process, by another SQLite library or a second copy of this package, and \
                 two of them destroy it; close that one and read through `engine.ledger.query(sql, params)`",
            ));
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn check_not_held(_path: &Path) -> Stored<()> {
    Ok(())
}

fn refuse(kind: StorageErrorKind, path: &Path, why: &str) -> StorageError {
    StorageError::new(kind, format!("the ledger `{}` {why}", path.display()))
}
