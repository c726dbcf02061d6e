//! The connections of a process: at most as many as the options allow, opened when they are needed, used again.
//!
//! A connection that the server ended is dropped, and so is one that was silent for too long, or whose attempt did not end. It must
//! never hand out one that another statement's transaction uses.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use base::clock::Clock;
use model::{StorageError, StorageErrorKind};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Connection, Error, Socket};

use crate::connect::error::{Failure, Stored, closed};
use crate::connect::options::PostgresOptions;
use crate::connect::tls::Tls;

/// How long a statement over all rows of a ledger may take.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// The time in which a server that is reached answers for a statement that was cancelled.
const CANCELLED: Duration = Duration::from_secs(2);

tokio::task_local! {
    /// How long a try may wait for its answer in this task, where that is not the option of the host.
    pub(crate) static LIMIT: Limit;
    /// Set in a task that has a connection of its own, beside those that the options allow.
    pub(crate) static RESERVED: ();
}

/// The limit of time of a task's statements.
pub(crate) struct Limit {
    time: Duration,
    /// That of the connection that the task has.
    deadline: RefCell<Option<Rc<Deadline>>>,
}

impl Limit {
    pub(crate) fn of(time: Duration) -> Self {
        Self { time, deadline: RefCell::default() }
    }
}

/// The statement that follows, over the connection that this task has, has the whole limit of time again.
pub(crate) fn renew_deadline(clock: &Clock) {
    // A task without a limit has the one of the host for each try.
    let _ = LIMIT.try_with(|limit| {
        if let Some(deadline) = limit.deadline.borrow().as_ref() {
            deadline.set(Some(clock.instant() + limit.time));
        }
    });
}

pub(crate) struct Pool {
    options: PostgresOptions,
    tls: Tls,
    clock: Clock,
    idle: RefCell<Vec<Opened>>,
    permits: Semaphore,
    /// The connection of the heartbeat.
    reserved: Semaphore,
    /// The host that accepted the last connection: it is tried first.
    last_host: Cell<usize>,
}

/// The part of a connection that is driven.
pub(crate) type PoolConnection = Connection<Socket, <Tls as MakeTlsConnect<Socket>>::Stream>;

/// A connection, driven by a task that ends it at its deadline.
struct Opened {
    client: Client,
    deadline: Rc<Deadline>,
}

/// When the answer that a connection waits for must be there.
#[derive(Default)]
struct Deadline {
    at: Cell<Option<Instant>>,
    /// Until when its connection's task sleeps; it may be woken sooner by `is_set`.
    sleeps_until: Cell<Option<Instant>>,
    is_set: Notify,
    has_passed: Cell<bool>,
}

impl Deadline {
    fn set(&self, at: Option<Instant>) {
        self.at.set(at);
        if at.is_some_and(|at| self.sleeps_until.get().is_none_or(|until| at < until)) {
            self.is_set.notify_one();
        }
    }

    /// Waits until it has passed. A deadline that is moved to a later time meanwhile costs no wake.
    async fn passes(&self, clock: &Clock) {
        loop {
            let at = self.at.get();
            self.sleeps_until.set(at);
            match at {
                None => self.is_set.notified().await,
                Some(at) if at > clock.instant() => {
                    drop(timeout_at(at, self.is_set.notified()).await);
                }
                Some(_) => break,
            }
        }
        self.has_passed.set(true);
    }
}

/// A connection of the pool, returned when it is dropped.
pub(crate) struct Pooled<'a> {
    opened: Option<Opened>,
    pool: &'a Pool,
    limit: Duration,
    /// The attempt has ended, and nothing of it is under way.
    has_ended: bool,
    _permit: SemaphorePermit<'a>,
}

impl Pool {
    pub(crate) fn new(options: PostgresOptions, tls: Tls) -> Rc<Self> {
        let permits = Semaphore::new(options.pool);
        let clock = Clock::default();
        Rc::new(Self {
            options,
            tls,
            clock,
            idle: RefCell::new(Vec::new()),
            permits,
            reserved: Semaphore::new(1),
            last_host: Cell::new(0),
        })
    }

