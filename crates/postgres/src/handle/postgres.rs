//! The handle to an open ledger: opening it, submitting jobs to its thread, closing it.
//!
//! It must never block on the server, except while it opens.

use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use base::clock::Clock;
use model::{PortFuture, StorageError};

use crate::connect::error::{Stored, closed};
use crate::connect::held::Held;
use crate::connect::options::PostgresOptions;
use crate::connect::server::Server;
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
    /// The identity of the ledger, the same for every process.
    pub(crate) id: String,
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
    /// Opens the ledger, or creates its schema. Blocks on the server.
    ///
    /// # Errors
    /// A server that cannot be reached, is too old or has another encoding; a schema that is foreign or newer.
    pub fn open(options: &PostgresOptions, clock: Clock) -> Result<Arc<Self>, StorageError> {
        let held = Held::default();
        let live = Live::new(options.retention.clone());
        let (options, of, fresh) = (options.clone(), held.clone(), clock.new_id());
        // Its number on this machine is for the host.
        let owner = format!("{}-{}", clock.new_id(), std::process::id());
        let duties = Duties {
            beat: |server| Box::pin(async move { drop(lease::renew(&server).await) }) as Running,
            every: options.lease / 3,
            end: |server| Box::pin(async move { drop(lease::free(&server).await) }) as Running,
        };
        let shared = Arc::clone(&live);
        let (send, opened) = std::sync::mpsc::channel();
        let open = move || async move {
            let schema = options.schema.clone();
            let server = Rc::new(Server::new(options, owner, of, shared)?);
            let id = migrate::open(&server, &schema, &fresh).await?;
            budgets::settle_lost(&server).await?;
            drop(send.send(id));
            // They end with the thread.
            for task in [
                Box::pin(flush::run(Rc::clone(&server))) as Running,
                Box::pin(announce::send(Rc::clone(&server))),
                Box::pin(announce::listen(Rc::clone(&server))),
                Box::pin(commands::run(Rc::clone(&server))),
            ] {
                tokio::task::spawn_local(task);
            }
            Ok(server)
        };
        let worker = Worker::start(open, duties)?;
        let id = opened.recv().map_err(|_| closed())?;
        Ok(Arc::new_cyclic(|this| Self {
            worker: Mutex::new(Some(worker)),
            clock,
            id,
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
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        match worker.as_ref() {
            Some(worker) => worker.submit(order, work),
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
