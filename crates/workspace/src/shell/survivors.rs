//! The processes that a command left: each has the command's tag in its environment, also after `setsid` and a double fork. One
//! that clears its environment is not found; only a cgroup or a PID namespace would hold it.
//!
//! It must never signal a process by its number alone: the number may be another process by then.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The variable that has the tag.
pub(super) const TAG: &str = "NEXUS_AGENT_CALL";
/// How often the processes are looked through. Each round ends those that the one before missed because they just began.
const ROUNDS: usize = 200;
/// How often a process is looked at that starts another program, and the time between: half a second in all.
const MAX_STARTING: usize = 500;
const STARTING: Duration = Duration::from_millis(1);
/// With more processes than this the whole group is ended first: they could multiply sooner than they end one by one. Also how many are
/// waited for together.
const FEW: usize = 64;
/// How long the end of a process is waited for.
const ENDING: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The longest environment that is looked through.
const MAX_ENVIRONMENT: u64 = 4 * 1024 * 1024;

/// Ends every process with this tag; returns how many there were, or nothing if they multiply faster than they end. `end_group` ends
/// those of the command's group at once.
pub(super) fn end_all(tag: &str, end_group: impl Fn()) -> Option<usize> {
    let wanted = variable(tag);
    let mut ended = BTreeSet::new();
    let mut was_empty = false;
    for _ in 0..ROUNDS {
        let found: Vec<Pid> =
            processes().filter(|pid| settled(*pid, wanted.as_bytes()) == Tag::Has).collect();
        // One look is not enough: a process that begins during it may be missed.
        if found.is_empty() && was_empty {
            return Some(ended.len());
        }
        was_empty = found.is_empty();
        if found.len() > FEW {
            end_group();
            ended.extend(found.iter().map(|pid| pid.as_raw_nonzero()));
        }
        for some in found.chunks(FEW) {
            // All are asked to end before one is waited for.
            let ending: Vec<_> =
                some.iter().filter_map(|pid| Some((*pid, end(*pid, wanted.as_bytes())?))).collect();
            for (pid, handle) in ending {
                // Until it has ended it still has the tag. One that does not end in time is found again.
                let _ended = poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&ENDING));
                ended.insert(pid.as_raw_nonzero());
            }
        }
    }
    None
}

/// Whether a process has this tag in its environment.
pub(super) fn has_tag(pid: Pid, tag: &str) -> bool {
    self::tag(pid, variable(tag).as_bytes()) == Tag::Has
}

fn variable(tag: &str) -> String {
    format!("{TAG}={tag}")
}

pub(super) fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let number: i32 = entry.file_name().to_str()?.parse().ok()?;
        Pid::from_raw(number)
    })
}

/// What a process's environment says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tag {
    Has,
    /// Also where the process is gone, has ended or is of another user.
    HasNot,
    /// It starts another program: its environment is not in place yet.
    Unknown,
}

/// What a process's environment says, once it starts no other program.
fn settled(pid: Pid, wanted: &[u8]) -> Tag {
    let mut tag = tag(pid, wanted);
    for _ in 0..MAX_STARTING {
        if tag != Tag::Unknown {
            break;
        }
        std::thread::sleep(STARTING);
        tag = self::tag(pid, wanted);
    }
    tag
}

fn tag(pid: Pid, wanted: &[u8]) -> Tag {
    let process = Path::new("/proc").join(pid.as_raw_nonzero().to_string());
    let mut environment = Vec::new();
    let read = File::open(process.join("environ"))
        .and_then(|file| file.take(MAX_ENVIRONMENT).read_to_end(&mut environment));
    if read.is_err() {
        return Tag::HasNot;
    }
    if environment.is_empty() {
        let is_starting = fs::read_to_string(process.join("stat")).is_ok_and(|it| is_starting(&it));
        return if is_starting { Tag::Unknown } else { Tag::HasNot };
    }
    let mut variables = environment.split(|byte| *byte == 0);
    if variables.any(|variable| variable == wanted) { Tag::Has } else { Tag::HasNot }
}

/// Whether a process has memory, but the address of its environment is not known yet. Threads of the kernel and processes that have
/// ended have no memory, and an environment that was cleared has an address.
fn is_starting(stat: &str) -> bool {
    // The name of the program may have anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let field = |number: usize| fields.split_whitespace().nth(number - 3);
    let (memory, end_of_environment) = (field(23), field(51));
    memory.is_some_and(|size| size != "0") && end_of_environment == Some("0")
}

/// Ends one process, and returns its handle; nothing if it is another one by now.
fn end(pid: Pid, wanted: &[u8]) -> Option<OwnedFd> {
    let handle = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // The handle is of the process that had the number when it was opened: does that one have the tag?
    if settled(pid, wanted) != Tag::Has {
        return None;
    }
    pidfd_send_signal(&handle, Signal::KILL).ok().map(|()| handle)
}

#[cfg(test)]
mod tests {
    use super::is_starting;

    #[test]
    fn a_process_that_starts_a_program_has_memory_and_no_environment_yet() {
        let stat = |memory: &str, end_of_environment: &str| {
            let mut fields = vec!["S"; 50];
            fields[20] = memory;
            fields[48] = end_of_environment;
            format!("7 (a ) (b) {}", fields.join(" "))
        };
        assert!(is_starting(&stat("4096", "0")));
        assert!(!is_starting(&stat("4096", "140737488351207")));
        assert!(!is_starting(&stat("0", "0")));
        assert!(!is_starting(""));
    }
}
