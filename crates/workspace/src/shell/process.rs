//! A shell and its pipe. It has a session, a process group, a cleaned environment and no input; its output is one pipe. It must
//! never be waited for without an end, and its number is not used once it is reaped.
#![expect(unsafe_code, reason = "what the child does before it becomes the shell has no safe form")]

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, setrlimit};

use super::landlock::Ruleset;
use super::survivors::TAG;
use crate::params::ShellLimits;

const SHELLS: [&str; 3] = ["/bin/bash", "/usr/bin/bash", "/bin/sh"];

/// What a shell starts with.
pub(super) struct Start<'s> {
    pub(super) command: &'s str,
    pub(super) environment: &'s [(String, String)],
    pub(super) tag: &'s str,
    /// Where it begins.
    pub(super) directory: OwnedFd,
    pub(super) ruleset: Option<Arc<Ruleset>>,
    pub(super) limits: ShellLimits,
}

/// A shell that runs, or has ended and is not reaped.
pub(super) struct Running {
    child: Child,
    /// Its process group, and its session.
    pub(super) group: Pid,
    /// Readable once the shell has ended.
    pub(super) handle: OwnedFd,
    /// What it and its children print.
    pub(super) pipe: File,
}

impl Running {
    pub(super) fn start(start: Start<'_>) -> io::Result<Self> {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&reader, OFlags::NONBLOCK)?;
        let program = SHELLS.into_iter().find(|path| Path::new(path).exists());
        #[expect(clippy::disallowed_methods, reason = "this is where shells are started")]
        let mut command = Command::new(program.unwrap_or("/bin/sh"));
        let Start { command: text, environment, tag, directory, ruleset, limits } = start;
        command
            .arg("-c")
            .arg(text)
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .env(TAG, tag)
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer);
        let before = move || -> io::Result<()> {
            rustix::process::setsid()?;
            rustix::process::umask(Mode::from_raw_mode(0o077));
            rustix::process::fchdir(directory.as_fd())?;
            close_on_exec();
            limit(&limits)?;
            match &ruleset {
                Some(ruleset) => Ok(ruleset.restrict()?),
                None => Ok(()),
            }
        };
        // SAFETY: the closure runs in the child between `fork` and `exec`. It only makes calls of the kernel, with handles that it
        // owns: it neither allocates nor takes a lock.
        unsafe {
            command.pre_exec(before);
        }
        let child = command.spawn()?;
        // Its copy of the pipe's writer is closed here, so that the pipe ends with the shell's children.
        drop(command);
        let group = Pid::from_child(&child);
        let handle = rustix::process::pidfd_open(group, PidfdFlags::empty())?;
        Ok(Self { child, group, handle, pipe: File::from(reader) })
    }

    /// Signals the whole group. The shell is not reaped yet, so that its number is still its own.
    pub(super) fn signal(&self, signal: Signal) {
        // A group that has ended needs no signal.
        let _sent = rustix::process::kill_process_group(self.group, signal);
    }

    /// Reads what is in the pipe; nothing where there is nothing now, and 0 at its end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match self.pipe.read(buffer) {
            Ok(length) => Ok(Some(length)),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reaps a shell that has ended, or was killed.
    pub(super) fn reap(mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

/// How a shell ended, if not well.
pub(super) fn failure(status: ExitStatus) -> Option<String> {
    match (status.code(), status.signal()) {
        (Some(0), _) => None,
        (Some(code), _) => Some(format!("Command exited with code {code}")),
        (None, Some(signal)) => Some(format!("Command was ended by signal {signal}")),
        (None, None) => Some("Command ended without an exit code".to_owned()),
    }
}

/// Sets the limits of the calling process, which its children have too. A limit above the system's own is that one.
fn limit(limits: &ShellLimits) -> io::Result<()> {
    let ShellLimits { cpu_seconds, file_bytes, memory_bytes, open_files, processes: _ } = *limits;
    let wanted = [
        (Resource::Cpu, cpu_seconds),
        (Resource::Fsize, file_bytes),
        (Resource::As, memory_bytes),
        (Resource::Nofile, open_files),
        // A core has the memory of a process, and is as large.
        (Resource::Core, Some(0)),
    ];
    for (resource, most) in wanted {
        let Some(most) = most else { continue };
        let most = getrlimit(resource).maximum.map_or(most, |system| system.min(most));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// No handle of the host, whatever library opened it, is the shell's. A kernel before 5.11 has no such call.
fn close_on_exec() {
    // SAFETY: the call takes three numbers, and only sets a flag of this process's handles.
    let _set =
        unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}
