//! The log after a commit: it is copied into the file, and bounded while a read prevents that. It must never run inside a
//! transaction.

use std::sync::Arc;

use rusqlite::Connection;

use crate::sqlite::guard::Reads;

/// The log of the open ledger.
#[derive(Clone)]
pub(super) struct Log {
    pub(super) page_bytes: u64,
    pub(super) reads: Arc<Reads>,
}

impl Log {
    /// Records the log's length after a commit.
    pub(super) fn committed(&self, pages: i32) {
        self.reads.committed(u64::try_from(pages).unwrap_or_default(), self.page_bytes);
    }

    /// Runs a checkpoint. One that cannot finish now (a reader, a full disk) is retried after the next commit. False if the
    /// disk failed.
    pub(super) fn checkpoint(&self, connection: &Connection) -> bool {
        let done = connection
            .wal_checkpoint_v2(Some(rusqlite::MAIN_DB), rusqlite::wal::CheckpointMode::PASSIVE);
        let (pages, copied) = match done {
            Ok(done) => done,
            Err(error) => {
                return error.sqlite_error_code() != Some(rusqlite::ErrorCode::SystemIoFailure);
            }
        };
        let bytes = u64::try_from(pages).unwrap_or_default().saturating_mul(self.page_bytes);
        self.reads.bound_log(bytes, copied >= pages);
        true
    }
}
