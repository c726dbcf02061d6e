//! Who holds a lease: this process and its open ledger, and whether another such process still lives.
//!
//! It must never take a process for dead that it cannot see: what is not known to be dead is waited for.

use rusqlite::Row;

use base::clock::Clock;

/// An open ledger of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owner {
    /// The open ledger's ULID: a process that opens the file again is another owner.
    pub(crate) id: String,
    pub(crate) pid: i64,
    /// When the process began, in the system's ticks since boot; `None` where it does not tell.
    pub(crate) pid_started: Option<i64>,
    /// Whose pids they are; empty where the system has one set.
    pub(crate) pid_space: String,
    /// The boot; empty where the system does not tell.
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

    /// The owner of a row of `session_leases`, from the column `at` on: owner, pid, pid_started, pid_space, boot_id.
    pub(crate) fn of_row(row: &Row<'_>, at: usize) -> rusqlite::Result<Option<Self>> {
        let Some(id) = row.get(at)? else { return Ok(None) };
        Ok(Some(Self {
            id,
            pid: row.get::<_, Option<i64>>(at + 1)?.unwrap_or_default(),
            pid_started: row.get(at + 2)?,
            pid_space: row.get::<_, Option<String>>(at + 3)?.unwrap_or_default(),
            boot_id: row.get::<_, Option<String>>(at + 4)?.unwrap_or_default(),
        }))
    }

    /// Whether `other` is known to be gone: of an earlier boot, or a process of ours to see that ended.
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

/// What the system tells of a process.
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
    // A zombie has ended, and waits for its parent to hear of it.
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
        assert!(!me.knows_dead(&elsewhere), "its pids are not ours to look up");
    }
}