    /// A connection, once one is free. It has the limit of time of this task for its answer from now on.
    pub(crate) async fn get(&self) -> Result<Pooled<'_>, Failure> {
        let wait = self.options.timeout;
        let is_reserved = RESERVED.try_with(|()| ()).is_ok();
        let permits = if is_reserved { &self.reserved } else { &self.permits };
        let permit = timeout(wait, permits.acquire()).await;
        let permit = permit.map_err(|_| Failure::Busy(wait))?.map_err(|_| closed())?;
        let idle = loop {
            let Some(opened) = self.idle.borrow_mut().pop() else { break None };
            if !opened.client.is_closed() {
                break Some(opened);
            }
        };
        let opened = match idle {
            Some(opened) => opened,
            None => self.connect().await?,
        };
        let own = LIMIT.try_with(|limit| {
            limit.deadline.replace(Some(Rc::clone(&opened.deadline)));
            limit.time
        });
        let limit = own.unwrap_or(self.options.timeout);
        opened.deadline.set(Some(self.clock.instant() + limit));
        Ok(Pooled { opened: Some(opened), pool: self, limit, has_ended: false, _permit: permit })
    }

    /// What makes a pool of one connection to the same server.
    pub(crate) fn of_one(&self) -> (PostgresOptions, Tls) {
        (PostgresOptions { pool: 1, ..self.options.clone() }, self.tls.clone())
    }

    /// Closes the idle connections, and refuses to open others.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.reserved.close();
        self.forget_idle();
    }

    /// Closes the idle connections: a server that was silent on one may have lost them all.
    fn forget_idle(&self) {
        self.idle.borrow_mut().clear();
    }

    /// A new connection to the first host that accepts one, which its owner drives. The host of the last one is tried first: after a
    /// fail-over, a host before it that is silent would cost its whole limit of time with each connection.
    pub(crate) async fn open(&self) -> Result<(Client, PoolConnection), Failure> {
        let mut failure = Failure::Refused(closed());
        let limit = self.options.connect_timeout;
        let mut hosts = Cow::Borrowed(&self.options.hosts);
        if let Some(source) = &self.options.password {
            let password = timeout(limit, source()).await;
            let why = || format!("it gave none within {} ms", limit.as_millis());
            let password = password.unwrap_or_else(|_| Err(why())).map_err(no_password)?;
            for config in hosts.to_mut() {
                config.password(&password);
            }
        }
        let (before, from) = hosts.split_at(self.last_host.get().min(hosts.len()));
        let ordered = (before.len()..).zip(from).chain((0..).zip(before));
        for (at, config) in ordered {
            match timeout(limit, config.connect(self.tls.clone())).await {
                Ok(Ok(opened)) => {
                    self.last_host.set(at);
                    return Ok(opened);
                }
                Ok(Err(error)) => failure = Failure::Server(error),
                Err(_) => failure = Failure::NotConnected(limit),
            }
        }
        Err(failure)
    }

    async fn connect(&self) -> Result<Opened, Failure> {
        let (client, connection) = self.open().await?;
        let deadline = Rc::new(Deadline::default());
        let (cancel, tls) = (client.cancel_token(), self.tls.clone());
        let (limit, own, clock) =
            (self.options.connect_timeout, Rc::clone(&deadline), self.clock.clone());
        // It ends with its client, or with the server: the client reports why.
        tokio::task::spawn_local(async move {
            let mut connection = pin!(connection);
            tokio::select! {
                _ = &mut connection => return,
                () = own.passes(&clock) => {}
            }
            // The statement may hold locks: the server must not go on with it. While it can still answer, whether the statement
            // took effect is certain.
            let ends = async {
                drop(timeout(limit, cancel.cancel_query(tls)).await);
                tokio::time::sleep(limit.min(CANCELLED)).await;
            };
            tokio::select! {
                _ = connection => {}
                () = ends => {}
            }
        });
        Ok(Opened { client, deadline })
    }
}

fn no_password(why: String) -> StorageError {
    let message = format!("`ledger.password` gave no password: {why}; check the function");
    StorageError::new(StorageErrorKind::Io, message)
}

impl Pooled<'_> {
    /// The client, also for a transaction.
    pub(crate) fn client(&mut self) -> Stored<&mut Client> {
        self.opened.as_mut().map(|opened| &mut opened.client).ok_or_else(closed)
    }

    /// The attempt has ended: the connection may be used again. Without this it may be in the middle of a transaction.
    pub(crate) fn ended(&mut self) {
        self.has_ended = true;
    }

    /// The failure of its statement: where its time has passed, that is why it failed. A server that only reads was the primary: no
    /// connection to it is used again.
    pub(crate) fn failure(mut self, failure: Failure) -> Failure {
        let only_reads = |error: &Error| error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION);
        if matches!(&failure, Failure::Server(error) if only_reads(error)) {
            self.has_ended = false;
            self.pool.forget_idle();
        }
        let has_passed =
            self.opened.as_ref().is_some_and(|opened| opened.deadline.has_passed.get());
        match failure {
            Failure::Server(error)
                if has_passed
                    && (error.is_closed() || error.code() == Some(&SqlState::QUERY_CANCELED)) =>
            {
                self.pool.forget_idle();
                Failure::Unanswered(self.limit)
            }
            failure => failure,
        }
    }
}

impl Drop for Pooled<'_> {
    fn drop(&mut self) {
        let is_usable =
            |opened: &Opened| !opened.client.is_closed() && !opened.deadline.has_passed.get();
        if let Some(opened) = self.opened.take().filter(is_usable)
            && self.has_ended
            && !self.pool.permits.is_closed()
        {
            opened.deadline.set(None);
            self.pool.idle.borrow_mut().push(opened);
        }
    }
}
