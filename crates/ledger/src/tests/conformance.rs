//! The contract's tests (`crates/conformance`) over SQLite: a file in a new folder for each, and crashes as copies of the
//! files.

use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use ::conformance::store::{Contents, Fixture, ProcessEnd, Store, StoreFuture, Thread};
use ::conformance::turns::NOW;
use base::clock::TestTimes;
use model::{LedgerPorts, QueryLimits};

use crate::Synchronous;
use crate::search::search_indexer;
use crate::sqlite::checksum::set;
use crate::sqlite::error::sqlite;

use super::{Arc, Clock, Ledger, LedgerAdmin, LedgerOptions, LedgerRead, Path};

/// The heartbeat renews it three times in that time, by the machine's clock, so never within a case.
const LEASE: Duration = Duration::from_secs(3_600);

struct File {
    ledger: Arc<Ledger>,
    /// The ledgers of other processes.
    others: Vec<Arc<Ledger>>,
    folder: tempfile::TempDir,
    times: Arc<TestTimes>,
}

fn options(path: &Path) -> LedgerOptions {
    let at = LedgerOptions::at(path.to_owned());
    LedgerOptions { synchronous: Synchronous::Normal, lease: LEASE, ..at }
}

fn fresh() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let times = Arc::new(TestTimes::default());
    times.wall.store(NOW, SeqCst);
    times.shared.store(1_000_000, SeqCst);
    let options = options(&folder.path().join("ledger.db"));
    let ledger = Ledger::open(&options, Clock::set(&times)).unwrap();
    Fixture::new(Box::new(File { ledger, others: Vec::new(), folder, times }))
}

impl Drop for File {
    fn drop(&mut self) {
        self.close_others();
    }
}

impl File {
    fn close_others(&mut self) {
        for ledger in self.others.drain(..) {
            ledger.core().unwrap().stop();
        }
    }

    async fn rows(&self, sql: &str) -> Vec<serde_json::Value> {
        let rows = self.ledger.query(sql.to_owned(), "[]".to_owned(), QueryLimits::default()).await;
        let json = serde_json::to_value(rows.unwrap().rows).unwrap();
        json.as_array().unwrap().clone()
    }
}

impl Store for File {
    fn ports(&self) -> LedgerPorts {
        LedgerPorts::of(&self.ledger)
    }

