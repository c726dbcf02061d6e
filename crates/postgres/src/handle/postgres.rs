//! The handle to an open ledger: opening it, submitting jobs to its thread, closing it.
//!
//! It must never block on the server.

use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use base::clock::Clock;
use model::{PortFuture, StorageError, StorageErrorKind};

use crate::connect::error::{Stored, closed};
use crate::connect::held::Held;
use crate::connect::options::PostgresOptions;
use crate::connect::server::Server;
use crate::connect::tls::Tls;
use crate::connect::worker::{Duties, Order, Running, Worker};
use crate::events::live::Live;
use crate::events::{announce, commands, flush};
use crate::journal::lease;
use crate::queue::budgets;
use crate::schema::migrate;

/// A handle to a ledger in PostgreSQL.
pub struct Postgres {
    worker: Mutex<Option<Worker>>,
    pub(crate) clock: Clock,
    /// The identity of the ledger in this process: the server, the database and the schema.
    pub(crate) id: String,
    /// How long a try of a statement may wait for its answer.
    pub(crate) timeout: Duration,
    pub(crate) held: Held,
    pub(crate) live: Arc<Live>,
    /// Itself, for a wait that must not keep the ledger open.
    pub(crate) this: Weak<Self>,
}

impl std::fmt::Debug for Postgres {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Postgres").finish_non_exhaustive()
    }
}

impl Postgres {
    /// Opens the ledger, or creates its schema, in the background: the first call waits for it. A server that cannot be reached,
    /// is too old or has another encoding, and a schema that is foreign or newer, are errors of each call until one can open it.
    ///
    /// # Errors
    /// Certificates that cannot be read.
    pub fn open(options: &PostgresOptions, clock: Clock) -> Result<Arc<Self>, StorageError> {
        let held = Held::default();
        let live = Live::new(options.retention.clone());
        let tls = Tls::new(&options.tls)?;
        let timeout = options.timeout;
        let (id, options, of) = (options.identity(), options.clone(), held.clone());
        // Its number on this machine is for the host.
        let owner = format!("{}-{}", clock.new_id(), std::process::id());
        let duties = Duties {
            open: |server| {
                Box::pin(async move {
                    migrate::open(&server).await?;
                    match budgets::settle_lost(&server).await {
                        // A role that only reads leaves them to one that writes.
                        Err(error) if error.kind == StorageErrorKind::ReadOnly => Ok(()),
                        settled => settled,
                    }
                })
            },
            tasks: &[
                |server| Box::pin(flush::run(server)) as Running,
                |server| Box::pin(announce::send(server)),
                |server| Box::pin(announce::listen(server)),
                |server| Box::pin(commands::run(server)),
            ],
            beats: &[
                |server| Box::pin(async move { drop(lease::renew(&server).await) }) as Running,
                |server| Box::pin(lease::renew_others(server)),
            ],
            every: options.lease / 3,
            end: |server| Box::pin(async move { drop(lease::free(&server).await) }) as Running,
        };
        let shared = Arc::clone(&live);
        let server = move || Rc::new(Server::new(options, owner, of, shared, tls));
        let worker = Worker::start(server, duties)?;
        Ok(Arc::new_cyclic(|this| Self {
            worker: Mutex::new(Some(worker)),
            clock,
            id,
            timeout,
            held,
            live,
            this: Weak::clone(this),
        }))
    }

    /// Runs `work` on the ledger's thread. It is submitted now; dropping the answer does not cancel it. Jobs of a key run in
    /// the order of their calls.
    pub(crate) fn submit<T, F>(
        &self,
        key: Option<&str>,
        work: impl FnOnce(Rc<Server>) -> F + Send + 'static,
    ) -> PortFuture<'static, T>
    where
        T: Send + 'static,
        F: Future<Output = Stored<T>> + 'static,
    {
        self.submit_in(key.map_or(Order::Now, |key| Order::Of(key.to_owned())), work)
    }

    /// Like [`Postgres::submit`], after everything that was submitted before.
    pub(crate) fn submit_in<T, F>(
        &self,
        order: Order,
        work: impl FnOnce(Rc<Server>) -> F + Send + 'static,
    ) -> PortFuture<'static, T>
    where
        T: Send + 'static,
        F: Future<Output = Stored<T>> + 'static,
    {
        self.submit_within((order, None), work)
    }

    /// Like [`Postgres::submit`], for work whose statements may take this long.
    pub(crate) fn submit_long<T, F>(
        &self,
        limit: Duration,
        work: impl FnOnce(Rc<Server>) -> F + Send + 'static,
    ) -> PortFuture<'static, T>
    where
        T: Send + 'static,
        F: Future<Output = Stored<T>> + 'static,
    {
        self.submit_within((Order::Now, Some(limit)), work)
    }

    fn submit_within<T, F>(
        &self,
        when: (Order, Option<Duration>),
        work: impl FnOnce(Rc<Server>) -> F + Send + 'static,
    ) -> PortFuture<'static, T>
    where
        T: Send + 'static,
        F: Future<Output = Stored<T>> + 'static,
    {
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        match worker.as_ref() {
            Some(worker) => worker.submit(when, work),
            None => Box::pin(std::future::ready(Err(closed()))),
        }
    }

    /// Closes the handle, after the jobs that were submitted.
    pub(crate) async fn end(&self) {
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(worker) = worker {
            worker.close().await;
        }
    }
}
