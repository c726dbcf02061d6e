//! The tool `bash`: runs a command until its shell ends, its time is up, or the call is aborted, and ends everything that it
//! started. It must never wait for a process that only holds the pipe, and never longer than its time limit.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use base::clock::Clock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use serde_json::json;

use super::landlock::Ruleset;
use super::output::Printed;
use super::process::{Running, Start, failure};
use super::process_count::ProcessCount;
use super::sandbox::{check, ruleset};
use super::survivors;
use crate::cancel::Cancel;
use crate::error::{ToolError, system};
use crate::output::Output;
use crate::params::{Background, BashParams, ShellOptions};
use crate::root::Scratch;
use crate::workspace::Workspace;

/// How long the pipe may stay open after the shell has ended.
const PIPE_GRACE: Duration = Duration::from_millis(200);
/// How long a shell may take to end after it was asked to.
const TERM_GRACE: Duration = Duration::from_millis(100);
/// The shortest time between two updates.
const UPDATE: Duration = Duration::from_millis(100);
/// How often the processes of a command are counted.
const COUNT: Duration = Duration::from_millis(100);
/// Bytes of the output that an update has.
const SHOWN: usize = 8 * 1024;
/// The longest command: what the kernel accepts as one argument.
const MAX_COMMAND: usize = 128 * 1024 - 1;
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
const PIECE: usize = 64 * 1024;

/// The shells of a workspace.
#[derive(Debug)]
pub(crate) struct Shell {
    options: ShellOptions,
    clock: Clock,
    started: OnceLock<Result<Surroundings, String>>,
}

/// Where shells run, made for the first of them.
#[derive(Debug)]
struct Surroundings {
    ruleset: Option<Arc<Ruleset>>,
    environment: Vec<(String, String)>,
}

/// Why a command was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stopped {
    Aborted,
    TimedOut,
    /// It ran more processes than this.
    TooMany(u64),
}

impl Shell {
    /// The shells of a workspace with these options; an error where its sandbox is required and this kernel has none.
    pub(crate) fn new(options: ShellOptions) -> Result<Self, String> {
        check(&options)?;
        Ok(Self { options, clock: Clock::default(), started: OnceLock::new() })
    }

    fn surroundings(&self, workspace: &Workspace) -> Result<&Surroundings, ToolError> {
        let started = self.started.get_or_init(|| {
            let scratch = workspace.scratch()?;
            let temporary = scratch.temporary();
            let home = scratch.home();
            let directories = workspace
                .directories_of_shells(&[&temporary, &home])
                .map_err(|error| format!("the sandbox: {}", std::io::Error::from(error)))?;
            let ruleset = ruleset(&self.options, &directories)?.map(Arc::new);
            let mut environment = self.options.environment.clone();
            let path = |path: &std::path::Path| path.to_string_lossy().into_owned();
            environment.insert("TMPDIR".to_owned(), path(&temporary));
            if ruleset.is_some() && self.options.own_home {
                environment.insert("HOME".to_owned(), path(&home));
            }
            let environment = environment.into_iter().collect();
            Ok(Surroundings { ruleset, environment })
        });
        started.as_ref().map_err(|error| ToolError::new(error.as_str()))
    }
}

