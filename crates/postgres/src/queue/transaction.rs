//! A transaction of several statements, tried again as a whole where the failure passes.
//!
//! It must never wait for anything but the server.

use std::cell::RefCell;

use base::clock::Clock;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use crate::connect::error::{Failure, Stored};
use crate::connect::once::Tried;
use crate::connect::server::{Param, Server};

/// A transaction under way.
pub(crate) struct Transaction<'a> {
    pub(crate) server: &'a Server,
    pub(crate) client: &'a Client,
    pub(crate) clock: &'a Clock,
    /// Whether an earlier try may have taken effect.
    pub(crate) again: bool,
    tried: &'a Tried,
    /// The sessions whose queues have a new message.
    pub(crate) changed: RefCell<Vec<String>>,
}

impl<'a> Transaction<'a> {
    pub(crate) fn new(
        (server, client, clock): (&'a Server, &'a Client, &'a Clock),
        again: bool,
        tried: &'a Tried,
    ) -> Self {
        Self { server, client, clock, again, tried, changed: RefCell::default() }
    }

    /// Whether an earlier try has taken effect. A transaction that wants to know asks once, after a statement that waits for what
    /// that one changed.
    pub(crate) async fn has_committed(&self) -> Result<bool, Failure> {
        self.tried.has_committed(self.client).await
    }

    pub(crate) async fn rows(&self, text: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Failure> {
        Ok(self.client.query_typed(&self.server.sql(text), params).await?)
    }

    pub(crate) async fn row(
        &self,
        text: &str,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, Failure> {
        Ok(self.rows(text, params).await?.into_iter().next())
    }

    /// Whether a statement has a row.
    pub(crate) async fn exists(&self, text: &str, params: &[Param<'_>]) -> Result<bool, Failure> {
        Ok(!self.rows(text, params).await?.is_empty())
    }

    /// The number of rows that a statement has changed.
    pub(crate) async fn exec(&self, text: &str, params: &[Param<'_>]) -> Result<u64, Failure> {
        Ok(self.client.execute_typed(&self.server.sql(text), params).await?)
    }

    /// Waits for other transactions that change the same thing: it is this one's until this one ends.
    pub(crate) async fn lock(&self, what: &str) -> Result<(), Failure> {
        let text = "select pg_advisory_xact_lock(hashtextextended($1, 1903523189))";
        self.rows(text, &[(&what, Type::TEXT)]).await.map(drop)
    }

    pub(crate) async fn commit(&self, is_done: bool) -> Result<(), Failure> {
        let end = if is_done { "commit" } else { "rollback" };
        self.client.batch_execute(end).await?;
        for label in self.changed.take().iter().filter(|_| is_done) {
            self.server.queue_changed(label);
        }
        Ok(())
    }
}

/// Runs `work` in a transaction, which an error undoes.
pub(crate) async fn transact<T>(
    (server, clock): (&Server, &Clock),
    doing: &str,
    work: impl AsyncFn(&Transaction<'_>) -> Result<T, Failure>,
) -> Stored<T> {
    let tried = Tried::default();
    let run = server.run(doing, async |client, again| {
        let transaction = Transaction::new((server, client, clock), again, &tried);
        // Sent before the first statement, and not awaited by itself.
        let begin = transaction.client.batch_execute("begin");
        let (begun, done) = tokio::join!(biased; begin, work(&transaction));
        begun?;
        match done {
            Ok(done) => transaction.commit(true).await.map(|()| done),
            Err(failure) => {
                // A connection that cannot roll back is closed.
                drop(transaction.commit(false).await);
                Err(failure)
            }
        }
    });
    run.await
}
