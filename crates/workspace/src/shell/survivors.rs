//! The processes that a command left: each has the command's tag in its environment, also after `setsid` and a double fork. One
//! that clears its environment is not found; only a cgroup or a PID namespace would hold it.
//!
//! It must never signal a process by its number alone: the number may be another process by then.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable that has the tag.
pub(super) const TAG: &str = "NEXUS_AGENT_CALL";
/// How often the processes are looked through. Each round ends those that the one before missed because they just began.
const ROUNDS: usize = 200;
/// The longest environment that is looked through.
const MAX_ENVIRONMENT: u64 = 4 * 1024 * 1024;

/// Ends every process with this tag; returns how many there were, or nothing if they multiply faster than they end.
pub(super) fn end_all(tag: &str) -> Option<usize> {
    let wanted = format!("{TAG}={tag}");
    let mut ended = BTreeSet::new();
    let mut was_empty = false;
    for _ in 0..ROUNDS {
        let found: Vec<Pid> = processes().filter(|pid| has(*pid, wanted.as_bytes())).collect();
        // One look is not enough: while a process starts another program, its environment reads as empty.
        if found.is_empty() && was_empty {
            return Some(ended.len());
        }
        was_empty = found.is_empty();
        for pid in found {
            if end(pid, wanted.as_bytes()) {
                ended.insert(pid.as_raw_nonzero());
            }
        }
    }
    None
}

fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let number: i32 = entry.file_name().to_str()?.parse().ok()?;
        Pid::from_raw(number)
    })
}

/// Whether a process has the tag. One that is gone, ended or of another user has not.
fn has(pid: Pid, wanted: &[u8]) -> bool {
    let path = Path::new("/proc").join(pid.as_raw_nonzero().to_string()).join("environ");
    let mut environment = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(MAX_ENVIRONMENT).read_to_end(&mut environment));
    read.is_ok() && environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
}

/// Ends one process; false if it is another one by now.
fn end(pid: Pid, wanted: &[u8]) -> bool {
    let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    // The handle is of the process that had the number when it was opened: does that one have the tag?
    if !has(pid, wanted) || pidfd_send_signal(&handle, Signal::KILL).is_err() {
        return false;
    }
    // Until it has ended it still has the tag. One that does not end in time is found again.
    let most = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let _ended = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&most));
    true
}
