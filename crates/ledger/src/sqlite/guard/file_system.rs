//! The file systems on which a ledger may be: those that only one host uses.
//!
//! WAL has its index in memory that is mapped by every process that has the file open, and its locks in the kernel. Another
//! host sees neither: over a network both writers would find the file unlocked. It must never refuse an unknown file system.

use std::path::Path;

use crate::sqlite::error::Stored;
#[cfg(target_os = "linux")]
use model::{StorageError, StorageErrorKind};

/// Refuses network file systems, and those that share a host's folder with a guest. Linux only: other systems do not list
/// them cheaply, so there the caller is responsible.
#[cfg(target_os = "linux")]
pub(crate) fn check(path: &Path) -> Stored<()> {
    let folder = path.parent().unwrap_or(path);
    let name = match list::mounted_at(folder) {
        Some(kind) if list::is_shared(&kind) => Some(kind),
        // If the list of mounts is hidden or its names are unknown, the number decides.
        Some(_) | None => {
            let stat = rustix::fs::statfs(folder).map_err(|error| {
                let doing = format!("find the file system of `{}`", path.display());
                crate::sqlite::error::file(&doing, &error.into())
            })?;
            let magic = u64::try_from(stat.f_type & 0xffff_ffff).unwrap_or_default();
            list::by_number(magic).map(ToOwned::to_owned)
        }
    };
    match name {
        None => Ok(()),
        Some(name) => Err(StorageError::new(
            StorageErrorKind::NotLocal,
            format!(
                "the ledger `{}` is on a network or shared file system (`{name}`), where SQLite's log cannot be \
                 shared: it needs locks and memory that every process on the file sees, and another host sees \
                 neither; pass a path on a local disk",
                path.display()
            ),
        )),
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn check(_path: &Path) -> Stored<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
mod list {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    use std::path::{Path, PathBuf};

    /// The names in `/proc/self/mountinfo`. A FUSE file system has its program's name after a dot; one that is not in the
    /// list may be local, such as an encrypted folder.
    const SHARED: &[&str] = &[
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "ncpfs",
        "afs",
        "coda",
        "9p",
        "ceph",
        "lustre",
        "gpfs",
        "beegfs",
        "panfs",
        "orangefs",
        "glusterfs",
        "virtiofs",
        "vboxsf",
        "prl_fs",
        "vmhgfs",
        "davfs",
        "fuse.sshfs",
        "fuse.s3fs",
        "fuse.gcsfuse",
        "fuse.rclone",
        "fuse.glusterfs",
        "fuse.ceph",
        "fuse.ceph-fuse",
        "fuse.juicefs",
        "fuse.curlftpfs",
        "fuse.davfs2",
        "fuse.afp",
        "fuse.vmhgfs-fuse",
        "fuse.mount-s3",
        "fuse.blobfuse2",
        "fuse.osxfs",
        "fuse.grpcfuse",
        "fuse.smbnetfs",
        "fuse.beegfs",
        "fuse.moosefs",
        "fuse.mfs",
    ];

    /// The numbers from linux/magic.h and from modules outside the kernel.
    const NUMBERS: &[(u64, &str)] = &[
        (0x6969, "nfs"),
        (0x517b, "smbfs"),
        (0xff53_4d42, "cifs"),
        (0xfe53_4d42, "smb3"),
        (0x564c, "ncpfs"),
        (0x5346_414f, "afs"),
        (0x6b41_4653, "afs"),
        (0x7375_7245, "coda"),
        (0x0102_1997, "9p"),
        (0x00c3_6400, "ceph"),
        (0x0bd0_0bd0, "lustre"),
        (0x4750_4653, "gpfs"),
        (0x1983_0326, "beegfs"),
        (0xaad7_aaea, "panfs"),
        (0x2003_0528, "orangefs"),
        (0x786f_4256, "vboxsf"),
        (0x7c7c_6673, "prl_fs"),
        (0xbacb_acbc, "vmhgfs"),
    ];

    pub(super) fn is_shared(kind: &str) -> bool {
        SHARED.contains(&kind)
    }

    pub(super) fn by_number(magic: u64) -> Option<&'static str> {
        NUMBERS.iter().find(|(number, _)| *number == magic).map(|(_, name)| *name)
    }

    /// The kind of the file system with `folder`, an absolute path without links.
    pub(super) fn mounted_at(folder: &Path) -> Option<String> {
        kind_of(&std::fs::read_to_string("/proc/self/mountinfo").ok()?, folder)
    }

    /// `36 35 98:0 /root /mount/point rw shared:1 - ext4 /dev/sda rw`: the innermost mount above the folder; of two mounts
    /// at one point the later, which covers the other.
    pub(super) fn kind_of(mounts: &str, folder: &Path) -> Option<String> {
        let mut found: Option<(usize, &str)> = None;
        for line in mounts.lines() {
            let Some((before, after)) = line.split_once(" - ") else { continue };
            let (Some(point), Some(kind)) = (before.split(' ').nth(4), after.split(' ').next())
            else {
                continue;
            };
            let point = unescape(point);
            let depth = point.components().count();
            if folder.starts_with(&point) && found.is_none_or(|(deepest, _)| depth >= deepest) {
                found = Some((depth, kind));
            }
        }
        found.map(|(_, kind)| kind.to_owned())
    }

    /// Spaces and backslashes are written as `\040` and `\134`.
    fn unescape(point: &str) -> PathBuf {
        let mut bytes = Vec::with_capacity(point.len());
        let mut rest = point;
        while let Some((plain, escaped)) = rest.split_once('\\') {
            bytes.extend_from_slice(plain.as_bytes());
            let code = escaped.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok());
            match code {
                Some(byte) => {
                    bytes.push(byte);
                    rest = escaped.get(3..).unwrap_or_default();
                }
                None => {
                    bytes.push(b'\\');
                    rest = escaped;
                }
            }
        }
        bytes.extend_from_slice(rest.as_bytes());
        PathBuf::from(OsString::from_vec(bytes))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_folder_is_on_the_innermost_and_latest_mount() {
            let mounts = "22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
                          30 22 0:40 / /home rw - nfs4 server:/home rw\n\
                          31 30 8:2 / /home/me/local\\040disk rw shared:2 master:3 - xfs /dev/sdb rw\n\
                          32 22 8:3 / /srv rw - ext4 /dev/sdc rw\n\
                          33 22 0:41 / /srv rw - fuse.sshfs me@host: rw\n\
                          not a line\n";
            let kinds = ["/home/me", "/home/me/local disk/x", "/homework", "/srv", "/"]
                .map(|folder| kind_of(mounts, Path::new(folder)).unwrap());
            assert_eq!(kinds, ["nfs4", "xfs", "ext4", "fuse.sshfs", "ext4"]);
            assert_eq!(kinds.map(|kind| is_shared(&kind)), [true, false, false, true, false]);
            assert_eq!(kind_of("", Path::new("/")), None);
        }

        #[test]
        fn every_number_is_of_a_kind_that_is_refused_and_local_ones_are_not_among_them() {
            assert!(NUMBERS.iter().all(|(_, name)| is_shared(name)));
            // ext4, tmpfs, xfs, btrfs, overlay, zfs, any FUSE program.
            for local in [
                0xef53,
                0x0102_1994,
                0x5846_5342,
                0x9123_683e,
                0x794c_7630,
                0x2fc1_2fc1,
                0x6573_5546,
            ] {
                assert_eq!(by_number(local), None);
            }
        }
    }
}
