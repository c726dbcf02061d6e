//! The thread that owns the connections: it runs the jobs of this process, those of a session one after the other.
//!
//! A job is submitted by a call, not by the first poll of its answer, and dropping the answer does not cancel it. The thread
//! ends when the ledger is dropped and its last job has ended. It must never be a thread of the engine's.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use model::{PortFuture, StorageError, StorageErrorKind};
use tokio::sync::{mpsc, oneshot};
use tokio::task::LocalSet;

use crate::connect::error::{Stored, closed};
use crate::connect::server::Server;

/// A duty under way.
pub(crate) type Running = Pin<Box<dyn Future<Output = ()>>>;
/// What a job returns. One type for all jobs, so that the queue, the answers and their channels are compiled once.
type Returned = Stored<Box<dyn Any + Send>>;
type Work = Box<dyn FnOnce(Rc<Server>) -> Pin<Box<dyn Future<Output = Returned>>> + Send>;

/// When a job runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Order {
    /// At once.
    Now,
    /// After the jobs of this key that were submitted before.
    Of(String),
    /// After all jobs that were submitted before.
    AfterAll,
}

struct Job {
    order: Order,
    call: Call,
}

/// The work of a job, and who waits for what it returns.
struct Call {
    work: Work,
    answer: oneshot::Sender<Returned>,
}

impl Call {
    async fn run(self, server: Rc<Server>) {
        // Nobody may wait for the answer.
        drop(self.answer.send((self.work)(server).await));
    }
}

/// What the thread does besides its jobs.
pub(crate) struct Duties {
    /// Runs every `every`.
    pub(crate) beat: fn(Rc<Server>) -> Running,
    pub(crate) every: Duration,
    /// Runs after the last job.
    pub(crate) end: fn(Rc<Server>) -> Running,
}

/// The handle to the thread.
pub(crate) struct Worker {
    jobs: mpsc::UnboundedSender<Job>,
    ended: oneshot::Receiver<()>,
}

impl Worker {
    /// Starts the thread; `open` makes its server.
    ///
    /// # Errors
    /// What `open` fails with.
    pub(crate) fn start<F>(
        open: impl FnOnce() -> F + Send + 'static,
        duties: Duties,
    ) -> Stored<Self>
    where
        F: Future<Output = Stored<Rc<Server>>>,
    {
        let (jobs, queue) = mpsc::unbounded_channel();
        let (opened, answer) = std::sync::mpsc::channel();
        let (end, ended) = oneshot::channel();
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let Ok(runtime) = runtime else {
                drop(opened.send(Err(no_thread())));
                return;
            };
            LocalSet::new().block_on(&runtime, async move {
                match open().await {
                    Ok(server) => {
                        drop(opened.send(Ok(())));
                        serve(server, queue, duties).await;
                        drop(end);
                    }
                    Err(error) => drop(opened.send(Err(error))),
                }
            });
        };
        let thread = std::thread::Builder::new().name("ledger-postgres".to_owned());
        thread.spawn(run).map_err(|_| no_thread())?;
        answer.recv().unwrap_or_else(|_| Err(no_thread()))?;
        Ok(Self { jobs, ended })
    }

    /// Accepts no more jobs, and waits for those that were accepted.
    pub(crate) async fn close(self) {
        drop(self.jobs);
        // The thread sends nothing: its end closes the channel.
        drop(self.ended.await);
    }

    /// Submits a job.
    pub(crate) fn submit<T, F>(
        &self,
        order: Order,
        work: impl FnOnce(Rc<Server>) -> F + Send + 'static,
    ) -> PortFuture<'static, T>
    where
        T: Send + 'static,
        F: Future<Output = Stored<T>> + 'static,
    {
        let answered = self.send(
            order,
            Box::new(move |server| {
                let running = work(server);
                Box::pin(async move { Ok(Box::new(running.await?) as Box<dyn Any + Send>) })
            }),
        );
        Box::pin(async move {
            let returned = returned(answered).await?.downcast::<T>();
            returned.map(|value| *value).map_err(|_| cut_off())
        })
    }

    fn send(&self, order: Order, work: Work) -> Stored<oneshot::Receiver<Returned>> {
        let (answer, answered) = oneshot::channel();
        let call = Call { work, answer };
        self.jobs.send(Job { order, call }).map_err(|_| closed())?;
        Ok(answered)
    }
}

async fn returned(answered: Stored<oneshot::Receiver<Returned>>) -> Returned {
    answered?.await.unwrap_or_else(|_| Err(cut_off()))
}

fn no_thread() -> StorageError {
    StorageError::new(StorageErrorKind::Io, "the thread of the ledger could not start; try again")
}

fn cut_off() -> StorageError {
    let message = "the ledger's thread ended this call by a bug; try again";
    StorageError::new(StorageErrorKind::Io, message)
}

/// The jobs of each key that wait for the one that runs.
type Waiting = Rc<RefCell<HashMap<String, VecDeque<Call>>>>;

async fn serve(server: Rc<Server>, mut queue: mpsc::UnboundedReceiver<Job>, duties: Duties) {
    let beats = tokio::task::spawn_local(beat(Rc::clone(&server), duties.beat, duties.every));
    let waiting = Waiting::default();
    let mut running = tokio::task::JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = running.join_next(), if !running.is_empty() => {}
            job = queue.recv() => {
                let Some(Job { order, call }) = job else { break };
                if order == Order::AfterAll {
                    while running.join_next().await.is_some() {}
                }
                let Order::Of(key) = order else {
                    running.spawn_local(call.run(Rc::clone(&server)));
                    continue;
                };
                if let Some(waits) = waiting.borrow_mut().get_mut(&key) {
                    waits.push_back(call);
                    continue;
                }
                waiting.borrow_mut().insert(key.clone(), VecDeque::new());
                running.spawn_local(in_order(Rc::clone(&server), Rc::clone(&waiting), key, call));
            }
        }
    }
    while running.join_next().await.is_some() {}
    beats.abort();
    (duties.end)(Rc::clone(&server)).await;
    server.close();
}

async fn beat(server: Rc<Server>, beat: fn(Rc<Server>) -> Running, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        beat(Rc::clone(&server)).await;
    }
}

/// Runs a job, and those of its key that came meanwhile.
async fn in_order(server: Rc<Server>, waiting: Waiting, key: String, call: Call) {
    let mut next = Some(call);
    while let Some(call) = next {
        // In a task of its own, so that a panic ends this job and none of those that wait.
        drop(tokio::task::spawn_local(call.run(Rc::clone(&server))).await);
        let mut waiting = waiting.borrow_mut();
        next = waiting.get_mut(&key).and_then(VecDeque::pop_front);
        if next.is_none() {
            waiting.remove(&key);
        }
    }
}
