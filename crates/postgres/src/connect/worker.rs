//! The thread that owns the connections: it runs the jobs of this process, those of a session one after the other.
//!
//! A job is submitted by a call, not by the first poll of its answer, and dropping the answer does not cancel it. The ledger is
//! opened in the background: jobs wait for that, and get the error of an opening that failed; the next job opens it again. The
//! thread ends when the ledger is dropped and its last job has ended. It must never be a thread of the engine's.

use std::any::Any;
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use model::{PortFuture, StorageError, StorageErrorKind};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, LocalSet};

use crate::connect::error::{Stored, closed};
use crate::connect::pool::{LIMIT, LONG, Limit};
use crate::connect::server::Server;

/// The pause before a task that panicked runs again.
const AGAIN: Duration = Duration::from_secs(1);

/// A duty under way.
pub(crate) type Running = Pin<Box<dyn Future<Output = ()>>>;
/// The opening of a ledger.
pub(crate) type Opening = Pin<Box<dyn Future<Output = Stored<()>>>>;
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
    /// After the jobs of every key that were submitted before. No other job waits for it.
    AfterAll,
}

struct Job {
    order: Order,
    call: Call,
}

impl Job {
    fn refuse(self, error: StorageError) {
        // Nobody may wait for the answer.
        drop(self.call.answer.send(Err(error)));
    }
}

/// The work of a job, and who waits for what it returns.
struct Call {
    work: Work,
    /// How long a try of its statements may wait for an answer, where that is not the option of the host.
    limit: Option<Duration>,
    answer: oneshot::Sender<Returned>,
}

impl Call {
    /// A job without work, and who learns that its turn has come.
    fn mark() -> (Self, oneshot::Receiver<Returned>) {
        let (answer, answered) = oneshot::channel();
        let work = |_| Box::pin(std::future::ready(Ok(Box::new(()) as Box<dyn Any + Send>))) as _;
        (Self { work: Box::new(work), limit: None, answer }, answered)
    }

    async fn run(self, server: Rc<Server>) {
        let limit = self.limit.unwrap_or(server.timeout);
        let returned = LIMIT.scope(Limit::of(limit), (self.work)(server)).await;
        // Nobody may wait for the answer.
        drop(self.answer.send(returned));
    }
}

/// What the thread does besides its jobs.
pub(crate) struct Duties {
    /// Opens the ledger.
    pub(crate) open: fn(Rc<Server>) -> Opening,
    /// Run from then on until the ledger is closed, each again after a panic.
    pub(crate) tasks: &'static [fn(Rc<Server>) -> Running],
    /// Run every `every`, each by itself.
    pub(crate) beats: &'static [fn(Rc<Server>) -> Running],
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
    /// Starts the thread; `server` makes its server there.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn start(
        server: impl FnOnce() -> Rc<Server> + Send + 'static,
        duties: Duties,
    ) -> Stored<Self> {
        let (jobs, queue) = mpsc::unbounded_channel();
        let (end, ended) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|_| no_thread())?;
        let run = move || {
            LocalSet::new().block_on(&runtime, async move {
                serve(server(), queue, duties).await;
                drop(end);
            });
        };
        let thread = std::thread::Builder::new().name("ledger-postgres".to_owned());
        thread.spawn(run).map_err(|_| no_thread())?;
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
        (order, limit): (Order, Option<Duration>),
        work: impl FnOnce(Rc<Server>) -> F + Send + 'static,
    ) -> PortFuture<'static, T>
    where
        T: Send + 'static,
        F: Future<Output = Stored<T>> + 'static,
    {
        let answered = self.send(
            (order, limit),
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

    fn send(
        &self,
        (order, limit): (Order, Option<Duration>),
        work: Work,
    ) -> Stored<oneshot::Receiver<Returned>> {
        let (answer, answered) = oneshot::channel();
        let call = Call { work, limit, answer };
        self.jobs.send(Job { order, call }).map_err(|_| closed())?;
        Ok(answered)
    }
}

async fn returned(answered: Stored<oneshot::Receiver<Returned>>) -> Returned {
    answered?.await.unwrap_or_else(|_| Err(cut_off()))
}

/// Runs `work` on a thread of its own, over a connection of its own, whose statements may take long.
pub(crate) async fn aside<T: Send + 'static>(
    server: &Server,
    work: impl AsyncFnOnce(&Server) -> Stored<T> + Send + 'static,
) -> Stored<T> {
    let server = server.aside();
    let run = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|_| no_thread())?;
        let done = async {
            let server = server();
            let done = work(&server).await;
            server.close();
            done
        };
        LocalSet::new().block_on(&runtime, LIMIT.scope(Limit::of(LONG), done))
    };
    tokio::task::spawn_blocking(run).await.unwrap_or_else(|_| Err(cut_off()))
}