/// Runs a command.
pub(crate) fn bash(
    workspace: &Workspace,
    shell: &Shell,
    params: &BashParams,
    cancel: &Cancel,
    update: &dyn Fn(Output),
) -> Result<Output, ToolError> {
    let BashParams { command, timeout } = params;
    if command.len() > MAX_COMMAND || command.contains('\0') {
        return Err(ToolError::new(format!(
            "the command is longer than {MAX_COMMAND} bytes, or has a NUL character; write a script and run it"
        )));
    }
    let limit = match timeout {
        Some(seconds) if *seconds > 0.0 => {
            Duration::try_from_secs_f64(*seconds).unwrap_or(MAX_TIMEOUT).min(MAX_TIMEOUT)
        }
        Some(_) | None => Duration::from_millis(shell.options.timeout_ms),
    };
    let Surroundings { ruleset, environment } = shell.surroundings(workspace)?;
    let scratch = workspace.scratch().map_err(ToolError::new)?;
    let directory = workspace
        .root()?
        .open_path(std::path::Path::new("."))
        .map_err(|error| system(".", error))?
        .into_handle();
    let tag = shell.clock.new_id();
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| system(".", error))?);
    let waker = Arc::clone(&wake);
    let _woken = cancel.on_cancel(move || {
        // It can only fail while the counter is full, and then the wait has ended anyway.
        let _written = rustix::io::write(&*waker, &1_u64.to_ne_bytes());
    });
    let failed = |error: std::io::Error| ToolError::new(format!("the shell failed: {error}"));
    cancel.check()?;
    let start = Start {
        command,
        environment,
        tag: &tag,
        directory,
        ruleset: ruleset.as_ref().map(Arc::clone),
        limits: shell.options.limits,
    };
    let running = Running::start(start).map_err(failed)?;
    let mut watched = Watched {
        processes: ProcessCount::new(shell.options.limits.processes, &tag, running.group),
        running,
        printed: Printed::new(),
        clock: &shell.clock,
        wake: &wake,
        scratch,
        update,
    };
    let stopped = watched.watch(limit, cancel).map_err(ToolError::new);
    let Watched { running, printed, .. } = watched;
    let keeps = shell.options.background == Background::Keep && matches!(stopped, Ok(None));
    let mut left = Some(0);
    if !keeps {
        // Before the shell is reaped: until then its group has no other meaning.
        if !matches!(stopped, Ok(None)) {
            running.signal(Signal::KILL);
        }
        left = survivors::end_all(&tag, || running.signal(Signal::KILL));
        running.signal(Signal::KILL);
    }
    let status = running.reap().map_err(failed)?;
    let ending = match (stopped?, failure(status)) {
        (Some(why), _) => Ending::Stopped(why.sentence(limit)),
        (None, Some(why)) => Ending::Failed(why),
        (None, None) => Ending::Well,
    };
    result(printed, left, ending)
}

/// How a command ended, and what the model reads about it.
enum Ending {
    Well,
    Failed(String),
    Stopped(String),
}

impl Stopped {
    fn sentence(self, limit: Duration) -> String {
        match self {
            Self::Aborted => "Command aborted".to_owned(),
            Self::TimedOut => format!("Command timed out after {} seconds", limit.as_secs_f64()),
            Self::TooMany(most) => {
                format!("Command was ended: it ran more than {most} processes at once")
            }
        }
    }
}

struct Watched<'w> {
    running: Running,
    processes: ProcessCount<'w>,
    printed: Printed,
    clock: &'w Clock,
    wake: &'w OwnedFd,
    scratch: &'w Scratch,
    update: &'w dyn Fn(Output),
}

