//! Whether this process still has a lock on a file, according to the system's list.
//!
//! When another SQLite in the process closes the file, POSIX drops the locks of both. Linux only. It must never report a
//! lock as lost because the list changed while it was read.

use crate::sqlite::file::FileId;

/// The number of reads of the list: an entry may be missing once because the list changed, but not in all of them.
#[cfg(target_os = "linux")]
const READS: usize = 8;

/// Whether `/proc/locks` shows a lock of this process on the file; `None` if it cannot be read. The list is read in pieces,
/// so it is searched again for a missing entry.
#[cfg(target_os = "linux")]
pub(super) fn shows(file: &FileId) -> Option<bool> {
    let FileId::Inode(_, inode) = file;
    for _ in 0..READS {
        let list = std::fs::read_to_string("/proc/locks").ok()?;
        if lists(&list, std::process::id(), *inode) {
            return Some(true);
        }
    }
    Some(false)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn shows(_file: &FileId) -> Option<bool> {
    None
}

/// `12: POSIX  ADVISORY  READ 4242 fe:01:1052 128 128`. Its device is not always that of `stat`, and another file of this
/// process with the same inode would only hide a loss.
#[cfg(target_os = "linux")]
fn lists(list: &str, pid: u32, inode: u64) -> bool {
    list.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let kind = fields.next();
        let mut fields = fields.skip(2);
        let owner = fields.next().and_then(|pid| pid.parse::<u32>().ok());
        let of = fields.next().and_then(|of| of.rsplit(':').next()?.parse::<u64>().ok());
        kind == Some("POSIX") && owner == Some(pid) && of == Some(inode)
    })
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    #[test]
    fn a_lock_is_its_process_s_and_its_file_s() {
        let list = "1: POSIX  ADVISORY  READ 77 fe:01:1052 128 128\n\
                    2: FLOCK  ADVISORY  WRITE 77 fe:01:9 0 EOF\n\
                    2: -> POSIX  ADVISORY  WRITE 78 fe:01:1053 0 EOF\n";
        let held = [(77, 1052), (78, 1052), (77, 9), (78, 1053), (77, 105)]
            .map(|(pid, inode)| super::lists(list, pid, inode));
        assert_eq!(held, [true, false, false, false, false]);
    }
}
