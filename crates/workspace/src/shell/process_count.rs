//! How many processes a command runs at once. The kernel can bound those of a user only, and of root none: so they are counted while
//! the command runs. It must cost nothing that is felt while a machine starts few processes.
#![expect(
    unsafe_code,
    reason = "the session of a thread of the kernel has the number 0, which the safe call takes for no number"
)]

use rustix::process::Pid;

use super::survivors::{has_tag, processes};

/// A command with more processes is ended, if the host says no number.
const DEFAULT_LIMIT: u64 = 1024;
/// At each tenth look the processes of its session are counted, whatever the kernel's number says: that one falls when others end.
const EACH: u32 = 10;
/// A greater rise of the kernel's number may be a fall: it has 16 bits.
const MAX_RISE: u16 = 1 << 14;

/// The processes of a command.
pub(super) struct ProcessCount<'t> {
    limit: u64,
    tag: &'t str,
    session: Pid,
    /// The kernel's number of threads, without those of the command, as of the last look that changed it.
    others: u16,
    /// How often the processes were looked at.
    looks: u32,
}

impl<'t> ProcessCount<'t> {
    pub(super) fn new(limit: Option<u64>, tag: &'t str, session: Pid) -> Self {
        Self { limit: limit.unwrap_or(DEFAULT_LIMIT), tag, session, others: threads(), looks: 0 }
    }

    /// The limit, if the command runs more processes.
    pub(super) fn exceeded(&mut self) -> Option<u64> {
        self.looks += 1;
        if self.looks.is_multiple_of(EACH) && self.is_more(self.count(|_| false)) {
            return Some(self.limit);
        }
        let now = threads();
        let rise = now.wrapping_sub(self.others);
        if rise > u16::MAX / 2 {
            // Others have ended.
            self.others = now;
            return None;
        }
        if u64::from(rise) <= self.limit.min(MAX_RISE.into()) {
            return None;
        }
        let count = self.count(|pid| has_tag(pid, self.tag));
        if self.is_more(count) {
            return Some(self.limit);
        }
        // The others are processes of other programs, or threads.
        self.others = now.wrapping_sub(u16::try_from(count).unwrap_or(MAX_RISE));
        None
    }

    /// The processes of its session, and others that are its own.
    fn count(&self, is_own: impl Fn(Pid) -> bool) -> usize {
        processes().filter(|pid| is_in_session(*pid, self.session) || is_own(*pid)).count()
    }

    fn is_more(&self, count: usize) -> bool {
        u64::try_from(count).is_ok_and(|count| count > self.limit)
    }
}

fn is_in_session(pid: Pid, session: Pid) -> bool {
    // SAFETY: the call takes a number, and only reads.
    let found = unsafe { libc::getsid(pid.as_raw_pid()) };
    found == session.as_raw_pid()
}

/// The number of threads of all processes, its last 16 bits.
fn threads() -> u16 {
    rustix::system::sysinfo().procs
}
