//! Who holds a lease: this process and its open ledger, and whether another such process still lives.
//!
//! It must never declare a process dead that it cannot see: what is not known to be dead is waited for.

use rusqlite::types::ToSqlOutput;

use crate::sqlite::columns::Columns;
use crate::sqlite::error::Stored;
use crate::sqlite::fields::{Column, Fields, FromFields};
use base::clock::Clock;

/// An open ledger of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The open ledger's ULID: a process that opens the file again is another owner.
    pub(crate) id: String,
    pub(crate) pid: i64,
    /// When the process began, in the system's ticks since boot; `None` where it does not report that.
    pub(crate) pid_started: Option<i64>,
    /// Whose pids they are; empty where the system has one set.
    pub(crate) pid_space: String,
    /// The boot; empty where the system does not report it.
    pub(crate) boot_id: String,
}

impl Owner {
    /// This process, with a new id.
    pub(crate) fn this(clock: &Clock) -> Self {
        let pid = i64::from(std::process::id());
        Self {
            id: clock.new_id(),
            pid,
            pid_started: process(pid)
                .filter(|process| !process.ended)
                .and_then(|process| process.started),
            pid_space: pid_space(),
            boot_id: boot_id(),
        }
    }

    /// Whether `other` is known to have ended: of an earlier boot, or a process that can be seen here and has ended.
    pub(crate) fn knows_dead(&self, other: &Self) -> bool {
        if self.boot_id != other.boot_id {
            return true;
        }
        if self.pid_space != other.pid_space {
            return false;
        }
        is_dead(other)
    }
}

/// The columns of `session_leases` and `runs` that name an owner.
impl Columns for Owner {
    fn names(into: &mut Vec<&'static str>) {
        into.extend(["owner", "pid", "pid_started", "pid_space", "boot_id"]);
    }

    fn values<'v>(&'v self, into: &mut Vec<ToSqlOutput<'v>>) {
        let Self { id, pid, pid_started, pid_space, boot_id } = self;
        into.extend([id.bind(), pid.bind(), pid_started.bind(), pid_space.bind(), boot_id.bind()]);
    }
}

/// `None` where the row names no owner.
impl<'r> FromFields<'r> for Option<Owner> {
    fn from_fields(fields: &mut Fields<'r>) -> Stored<Self> {
        let (id, pid): (Option<String>, Option<i64>) = fields.next()?;
        let (pid_started, pid_space, boot_id) =
            fields.next::<(_, Option<String>, Option<String>)>()?;
        Ok(id.map(|id| Owner {
            id,
            pid: pid.unwrap_or_default(),
            pid_started,
            pid_space: pid_space.unwrap_or_default(),
            boot_id: boot_id.unwrap_or_default(),
        }))
    }
}

/// What the system reports of a process.
struct Process {
    started: Option<i64>,
    ended: bool,
}

#[cfg(target_os = "linux")]
fn is_dead(owner: &Owner) -> bool {
    match process(owner.pid) {
        Some(found) => found.ended || found.started != owner.pid_started,
        // Without /proc nothing is known of anybody.
        None => process(i64::from(std::process::id())).is_some(),
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
fn is_dead(owner: &Owner) -> bool {
    let pid = i32::try_from(owner.pid).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn is_dead(_owner: &Owner) -> bool {
    false
}

/// From `/proc/<pid>/stat`: the state, and when it began. The name before them may hold anything, also `)`.
#[cfg(target_os = "linux")]
fn process(pid: i64) -> Option<Process> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(')')?;
    let mut fields = after.split_ascii_whitespace();
    let state = fields.next()?;
    // A zombie has ended, and its parent has not collected its status.
    let ended = matches!(state, "Z" | "X" | "x");
    Some(Process { started: fields.nth(18)?.parse().ok(), ended })
}

#[cfg(not(target_os = "linux"))]
fn process(_pid: i64) -> Option<Process> {
    Some(Process { started: None, ended: false })
}

#[cfg(target_os = "linux")]
fn boot_id() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(not(target_os = "linux"))]
fn boot_id() -> String {
    String::new()
}

#[cfg(target_os = "linux")]
fn pid_space() -> String {
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.to_string_lossy().into_owned()
}

#[cfg(not(target_os = "linux"))]
fn pid_space() -> String {
    String::new()
}

#[cfg(test)]
mod tests {
    use super::Owner;
    use base::clock::Clock;

    #[test]
    fn a_process_is_dead_when_it_ended_or_its_pid_is_anothers_or_the_system_was_started_again() {
        let me = Owner::this(&Clock::default());
        assert!(!me.knows_dead(&me));
        if !cfg!(target_os = "linux") {
            return;
        }
        let reused = Owner { pid_started: me.pid_started.map(|at| at - 1), ..me.clone() };
        let gone = Owner { pid: i64::from(i32::MAX), ..me.clone() };
        let earlier = Owner { boot_id: "earlier".to_owned(), ..me.clone() };
        assert_eq!(
            [reused, gone.clone(), earlier].map(|other| me.knows_dead(&other)),
            [true, true, true]
        );
        let elsewhere = Owner { pid_space: "elsewhere".to_owned(), ..gone };
        assert!(!me.knows_dead(&elsewhere), "its pids cannot be looked up here");
    }
}
