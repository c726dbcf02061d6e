//! A child process that serves over its pipes: with a group and an environment of its own, and an end with this process.
//!
//! It must never outlive the thread that started it where the kernel can see to that, and its number is not used once it is reaped.
#![cfg_attr(
    target_os = "linux",
    expect(
        unsafe_code,
        reason = "what the child does before it becomes the server has no safe form"
    )
)]

use std::io;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a server starts with.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ServerCommand {
    /// The program: a path, or a name that is looked up in the `PATH` of `environment`.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
    /// Where it begins; this process's directory where absent.
    pub directory: Option<String>,
}

/// The pipes of a server.
pub struct ServerPipes {
    /// What it reads.
    pub stdin: ChildStdin,
    /// What it answers.
    pub stdout: ChildStdout,
    /// What it logs.
    pub stderr: ChildStderr,
}

/// A server that was started.
pub struct ServerProcess {
    /// `None` once it is reaped.
    child: Mutex<Option<Child>>,
}

impl ServerProcess {
    /// Starts a server. On Linux it is killed when the thread that calls this ends, however that happens: call it on a thread that
    /// stays until the server has ended.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(server: &ServerCommand) -> io::Result<(Self, ServerPipes)> {
        #[expect(clippy::disallowed_methods, reason = "this is where servers are started")]
        let mut command = Command::new(&server.command);
        command
            .args(&server.args)
            .env_clear()
            .envs(server.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(directory) = &server.directory {
            command.current_dir(directory);
        }
        separate(&mut command);
        let mut child = command.spawn()?;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err(io::Error::other("the pipes of the process are missing"));
        };
        Ok((Self { child: Mutex::new(Some(child)) }, ServerPipes { stdin, stdout, stderr }))
    }

    /// Requests its end, and that of its group.
    pub fn terminate(&self) {
        if let Some(child) = self.lock().as_mut() {
            signal(child, End::Request);
        }
    }

    /// Ends it, with its group.
    pub fn kill(&self) {
        if let Some(child) = self.lock().as_mut() {
            signal(child, End::Force);
        }
    }

    /// Ends it, and waits until it has ended. `None` if it was reaped before.
    pub fn reap(&self) -> Option<ExitStatus> {
        let mut child = self.lock();
        let running = child.as_mut()?;
        // How it ended, if it did so by itself.
        let status = running.try_wait().ok().flatten();
        signal(running, End::Force);
        let status = status.or_else(|| running.wait().ok());
        *child = None;
        status
    }

    fn lock(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Copy)]
enum End {
    Request,
    Force,
}

#[cfg(target_os = "linux")]
fn separate(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;

    use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

    command.process_group(0);
    let parent = getpid();
    let before = move || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        if getppid() != Some(parent) {
            return Err(io::Error::other("the host has ended"));
        }
        close_on_exec();
        Ok(())
    };
    // SAFETY: the closure runs in the child between `fork` and `exec`. It only makes calls of the kernel, and neither allocates nor
    // takes a lock, except for the error of a host that is gone.
    unsafe {
        command.pre_exec(before);
    }
}

/// No handle of the host, whatever library opened it, is the server's. A kernel before 5.11 has no such call.
#[cfg(target_os = "linux")]
fn close_on_exec() {
    // SAFETY: the call takes three numbers, and only sets a flag of this process's handles.
    let _set =
        unsafe { libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
}

#[cfg(all(unix, not(target_os = "linux")))]
fn separate(command: &mut Command) {
    use std::os::unix::process::CommandExt as _;

    command.process_group(0);
}

#[cfg(not(unix))]
fn separate(_command: &mut Command) {}

/// The child is not reaped yet, so that its number is still its own.
#[cfg(target_os = "linux")]
fn signal(child: &mut Child, end: End) {
    use rustix::process::{Pid, Signal, kill_process_group};

    let signal = match end {
        End::Request => Signal::TERM,
        End::Force => Signal::KILL,
    };
    // A group that has ended needs no signal.
    let _sent = kill_process_group(Pid::from_child(child), signal);
}

/// Only the process itself can be ended here; what it started sees its pipes close.
#[cfg(not(target_os = "linux"))]
fn signal(child: &mut Child, end: End) {
    match end {
        End::Request => {}
        // One that has ended needs no signal.
        End::Force => drop(child.kill()),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};

    use super::{ServerCommand, ServerProcess};

    fn shell(script: &str) -> ServerCommand {
        ServerCommand {
            command: "sh".to_owned(),
            args: vec!["-c".to_owned(), script.to_owned()],
            environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            directory: None,
        }
    }

    #[test]
    fn a_server_has_its_pipes_and_only_the_environment_that_it_was_given() {
        let (process, pipes) = ServerProcess::start(&shell("read line; echo $line-$HOME")).unwrap();
        let mut stdin = pipes.stdin;
        stdin.write_all(b"hello\n").unwrap();
        let mut line = String::new();
        BufReader::new(pipes.stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "hello-\n");
        process.reap().unwrap();
        assert_eq!(process.reap(), None);
    }

    #[test]
    fn what_a_server_started_ends_with_it() {
        let (process, pipes) =
            ServerProcess::start(&shell("sleep 600 & echo up; trap '' TERM; wait; wait")).unwrap();
        let mut stdout = BufReader::new(pipes.stdout);
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        process.reap().unwrap();
        // The child of the server held the pipe too: its end shows that both are gone.
        assert_eq!(stdout.read_line(&mut line).unwrap(), 0);
    }

    #[test]
    fn a_program_that_is_not_there_is_an_error() {
        let missing = ServerCommand { command: "/no/such/server".to_owned(), ..shell("") };
        assert!(ServerProcess::start(&missing).is_err());
    }
}
