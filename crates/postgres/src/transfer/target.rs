//! The target of an import: a transaction for each part of a file, called from a thread that may block.

use portable::{Record, Restore, Stored};
use tokio_postgres::types::Type;

use crate::connect::pool::LONG;
use crate::handle::postgres::Postgres;
use crate::transfer::rows::{self, ServerRows};
use base::clock::Clock;

pub(crate) struct Target<'a> {
    pub(crate) ledger: &'a Postgres,
    pub(crate) runtime: tokio::runtime::Handle,
}

impl portable::Target for Target<'_> {
    fn write(&self, done: &mut Restore, records: Vec<(u64, Record)>, last: bool) -> Stored<()> {
        let (begun, clock) = (done.clone(), self.ledger.clock.clone());
        let write = self.ledger.submit_long(LONG, move |server| async move {
            rows::writing(&server, "import into the ledger", async |client| {
                // Each try starts from a copy, because the transaction was rolled back.
                let mut restore = begun.clone();
                let rows = ServerRows::new(&server, client, &clock, &[]);
                let all = async {
                    for (line, record) in &records {
                        restore.take(&rows, Some(*line), record).await?;
                    }
                    if last {
                        restore.finish(&rows).await?;
                    }
                    Ok(())
                };
                rows.outcome(all.await)?;
                Ok(restore)
            })
            .await
        });
        *done = self.runtime.block_on(write)?;
        Ok(())
    }

    fn is_taken(&self, label: &str) -> Stored<bool> {
        let label = label.to_owned();
        let there = self.ledger.submit(None, move |server| async move {
            let text = "select from @sessions where label = $1";
            Ok(server.row("read a session", text, &[(&label, Type::TEXT)]).await?.is_some())
        });
        self.runtime.block_on(there)
    }

    fn clock(&self) -> &Clock {
        &self.ledger.clock
    }
}
