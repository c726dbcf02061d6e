//! A server as the ledger uses it: statements with the names of the schema, tried again where the failure passes.
//!
//! A statement is sent unnamed with the types of its parameters: one round trip, and safe behind a pooler. It must never
//! repeat a statement that may have taken effect without telling it so.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::connect::announced::Announced;
use crate::connect::error::{Failure, Stored, closed, is_passing, late, stored};
use crate::connect::held::Held;
use crate::connect::options::PostgresOptions;
use crate::connect::pool::{Pool, PoolConnection, Pooled};
use crate::connect::tls::Tls;
use crate::events::live::Live;
use crate::memory::code_cache::CodeCache;

/// A parameter with its type.
pub(crate) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// Pauses between tries: a server that restarts needs a second or two.
const PAUSES_MS: [u64; 7] = [5, 50, 150, 400, 800, 1_600, 3_200];
/// The pauses while a host waits.
const SOON: usize = 3;

/// What runs once at a time.
#[derive(Default)]
pub(crate) struct Alone(Cell<bool>);

/// Ends when it is dropped.
pub(crate) struct OneAlone<'a>(&'a Cell<bool>);

impl Alone {
    /// `None` while another one runs.
    pub(crate) fn alone(&self) -> Option<OneAlone<'_>> {
        (!self.0.replace(true)).then(|| OneAlone(&self.0))
    }
}

impl Drop for OneAlone<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

pub(crate) struct Server {
    pool: Rc<Pool>,
    /// The schema as SQL names it.
    schema: String,
    /// The channel of its notifications.
    pub(crate) channel: String,
    /// The id of this open ledger among all processes.
    pub(crate) owner: String,
    pub(crate) lease_ms: i64,
    /// How long a try of a statement may wait for its answer.
    pub(crate) timeout: Duration,
    /// The turns that this process runs.
    pub(crate) held: Held,
    /// The runs of this process, and who waits for changes.
    pub(crate) live: Arc<Live>,
    /// Changes that other processes may wait for, and are not notified of yet.
    pub(crate) announced: Announced,
    /// Ended turns since expired events were deleted.
    pub(crate) ended: Cell<u32>,
    /// Whether expired events are being deleted.
    pub(crate) trims: Alone,
    /// Ended turns since messages were indexed, and whether they are being indexed.
    pub(crate) unindexed: Cell<u32>,
    pub(crate) indexes: Alone,
    /// Whether calls of this process may be reserved.
    pub(crate) has_reserved: Cell<bool>,
    /// The number of the last settlement that had been submitted when one failed.
    pub(crate) unsettled_at: Cell<usize>,
    /// The codes of the memory's vectors.
    pub(crate) codes: CodeCache,
    /// Why the index of the memory's vectors was not created, filled or used.
    pub(crate) index_problem: RefCell<Option<String>>,
    /// The statements that are built of parts, by their form.
    texts: RefCell<HashMap<u8, Rc<str>>>,
    is_closed: Cell<bool>,
}

impl Server {
    pub(crate) fn new(
        options: PostgresOptions,
        owner: String,
        held: Held,
        live: Arc<Live>,
        tls: Tls,
    ) -> Self {
        let schema = format!("\"{}\".", options.schema);
        let channel = options.schema.clone();
        let lease_ms = i64::try_from(options.lease.as_millis()).unwrap_or(i64::MAX);
        let timeout = options.timeout;
        let pool = Pool::new(options, tls);
        let announced = Announced::default();
        let (is_closed, ended) = (Cell::new(false), Cell::new(0));
        Self {
            pool,
            schema,
            channel,
            owner,
            lease_ms,
            timeout,
            held,
            live,
            announced,
            ended,
            trims: Alone::default(),
            unindexed: Cell::new(0),
            indexes: Alone::default(),
            has_reserved: Cell::new(false),
            unsettled_at: Cell::new(0),
            texts: RefCell::default(),
            is_closed,
            codes: CodeCache::default(),
            index_problem: RefCell::default(),
        }
    }

    /// The statement of a commit point, built once for each form that it has.
    pub(crate) fn built(&self, form: u8, build: impl FnOnce() -> String) -> Rc<str> {
        let mut texts = self.texts.borrow_mut();
        Rc::clone(texts.entry(form).or_insert_with(|| self.sql(&build()).into()))
    }

