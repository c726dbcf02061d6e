//! A server over pipes: a process with three threads that read, write and log, because a pipe of another system cannot be waited for
//! in the same way.
//!
//! It must never leave the process running, read without bounds, or wait for a server that does not read.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::process::{ChildStderr, ChildStdin, ChildStdout, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::answerer::Answerer;
use super::frame::{Frame, reply};
use super::parts::{ServerParts, Spawn};
use super::pending::Pending;
use super::redaction::Secrets;
use base::clock::Clock;
use model::repair_surrogates;
use workspace::{ServerCommand, ServerPipes, ServerProcess};

/// The longest message of a server.
const MAX_FRAME: usize = 16 << 20;
/// The most messages and bytes of a server in one second.
const MAX_FRAMES: u32 = 10_000;
const MAX_BYTES: usize = 64 << 20;
/// Messages of ours that the server has not read yet.
const MAX_UNREAD: usize = 256;
/// What is stored of the log of a server.
const LOG_BYTES: usize = 4_096;
/// A larger buffer is freed after its message.
const RETAINED: usize = 1 << 20;
/// How long a server may take to end by itself, and once it is told to.
const GRACE: Duration = Duration::from_millis(700);

/// What the server changed.
pub(crate) type OnChange = Arc<dyn Fn(&str) + Send + Sync>;

/// A connection to a process.
pub(crate) struct Stdio {
    process: Owned,
    /// `None` once it is closed: the server's input has ended then.
    outgoing: Mutex<Option<mpsc::Sender<Vec<u8>>>>,
    pub(crate) pending: Arc<Pending>,
    log: Arc<Mutex<Log>>,
    ended: watch::Receiver<bool>,
}

/// A process that is killed when nobody has it any more: also where it started for a caller that had gone meanwhile.
struct Owned(Arc<ServerProcess>);

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// The end of what a server printed.
#[derive(Default)]
struct Log {
    bytes: VecDeque<u8>,
}

/// What the reading thread needs.
struct Reading {
    pending: Arc<Pending>,
    outgoing: mpsc::WeakSender<Vec<u8>>,
    on_change: OnChange,
    answerer: Answerer,
    spawn: Spawn,
    clock: Clock,
    ended: watch::Sender<bool>,
}

impl Stdio {
    /// Starts the process.
    ///
    /// # Errors
    /// Why it cannot be started.
    pub(crate) async fn start(
        name: &str,
        command: ServerCommand,
        on_change: OnChange,
        answerer: Answerer,
        parts: &ServerParts,
    ) -> Result<Self, String> {
        let pending = Arc::new(Pending::default());
        let (outgoing, unread) = mpsc::channel(MAX_UNREAD);
        let (ended, watched) = watch::channel(false);
        let reading = Reading {
            pending: Arc::clone(&pending),
            outgoing: outgoing.downgrade(),
            on_change,
            answerer,
            spawn: Arc::clone(&parts.spawn),
            clock: parts.clock.clone(),
            ended,
        };
        let (report, started) = oneshot::channel();
        let log = Arc::new(Mutex::new(Log::default()));
        let threads = Threads { name: name.to_owned(), log: Arc::clone(&log) };
        spawn(&threads.name.clone(), "read", move || {
            threads.serve(&command, unread, reading, report)
        })?;
        let process = started
            .await
            .unwrap_or_else(|_| Err(std::io::Error::other("its thread has ended")))
            .map_err(|error| format!("cannot be started: {error}"))?;
        let outgoing = Mutex::new(Some(outgoing));
        Ok(Self { process, outgoing, pending, log, ended: watched })
    }

    /// Sends a message; false where the server does not read, or has ended.
    pub(crate) fn send(&self, message: Vec<u8>) -> bool {
        let outgoing = self.outgoing.lock().unwrap_or_else(PoisonError::into_inner);
        outgoing.as_ref().is_some_and(|outgoing| outgoing.try_send(message).is_ok())
    }

    /// The end of what it printed, without secrets.
    pub(crate) fn log(&self, secrets: &Secrets) -> String {
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = log.bytes.iter().copied().collect();
        secrets.clean(String::from_utf8_lossy(&bytes).trim())
    }

    /// Ends its input, then the process: by itself, on request, by force. Each has its time.
    pub(crate) async fn close(&self) {
        self.end_input();
        let mut ended = self.ended.clone();
        let mut gone =
            async || tokio::time::timeout(GRACE, ended.wait_for(|ended| *ended)).await.is_ok();
        if gone().await {
            return;
        }
        self.process.0.terminate();
        if gone().await {
            return;
        }
        self.process.0.kill();
        if !gone().await {
            // Something that left the group holds the pipe: the connection ends without its thread.
            self.pending.end("was closed");
        }
    }