    fn next_process(&mut self, end: ProcessEnd) -> StoreFuture<'_> {
        Box::pin(async move {
            let mut path = self.folder.path().join("ledger.db");
            if end == ProcessEnd::Killed {
                let image = tempfile::tempdir().unwrap();
                for file in ["ledger.db", "ledger.db-wal"] {
                    std::fs::copy(self.folder.path().join(file), image.path().join(file)).unwrap();
                }
                path = image.path().join("ledger.db");
                self.close_others();
                self.ledger.close().await.unwrap();
                self.folder = image;
            } else {
                self.close_others();
                self.ledger.close().await.unwrap();
            }
            self.ledger = Ledger::open(&options(&path), Clock::set(&self.times)).unwrap();
            // This process held the leases and is alive, so the rows get the pid of a dead one.
            let change = set(&[("pid", "2147483647")]);
            let dead = ["session_leases", "deliveries", "runs", "budget_reservations"]
                .map(|table| format!("UPDATE {table} SET {change} WHERE owner IS NOT NULL"));
            let core = self.ledger.core().unwrap();
            let buried = core.writer.submit(move |connection| {
                dead.iter().try_for_each(|dead| {
                    connection.execute(dead, ()).map(drop).map_err(|error| sqlite("bury", &error))
                })
            });
            buried.await.unwrap();
        })
    }

    fn other_process(&mut self) -> StoreFuture<'_, LedgerPorts> {
        Box::pin(async move {
            let options = options(&self.folder.path().join("ledger.db"));
            let ledger = Ledger::open_separately(&options, Clock::set(&self.times)).unwrap();
            self.others.push(Arc::clone(&ledger));
            LedgerPorts::of(&ledger)
        })
    }

    fn advance(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).unwrap();
        self.times.wall.fetch_add(ms, SeqCst);
        self.times.shared.fetch_add(ms, SeqCst);
    }

    fn lease(&self) -> Duration {
        LEASE
    }

    fn catch_up(&self) -> StoreFuture<'_> {
        Box::pin(async move {
            let core = self.ledger.core().unwrap();
            core.writer.submit(search_indexer::slice).await.unwrap();
        })
    }

    fn contents(&self) -> StoreFuture<'_, Contents> {
        Box::pin(async move {
            let core = self.ledger.core().unwrap();
            let broken = core.readers.with(|connection| {
                let mut statement = connection.prepare("PRAGMA foreign_key_check").unwrap();
                Ok(statement.exists(()).unwrap())
            });
            assert!(!broken.unwrap(), "a reference finds no row");
            let counts = self
                .rows(
                    "SELECT (SELECT count(*) FROM turns) AS turns, (SELECT count(*) FROM runs WHERE ended_at IS NULL AND epoch IS NOT NULL) AS open,
                       (SELECT count(*) FROM messages) AS messages, (SELECT count(*) FROM tool_calls) AS calls,
                       (SELECT count(*) FROM compactions) AS compactions, (SELECT count(*) FROM sessions) AS sessions,
                       (SELECT count(*) FROM blobs) AS blobs,
                       (SELECT count(*) FROM blob_references WHERE message_id IS NOT NULL) AS names,
                       (SELECT count(*) FROM blob_references WHERE hash NOT IN (SELECT hash FROM blobs)) AS lost",
                )
                .await;
            let count = |name: &str| usize::try_from(counts[0][name].as_u64().unwrap()).unwrap();
            assert_eq!(count("lost"), 0, "a large value is lost");
            let text = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap().to_owned();
            let threads = self.rows("SELECT * FROM threads ORDER BY turn_id").await;
            let threads = threads.iter().map(|row| {
                let turn_id = text(row, "turn_id");
                let key = text(row, "thread_key");
                let session_label = key.strip_suffix(&format!("/{turn_id}")).unwrap().to_owned();
                let ancestry: Vec<String> = serde_json::from_str(&text(row, "ancestry")).unwrap();
                assert_eq!(row["depth"].as_u64().unwrap() + 1, ancestry.len() as u64);
                assert_eq!(row["persona_id"], "default");
                let total_tokens = row["total_tokens"].as_i64().unwrap();
                Thread { turn_id, ancestry, total_tokens, session_label }
            });
            let moves =
                self.rows("SELECT session_label, thread_id FROM session_history ORDER BY id");
            let moves = moves.await;
            let moves =
                moves.iter().map(|row| (text(row, "session_label"), text(row, "thread_id")));
            Contents {
                turns: count("turns"),
                open: count("open"),
                messages: count("messages"),
                calls: count("calls"),
                compactions: count("compactions"),
                sessions: count("sessions"),
                threads: threads.collect(),
                moves: moves.collect(),
                large_values: count("blobs"),
                large_names: count("names"),
            }
        })
    }
}

::conformance::cases!(crate::tests::conformance::fresh, tokio::test);

#[tokio::test]
async fn a_session_is_imported_from_its_file_once() {
    ::conformance::cases::transfer::a_session_is_imported_from_its_file_once(fresh(), fresh())
        .await;
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test's own switch, which no user sets")]
fn the_ledger_agrees_with_a_model_in_memory() {
    let cases = std::env::var_os("LEDGER_CASES");
    let cases = cases.and_then(|cases| cases.to_str()?.parse().ok());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    ::conformance::oracle::agrees_with_a_model_in_memory(cases, fresh, |case| {
        runtime.block_on(case)
    });
}