impl Watched<'_> {
    /// Reads the output until the shell has ended and its pipe too, or nearly.
    fn watch(&mut self, limit: Duration, cancel: &Cancel) -> Result<Option<Stopped>, String> {
        let start = self.clock.instant();
        let deadline = start + limit;
        let (mut stopped, mut has_ended, mut has_pipe) = (None, false, true);
        // When the wait ends whatever happens: after the shell's end, or after it was asked to end.
        let mut last = None;
        let (mut next_update, mut shown) = (start + UPDATE, 0);
        let mut next_count = start + COUNT;
        let mut buffer = vec![0; PIECE];
        loop {
            let now = self.clock.instant();
            if stopped.is_none() && !has_ended {
                if cancel.check().is_err() {
                    stopped = Some(Stopped::Aborted);
                } else if now >= deadline {
                    stopped = Some(Stopped::TimedOut);
                }
                if stopped.is_some() {
                    self.running.signal(Signal::TERM);
                    last = Some(now + TERM_GRACE);
                }
            }
            if now >= next_count {
                if let Some(most) = self.processes.exceeded() {
                    return Ok(Some(Stopped::TooMany(most)));
                }
                next_count = now + COUNT;
            }
            if (has_ended && !has_pipe) || last.is_some_and(|last| now >= last) {
                return Ok(stopped);
            }
            if now >= next_update {
                if self.printed.total() > shown {
                    shown = self.printed.total();
                    (self.update)(partial(&self.printed));
                }
                next_update = now + UPDATE;
            }
            let until = last.unwrap_or(deadline).min(next_count);
            let until = if self.printed.total() > shown { until.min(next_update) } else { until };
            let (ended, readable) = self
                .wait(until.saturating_duration_since(now), has_ended, has_pipe, stopped.is_some())
                .map_err(|error| format!("the shell failed: {}", std::io::Error::from(error)))?;
            if readable {
                match self.running.read(&mut buffer) {
                    Ok(Some(0)) => has_pipe = false,
                    Ok(Some(length)) => {
                        self.printed.add(buffer.get(..length).unwrap_or_default(), self.scratch);
                    }
                    Ok(None) => {}
                    Err(error) => return Err(format!("the shell's output failed: {error}")),
                }
            }
            if ended && !has_ended {
                has_ended = true;
                let now = self.clock.instant();
                last = Some(last.map_or(now + PIPE_GRACE, |last| last.min(now + PIPE_GRACE)));
            }
        }
    }

    /// Waits until something happens: whether the shell has ended, and whether its pipe can be read.
    fn wait(
        &self,
        most: Duration,
        has_ended: bool,
        has_pipe: bool,
        is_stopped: bool,
    ) -> Result<(bool, bool), Errno> {
        let mut handles = Vec::with_capacity(3);
        let mut add = |handle, wanted: bool| {
            let flags = if wanted { PollFlags::IN } else { PollFlags::empty() };
            handles.push(PollFd::from_borrowed_fd(handle, flags));
        };
        add(self.running.handle.as_fd(), !has_ended);
        if has_pipe {
            add(self.running.pipe.as_fd(), true);
        }
        if !is_stopped {
            add(self.wake.as_fd(), true);
        }
        let most = Timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(most.subsec_nanos()),
        };
        match poll(&mut handles, Some(&most)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let happened = |at: usize| handles.get(at).is_some_and(|each| !each.revents().is_empty());
        Ok((!has_ended && happened(0), has_pipe && happened(1)))
    }
}

/// An update: the end of what was printed so far.
fn partial(printed: &Printed) -> Output {
    let details = printed.path().map(|path| json!({ "fullOutputPath": path }));
    Output::text(printed.last(SHOWN)).with_details(details)
}

fn result(mut printed: Printed, left: Option<usize>, ending: Ending) -> Result<Output, ToolError> {
    let shown = printed.shown();
    let mut text = printed.text();
    if text.is_empty() && !matches!(ending, Ending::Stopped(_)) {
        text.push_str("(no output)");
    }
    let mut notes = Vec::new();
    match left {
        Some(0) => {}
        Some(1) => notes.push("[A process that it left running was ended]".to_owned()),
        Some(count) => notes.push(format!("[{count} processes that it left running were ended]")),
        None => notes.push("[Processes that it left running could not all be ended]".to_owned()),
    }
    let is_well = matches!(ending, Ending::Well);
    match ending {
        Ending::Well => {}
        Ending::Failed(why) | Ending::Stopped(why) => notes.push(why),
    }
    for note in notes {
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&note);
    }
    if !is_well {
        return Err(ToolError::new(text));
    }
    let details = shown.map(|shown| {
        json!({
            "truncation": { "truncated": true, "truncatedBy": "bytes", "totalBytes": printed.total(), "outputBytes": shown },
            "fullOutputPath": printed.path(),
        })
    });
    Ok(Output::text(text).with_details(details))
}
