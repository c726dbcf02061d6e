//! A line to the server at `POSTGRES_URL`, on which an answer is lost, or no connection lasts. It must never lose what the server has
//! not done.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use base::config::Environment;
use tempfile::TempDir;

/// The end of an answer to all that was sent, outside a transaction.
const DONE: &[u8] = b"Z\0\0\0\x05I";

#[derive(Default)]
struct State {
    /// The part of a statement whose answer is lost.
    loses: Mutex<Option<String>>,
    lost: AtomicUsize,
    /// Each connection ends at once.
    refuses: AtomicBool,
    refused: AtomicUsize,
    open: Mutex<Vec<UnixStream>>,
}

pub(super) struct Line {
    pub(super) url: String,
    state: Arc<State>,
    _folder: TempDir,
}

impl Line {
    pub(super) fn new() -> Self {
        let url =
            Environment::process().get("POSTGRES_URL").expect("crates/postgres/serve.sh sets it");
        let host = url.split_once("host=").expect("the server has a socket").1;
        let host = host.split('&').next().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join(".s.PGSQL.5432")).unwrap();
        let server = Path::new(host).join(".s.PGSQL.5432");
        let state = Arc::new(State::default());
        let of = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                if of.refuses.load(Ordering::SeqCst) {
                    of.refused.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
                of.connect(client, UnixStream::connect(&server).unwrap());
            }
        });
        let url = url.replace(host, folder.path().to_str().unwrap());
        Self { url, state, _folder: folder }
    }

    /// The next answer after which a statement with this text has taken effect is lost.
    pub(super) fn loses(&self, text: &str) {
        *self.state.loses.lock().unwrap() = Some(text.to_owned());
    }

    /// The answers that were lost.
    pub(super) fn lost(&self) -> usize {
        self.state.lost.load(Ordering::SeqCst)
    }

    /// Ends all connections; new ones end at once, as long as it refuses.
    pub(super) fn refuses(&self, refuses: bool) {
        self.state.refuses.store(refuses, Ordering::SeqCst);
        for stream in self.state.open.lock().unwrap().drain(..) {
            // It may have ended.
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// The connections that were refused.
    pub(super) fn refused(&self) -> usize {
        self.state.refused.load(Ordering::SeqCst)
    }
}

impl State {
    fn connect(self: &Arc<Self>, client: UnixStream, server: UnixStream) {
        let both = |stream: &UnixStream| (stream.try_clone().unwrap(), stream.try_clone().unwrap());
        let ((mut from_client, mut to_client), (mut from_server, mut to_server)) =
            (both(&client), both(&server));
        self.open.lock().unwrap().push(client);
        let (there, back) = (Arc::clone(self), Arc::clone(self));
        let is_losing = Arc::new(AtomicBool::new(false));
        let loses = Arc::clone(&is_losing);
        std::thread::spawn(move || {
            let mut tail = Vec::new();
            pass(&mut from_client, &mut to_server, |chunk| {
                tail.extend_from_slice(chunk);
                let mut text = there.loses.lock().unwrap();
                let is_found = text.as_ref().is_some_and(|text| {
                    tail.windows(text.len()).any(|part| part == text.as_bytes())
                });
                if is_found {
                    *text = None;
                    is_losing.store(true, Ordering::SeqCst);
                }
                tail.drain(..tail.len().saturating_sub(1_024));
                true
            });
        });
        std::thread::spawn(move || {
            let mut tail = Vec::new();
            pass(&mut from_server, &mut to_client, |chunk| {
                tail.extend_from_slice(chunk);
                let is_lost = loses.load(Ordering::SeqCst) && tail.ends_with(DONE);
                tail.drain(..tail.len().saturating_sub(DONE.len()));
                if is_lost {
                    back.lost.fetch_add(1, Ordering::SeqCst);
                }
                !is_lost
            });
        });
    }
}

/// Passes on what comes, until either side ends or `goes_on` is false for a part. Ends both then.
fn pass(from: &mut UnixStream, to: &mut UnixStream, mut goes_on: impl FnMut(&[u8]) -> bool) {
    let mut buffer = vec![0; 65_536];
    loop {
        let count = from.read(&mut buffer).unwrap_or(0);
        if count == 0 || !goes_on(&buffer[..count]) || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        // It may have ended.
        drop(stream.shutdown(Shutdown::Both));
    }
}
