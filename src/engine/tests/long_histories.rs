//! Long histories are projected and encoded beside the thread of the runs. No test here waits for a time: what would hold
//! the runs up is held until they have ended.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, ThreadId};

use super::*;
use bytes::Bytes;
use model::{Api, Message};
use provider::{Attempted, Credential, ModelRequest};

/// More than any of the other messages have.
const LONG: usize = 200_000;

/// A scripted provider that encodes long messages only once it is released.
struct Held {
    scripted: ScriptedProvider,
    /// The thread of the runs.
    runs: ThreadId,
    released: Mutex<Receiver<()>>,
    entered: Signal,
    /// The threads on which long messages were encoded.
    threads: Mutex<Vec<ThreadId>>,
}

impl Provider for Held {
    fn api(&self) -> Api {
        self.scripted.api()
    }

    fn encode_messages(&self, messages: &[Message]) -> Bytes {
        let encoded = self.scripted.encode_messages(messages);
        if encoded.len() >= LONG {
            let thread = thread::current().id();
            self.threads.lock().unwrap().push(thread);
            self.entered.notify_one();
            // The thread of the runs is not held: nobody could release it.
            if thread != self.runs {
                self.released.lock().unwrap().recv().unwrap();
            }
        }
        encoded
    }

    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        credential: Option<&'a Credential>,
        sink: &'a mut dyn model::DeltaSink,
    ) -> Attempted<'a> {
        self.scripted.stream(request, credential, sink)
    }
}

/// An engine whose provider is held, and what releases it.
fn held(script: &Value, journal: Option<Arc<dyn Journal>>) -> (Engine, Arc<Held>, Sender<()>) {
    let (release, released) = channel();
    let provider = Arc::new(Held {
        scripted: scripted(script),
        runs: thread::current().id(),
        released: Mutex::new(released),
        entered: Signal::new(),
        threads: Mutex::default(),
    });
    let keys = ProviderKeys::default();
    let entry = ProviderEntry { provider: Arc::clone(&provider) as Arc<dyn Provider>, keys };
    (engine(entry, journal, Clock::default()), provider, release)
}

impl Held {
    fn held_up_the_runs(&self) -> bool {
        self.threads.lock().unwrap().contains(&self.runs)
    }
}

fn long_history() -> Value {
    json!([
        { "role": "user", "content": "x".repeat(LONG) },
        { "role": "assistant", "content": "fine" },
    ])
}

#[tokio::test]
async fn while_a_long_given_history_is_encoded_the_deltas_of_other_runs_arrive() {
    let script = json!([
        { "steps": [{ "text": "one" }, { "gate": "go" }, { "text": "two" }] },
        "three",
    ]);
    let (engine, provider, release) = held(&script, None);
    let host = Arc::default();
    let mut other = start(&engine, &host, &json!({ "sessionLabel": "other" }));
    other.until(RecordKind::Token, "one").await;
    let mut long = start(&engine, &host, &json!({ "history": long_history() }));
    provider.entered.notified().await;
    assert!(!provider.held_up_the_runs());
    provider.scripted.open_gate("go");
    let (_, events) = other.end().await;
    assert_eq!(events, ["stream_start", "token one", "token two", "end true"]);
    release.send(()).unwrap();
    let (_, events) = long.end().await;
    assert_eq!(events, ["stream_start", "token three", "end true"]);
}

#[tokio::test]
async fn a_run_is_aborted_while_its_history_is_encoded() {
    let (engine, provider, release) = held(&json!(["never"]), None);
    let mut long = start(&engine, &Arc::default(), &json!({ "history": long_history() }));
    provider.entered.notified().await;
    long.control.abort();
    let (result, _) = long.end().await;
    assert_eq!(result["stopReason"], "aborted");
    release.send(()).unwrap();
}

#[tokio::test]
async fn a_long_turn_of_the_ledger_is_encoded_on_another_thread() {
    let journal = Arc::new(Memory::default());
    let (engine, provider, release) = held(&json!(["one", "two"]), Some(journal as _));
    let host = Arc::default();
    let question = json!({ "currentMessage": { "role": "user", "content": "x".repeat(LONG) } });
    start(&engine, &host, &question).end().await;
    // The question of the running turn itself.
    provider.entered.notified().await;
    provider.threads.lock().unwrap().clear();
    let mut next = start(&engine, &host, &json!({}));
    provider.entered.notified().await;
    assert!(!provider.held_up_the_runs());
    release.send(()).unwrap();
    let (result, _) = next.end().await;
    assert_eq!(result["messages"][1]["content"], "two");
}