    /// The statement with the schema in place of each `@` before a name. Others are operators.
    pub(crate) fn sql(&self, text: &str) -> String {
        let mut sql = String::with_capacity(text.len() + 64);
        let mut parts = text.split('@');
        sql.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let is_name = part.starts_with(|c: char| c.is_ascii_lowercase());
            sql.push_str(if is_name { &self.schema } else { "@" });
            sql.push_str(part);
        }
        sql
    }

    /// Like [`Server::run`], for a call that a host waits for.
    pub(crate) async fn run_soon<T>(
        &self,
        doing: &str,
        attempt: impl AsyncFnMut(&mut Client, bool) -> Result<T, Failure>,
    ) -> Stored<T> {
        self.run_within(doing, PAUSES_MS.get(..SOON).unwrap_or_default(), attempt).await
    }

    /// Runs `attempt` with a connection until it has an answer. It learns whether an earlier try may have taken effect.
    ///
    /// # Errors
    /// What the ledger refuses; what the server fails with after the last try.
    pub(crate) async fn run<T>(
        &self,
        doing: &str,
        attempt: impl AsyncFnMut(&mut Client, bool) -> Result<T, Failure>,
    ) -> Stored<T> {
        self.run_within(doing, &PAUSES_MS, attempt).await
    }

    // The loop alone is compiled for each call: what waits and decides is in `Tries`.
    async fn run_within<T>(
        &self,
        doing: &str,
        pauses: &'static [u64],
        mut attempt: impl AsyncFnMut(&mut Client, bool) -> Result<T, Failure>,
    ) -> Stored<T> {
        let pauses = pauses.iter();
        let mut tries = Tries { server: self, doing, pauses, sent: false, was_late: false };
        loop {
            let mut pooled = tries.connection().await?;
            let sent = std::mem::replace(&mut tries.sent, true);
            let outcome = attempt(pooled.client()?, sent).await;
            pooled.ended();
            match outcome {
                Ok(answer) => return Ok(answer),
                Err(failure) => tries.again(pooled.failure(failure)).await?,
            }
        }
    }

    /// The rows of one statement that only reads.
    pub(crate) async fn rows(
        &self,
        doing: &str,
        text: &str,
        params: &[Param<'_>],
    ) -> Stored<Vec<Row>> {
        let sql = self.sql(text);
        self.run(doing, async |client, _| Ok(client.query_typed(&sql, params).await?)).await
    }

    /// The only row of one statement that only reads.
    pub(crate) async fn row(
        &self,
        doing: &str,
        text: &str,
        params: &[Param<'_>],
    ) -> Stored<Option<Row>> {
        Ok(self.rows(doing, text, params).await?.into_iter().next())
    }

    /// Like [`Server::rows`], for a statement that changes nothing more when it is sent again.
    pub(crate) async fn exec(&self, doing: &str, text: &str, params: &[Param<'_>]) -> Stored<()> {
        self.rows(doing, text, params).await.map(drop)
    }

    /// A connection beside the pool.
    pub(crate) async fn connect_beside(&self) -> Result<(Client, PoolConnection), Failure> {
        self.pool.open().await
    }

    /// Makes another server with one connection of its own, on the thread that calls it.
    pub(crate) fn aside(&self) -> impl FnOnce() -> Self + Send + use<> {
        let (options, tls) = self.pool.of_one();
        let (owner, held, live) = (self.owner.clone(), self.held.clone(), Arc::clone(&self.live));
        move || Self::new(options, owner, held, live, tls)
    }

    /// Ends the connections, and refuses every later statement.
    pub(crate) fn close(&self) {
        self.is_closed.set(true);
        self.pool.close();
    }
}

/// The tries of one statement.
struct Tries<'a> {
    server: &'a Server,
    doing: &'a str,
    pauses: std::slice::Iter<'static, u64>,
    /// An earlier try may have taken effect.
    sent: bool,
    /// An earlier try had no answer in its time.
    was_late: bool,
}

impl<'a> Tries<'a> {
    /// A connection, once there is one.
    async fn connection(&mut self) -> Stored<Pooled<'a>> {
        loop {
            if self.server.is_closed.get() {
                return Err(closed());
            }
            match self.server.pool.get().await {
                Ok(pooled) => return Ok(pooled),
                Err(failure) => self.again(failure).await?,
            }
        }
    }

    /// Waits for the next try.
    ///
    /// # Errors
    /// That of the failure, if it is the last one or does not pass.
    async fn again(&mut self, failure: Failure) -> Stored<()> {
        let error = match failure {
            Failure::Refused(error) => return Err(error),
            Failure::Server(error) => error,
            // The connection may have been lost without a word: once more, over a new one.
            Failure::Unanswered(_) if !self.was_late => {
                self.was_late = true;
                return Ok(());
            }
            Failure::Unanswered(limit) => {
                return Err(late(self.doing, "the server did not answer", limit));
            }
            Failure::NotConnected(limit) => {
                return Err(late(self.doing, "no server accepted a connection", limit));
            }
            Failure::Busy(limit) => {
                return Err(late(self.doing, "no connection of the pool became free", limit));
            }
        };
        match self.pauses.next() {
            Some(pause) if is_passing(&error) => {
                tokio::time::sleep(Duration::from_millis(*pause)).await;
                Ok(())
            }
            Some(_) | None => Err(stored(self.doing, &error)),
        }
    }
}
