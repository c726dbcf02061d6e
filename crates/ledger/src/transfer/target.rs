//! The target of an import: the writer, called from a thread that may block.

use std::sync::Arc;

use super::rows::SqliteRows;
use crate::events::poller::Poller;
use crate::sessions::pointers;
use crate::sqlite::error::Stored;
use crate::sqlite::writer::Writer;
use base::clock::Clock;
use portable::{Record, Restore, at_once};

pub(crate) struct Target {
    pub(crate) writer: Arc<Writer>,
    pub(crate) poller: Arc<Poller>,
    pub(crate) clock: Clock,
    /// Whether the turns are noted for the memory.
    pub(crate) remembers: bool,
    pub(crate) runtime: tokio::runtime::Handle,
}

impl portable::Target for Target {
    fn write(&self, done: &mut Restore, records: Vec<(u64, Record)>, last: bool) -> Stored<()> {
        let (begun, clock, remembers) = (done.clone(), self.clock.clone(), self.remembers);
        let work = move |connection: &rusqlite::Connection| {
            // Each attempt starts from a copy, because the transaction may be rolled back and run again.
            let mut restore = begun.clone();
            let rows = SqliteRows { connection, clock: &clock, remembers };
            at_once(async {
                for (line, record) in &records {
                    restore.take(&rows, Some(*line), record).await?;
                }
                if last {
                    restore.finish(&rows).await?;
                }
                Ok(())
            })?;
            Ok(restore)
        };
        let before = done.turns;
        *done = self.runtime.block_on(self.writer.submit(work))?;
        self.poller.ended(done.turns - before);
        Ok(())
    }

    fn is_taken(&self, label: &str) -> Stored<bool> {
        let label = label.to_owned();
        let there = move |connection: &rusqlite::Connection| pointers::head(connection, &label);
        Ok(self.runtime.block_on(self.writer.submit(there))?.is_some())
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }
}