    fn end_input(&self) {
        drop(self.outgoing.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

fn spawn(server: &str, what: &str, work: impl FnOnce() + Send + 'static) -> Result<(), String> {
    std::thread::Builder::new()
        .name(format!("mcp-{what}-{server}"))
        .spawn(work)
        .map(drop)
        .map_err(|error| format!("cannot be started: {error}"))
}

struct Threads {
    name: String,
    log: Arc<Mutex<Log>>,
}

impl Threads {
    /// Starts the process and reads what it answers until it ends. The process ends with this thread.
    fn serve(
        self,
        command: &ServerCommand,
        unread: mpsc::Receiver<Vec<u8>>,
        reading: Reading,
        report: oneshot::Sender<std::io::Result<Owned>>,
    ) {
        let (process, pipes) = match ServerProcess::start(command) {
            Ok((process, pipes)) => (Arc::new(process), pipes),
            Err(error) => {
                // Whoever waited may have gone.
                let _ = report.send(Err(error));
                return;
            }
        };
        let ServerPipes { stdin, stdout, stderr } = pipes;
        let Self { name, log } = self;
        let started = spawn(&name, "write", move || write(stdin, unread))
            .and_then(|()| spawn(&name, "log", move || collect(stderr, &log)));
        let wanted = report.send(Ok(Owned(Arc::clone(&process)))).is_ok();
        let why = match started {
            Err(why) => why,
            Ok(()) if !wanted => "is not needed any more".to_owned(),
            Ok(()) => reading.read(stdout),
        };
        let status = process.reap();
        let why = match (why.as_str(), status) {
            ("", Some(status)) => format!("has ended ({})", shown(status)),
            ("", None) => "has ended".to_owned(),
            (why, _) => why.to_owned(),
        };
        reading.pending.end(&why);
        // Whoever closes it may have gone.
        let _ = reading.ended.send(true);
    }
}

fn shown(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit code {code}"),
        None => "by a signal".to_owned(),
    }
}

/// Writes until the connection is closed, or the server does not read any more. Its input ends with this.
fn write(mut stdin: ChildStdin, mut unread: mpsc::Receiver<Vec<u8>>) {
    while let Some(mut message) = unread.blocking_recv() {
        message.push(b'\n');
        if stdin.write_all(&message).and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

/// Stores the end of what the server logs.
fn collect(mut stderr: ChildStderr, log: &Mutex<Log>) {
    let mut buffer = [0; 4_096];
    while let Ok(length) = stderr.read(&mut buffer) {
        let Some(read) = buffer.get(..length).filter(|read| !read.is_empty()) else { return };
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        log.bytes.extend(read);
        let over = log.bytes.len().saturating_sub(LOG_BYTES);
        log.bytes.drain(..over);
    }
}

impl Reading {
    /// Reads until the end; why it ended, empty for the end of the pipe.
    fn read(&self, stdout: ChildStdout) -> String {
        let mut reader = BufReader::with_capacity(64 << 10, stdout);
        let mut line = Vec::new();
        let mut flood = Flood::default();
        loop {
            line.clear();
            if line.capacity() > RETAINED {
                line = Vec::new();
            }
            let limit = u64::try_from(MAX_FRAME).unwrap_or(u64::MAX);
            match reader.by_ref().take(limit).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return String::new(),
                Ok(_) => {}
            }
            if line.len() >= MAX_FRAME {
                return format!("was stopped: it sent a message of more than {MAX_FRAME} bytes");
            }
            if let Some(why) = flood.over(line.len(), &self.clock) {
                return why;
            }
            self.message(&repair_surrogates(&line));
        }
    }

    fn message(&self, line: &[u8]) {
        match Frame::read(line) {
            Frame::Answer { id, outcome } => self.pending.answer(id, outcome),
            Frame::Request { id, method, params } if self.answerer.serves(&method) => {
                let message = self.answerer.clone().message(
                    id.to_owned(),
                    method.into_owned(),
                    params.map(ToOwned::to_owned),
                );
                let outgoing = self.outgoing.clone();
                (self.spawn)(Box::pin(async move {
                    let message = message.await;
                    if let Some(outgoing) = outgoing.upgrade() {
                        // As below.
                        let _ = outgoing.try_send(message);
                    }
                }));
            }
            Frame::Request { id, method, .. } => {
                if let Some(outgoing) = self.outgoing.upgrade() {
                    // A server that does not read gets no answer.
                    let _ = outgoing.try_send(reply(id, &method));
                }
            }
            Frame::Notification { method, params } => {
                notified(&method, params, &self.pending, &self.on_change);
            }
            Frame::Noise => {}
        }
    }
}

/// Delivers a notification: progress to its request, changes to the server's state.
pub(crate) fn notified(
    method: &str,
    params: Option<&serde_json::value::RawValue>,
    pending: &Pending,
    on_change: &OnChange,
) {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Progress {
        progress_token: u64,
    }
    match (method, params) {
        ("notifications/progress", Some(params)) => {
            if let Ok(Progress { progress_token }) = serde_json::from_str(params.get()) {
                pending.progress(progress_token, params);
            }
        }
        (method, _) => on_change(method),
    }
}

/// Counts what a server sends.
#[derive(Default)]
struct Flood {
    since: Option<tokio::time::Instant>,
    frames: u32,
    bytes: usize,
}

impl Flood {
    /// Why the server is stopped, if it sends too much.
    fn over(&mut self, bytes: usize, clock: &Clock) -> Option<String> {
        self.frames += 1;
        self.bytes += bytes;
        if self.frames < MAX_FRAMES && self.bytes < MAX_BYTES {
            return None;
        }
        // Only now is the time read: a busy server costs no clock per message.
        let now = clock.instant();
        let is_fast = self
            .since
            .is_some_and(|since| now.saturating_duration_since(since) < Duration::from_secs(1));
        *self = Self { since: Some(now), frames: 0, bytes: 0 };
        is_fast.then(|| "was stopped: it sent too many messages".to_owned())
    }
}
