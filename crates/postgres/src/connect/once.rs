//! Whether a transaction whose COMMIT had no answer has taken effect, by its number: for what must happen once and leaves no mark by
//! which that could be seen.
//!
//! A transaction asks after a statement that waits for what its former try changed, so that one has ended by then. It must never
//! ask a server for a number that it has not reached: a standby that took over may never have had it.

use std::cell::Cell;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use crate::connect::error::{Failure, Stored, damaged};
use crate::connect::server::{Param, Server};

const FATE: &str = "select pg_current_xact_id()::text::bigint,
   coalesce(case when $1::text::xid8 < pg_snapshot_xmax(pg_current_snapshot()) then pg_xact_status($1::text::xid8) end = 'committed', false)";

/// The tries of a transaction.
#[derive(Default)]
pub(crate) struct Tried(Cell<Option<i64>>);

impl Tried {
    /// Whether the former try has taken effect. If it has not, the transaction that asks is the former one of the next try.
    pub(crate) async fn has_committed(&self, client: &Client) -> Result<bool, Failure> {
        let former = self.0.get().map(|id| id.to_string());
        let row = client.query_typed_one(FATE, &[(&former, Type::TEXT)]).await?;
        let unread = |_| damaged("the server has no number of its transaction");
        let has_committed: bool = row.try_get(1).map_err(unread)?;
        if !has_committed {
            self.0.set(Some(row.try_get(0).map_err(unread)?));
        }
        Ok(has_committed)
    }
}

impl Server {
    /// Like [`Server::rows`], for a statement that takes effect once, and whose rows are those of that time.
    pub(crate) async fn once(
        &self,
        doing: &str,
        text: &str,
        params: &[Param<'_>],
    ) -> Stored<Vec<Row>> {
        let sql = self.sql(text);
        let tried = Tried::default();
        let mut found = Vec::new();
        let done = self.run(doing, async |client, _| {
            // Sent at once, in this order.
            let (begun, rows, has_committed) = tokio::join!(biased;
                client.batch_execute("begin"),
                client.query_typed(&sql, params),
                tried.has_committed(client)
            );
            begun?;
            let attempt = rows.map_err(Failure::from).and_then(|rows| Ok((rows, has_committed?)));
            match attempt {
                Ok((rows, false)) => {
                    found = rows;
                    Ok(client.batch_execute("commit").await?)
                }
                attempt => {
                    // A connection that cannot roll back is closed.
                    drop(client.batch_execute("rollback").await);
                    attempt.map(drop)
                }
            }
        });
        done.await?;
        Ok(found)
    }
}