fn no_thread() -> StorageError {
    StorageError::new(StorageErrorKind::Io, "the thread of the ledger could not start; try again")
}

/// The error of a call that panicked.
pub(crate) fn cut_off() -> StorageError {
    let message = "the ledger's thread ended this call by a bug; try again";
    StorageError::new(StorageErrorKind::Io, message)
}

/// The jobs of each key that wait for the one that runs.
type Waiting = Rc<RefCell<HashMap<String, VecDeque<Call>>>>;

async fn serve(server: Rc<Server>, mut queue: mpsc::UnboundedReceiver<Job>, duties: Duties) {
    let mut jobs = Jobs { server, waiting: Waiting::default(), running: JoinSet::new() };
    let mut opening = JoinSet::new();
    opening.spawn_local((duties.open)(Rc::clone(&jobs.server)));
    let mut early = Vec::new();
    let mut tasks = None;
    let mut is_accepting = true;
    while is_accepting || !early.is_empty() {
        tokio::select! {
            biased;
            Some(_) = jobs.running.join_next(), if !jobs.running.is_empty() => {}
            Some(opened) = opening.join_next(), if !opening.is_empty() => {
                match opened.unwrap_or_else(|_| Err(cut_off())) {
                    Ok(()) => {
                        tasks = Some(background(&jobs.server, &duties));
                        early.drain(..).for_each(|job| jobs.begin(job));
                    }
                    Err(error) => early.drain(..).for_each(|job: Job| job.refuse(error.clone())),
                }
            }
            job = queue.recv(), if is_accepting => match job {
                None => is_accepting = false,
                Some(job) if tasks.is_some() => jobs.begin(job),
                Some(job) => {
                    early.push(job);
                    if opening.is_empty() {
                        opening.spawn_local((duties.open)(Rc::clone(&jobs.server)));
                    }
                }
            }
        }
    }
    jobs.end_all().await;
    if let Some(mut tasks) = tasks {
        tasks.abort_all();
        (duties.end)(Rc::clone(&jobs.server)).await;
    }
    jobs.server.close();
}

/// Starts what runs besides the jobs.
fn background(server: &Rc<Server>, duties: &Duties) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    for task in duties.tasks {
        tasks.spawn_local(supervised(Rc::clone(server), *task));
    }
    for duty in duties.beats {
        tasks.spawn_local(beat(Rc::clone(server), *duty, duties.every));
    }
    tasks
}

/// The jobs of an open ledger.
struct Jobs {
    server: Rc<Server>,
    waiting: Waiting,
    running: JoinSet<()>,
}

impl Jobs {
    fn begin(&mut self, Job { order, call }: Job) {
        let server = Rc::clone(&self.server);
        let key = match order {
            Order::Now => {
                self.running.spawn_local(call.run(server));
                return;
            }
            Order::AfterAll => {
                let mut earlier = Vec::new();
                for waits in self.waiting.borrow_mut().values_mut() {
                    let (mark, reached) = Call::mark();
                    waits.push_back(mark);
                    earlier.push(reached);
                }
                self.running.spawn_local(async move {
                    for reached in earlier {
                        drop(reached.await);
                    }
                    call.run(server).await;
                });
                return;
            }
            Order::Of(key) => key,
        };
        if let Some(waits) = self.waiting.borrow_mut().get_mut(&key) {
            waits.push_back(call);
            return;
        }
        self.waiting.borrow_mut().insert(key.clone(), VecDeque::new());
        let waiting = Rc::clone(&self.waiting);
        self.running.spawn_local(in_order(server, waiting, key, call));
    }

    /// Waits until all jobs have ended.
    async fn end_all(&mut self) {
        while self.running.join_next().await.is_some() {}
    }
}

async fn beat(server: Rc<Server>, beat: fn(Rc<Server>) -> Running, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        // A heartbeat that is late is of no use: the next one is due.
        let limit = Limit::of(every.min(server.timeout));
        let mut own = JoinSet::new();
        own.spawn_local(LIMIT.scope(limit, beat(Rc::clone(&server))));
        // After a panic too, the next one is due.
        drop(own.join_next().await);
    }
}

/// Runs a task, and again after a panic: without it the ledger would go on with a part missing.
async fn supervised(server: Rc<Server>, task: fn(Rc<Server>) -> Running) {
    loop {
        // Its own set: what ends this ends the task.
        let mut own = JoinSet::new();
        own.spawn_local(task(Rc::clone(&server)));
        match own.join_next().await {
            Some(Err(error)) if error.is_panic() => tokio::time::sleep(AGAIN).await,
            _ => return,
        }
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
