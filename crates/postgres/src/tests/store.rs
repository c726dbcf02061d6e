//! A schema of its own for each case, in the server at `POSTGRES_URL`, with a clock that the case sets.
//!
//! It must never touch another schema.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use ::conformance::store::{Contents, Fixture, ProcessEnd, Store, StoreFuture, Thread};
use ::conformance::turns::NOW;
use base::clock::{Clock, TestTimes};
use base::config::Environment;
use model::{LedgerAdmin, LedgerPorts};
use tokio_postgres::Row;

use crate::connect::options::PostgresFields;
use crate::tests::plans::Plans;
use crate::{Postgres, PostgresOptions};

/// No heartbeat is due within a case.
const LEASE: Duration = Duration::from_secs(3_600);

pub(super) struct Schema {
    pub(super) ledger: Arc<Postgres>,
    others: Vec<Arc<Postgres>>,
    pub(super) name: String,
    times: Arc<TestTimes>,
    plans: Option<Plans>,
}

/// The result of a future, on a thread of its own: a case is inside a runtime.
fn wait<T: Send>(future: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        let run = || {
            tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap()
                .block_on(future)
        };
        scope.spawn(run).join().unwrap()
    })
}

impl Schema {
    fn open(name: &str, times: &Arc<TestTimes>) -> (Arc<Postgres>, Option<Plans>) {
        let environment = Environment::process();
        let url = environment.get("POSTGRES_URL").expect("crates/postgres/serve.sh sets it");
        let (url, plans) = Plans::begin(&url);
        (Self::open_at(&url, name, times), plans)
    }

    fn open_at(url: &str, name: &str, times: &Arc<TestTimes>) -> Arc<Postgres> {
        let lease_ms = u64::try_from(LEASE.as_millis()).unwrap();
        let retention = model::Retention::default();
        let fields = PostgresFields {
            url,
            schema: Some(name),
            lease_ms: Some(lease_ms),
            pool: Some(4),
            retention: Some(&retention),
            ..PostgresFields::default()
        };
        let options = PostgresOptions::read(fields, &Environment::process()).unwrap();
        Postgres::open(&options, Clock::set(times)).unwrap()
    }

    /// Another process, whose way to the server is `url`.
    pub(super) fn process_at(&mut self, url: &str) -> LedgerPorts {
        let ledger = Self::open_at(url, &self.name, &self.times);
        self.others.push(Arc::clone(&ledger));
        LedgerPorts::of(&ledger)
    }

    pub(super) async fn run(ledger: &Postgres, text: String) -> Vec<Row> {
        let read = ledger.submit(None, move |server| async move {
            server.rows("look", &format!("/* case */ {text}"), &[]).await
        });
        read.await.unwrap()
    }

    pub(super) async fn batch(ledger: &Postgres, text: String) {
        let run = ledger.submit(None, move |server| async move {
            let sql = server.sql(&format!("/* case */ {text}"));
            server.run("change", async |client, _| Ok(client.batch_execute(&sql).await?)).await
        });
        run.await.unwrap();
    }
}

pub(crate) fn fresh() -> Fixture {
    Fixture::new(Box::new(fresh_schema()))
}

pub(super) fn fresh_schema() -> Schema {
    let times = Arc::new(TestTimes::default());
    times.wall.store(NOW, SeqCst);
    let name = format!("test_{}", Clock::default().new_id().to_lowercase());
    let (ledger, plans) = Schema::open(&name, &times);
    let clock = format!(
        "create table @test_clock (ms bigint); insert into @test_clock values ({NOW});
         create or replace function @now_ms() returns bigint language sql volatile return (select ms from @test_clock)"
    );
    wait(Schema::batch(&ledger, clock));
    Schema { ledger, others: Vec::new(), name, times, plans }
}

impl Drop for Schema {
    fn drop(&mut self) {
        let name = &self.name;
        let (ledger, _) = Self::open(name, &self.times);
        let partial = format!("select indexrelid::regclass::text from pg_index where indpred is not null and indrelid in (
            select oid from pg_class where relnamespace = '{name}'::regnamespace)");
        let partial = wait(Self::run(&ledger, partial));
        let partial = partial.iter().map(|row| row.get::<_, String>(0));
        let partial = partial.filter_map(|it| Some(it.rsplit_once('.')?.1.to_owned())).collect();
        wait(async {
            for other in self.others.drain(..) {
                other.end().await;
            }
            self.ledger.end().await;
            Self::batch(&ledger, format!("drop schema \"{name}\" cascade")).await;
        });
        if let Some(plans) = self.plans.take().filter(|_| !std::thread::panicking()) {
            let scans = plans.scans(name, &partial);
            assert!(scans.is_empty(), "{scans:#?}");
        }
    }
}

impl Store for Schema {
    fn ports(&self) -> LedgerPorts {
        LedgerPorts::of(&self.ledger)
    }

    fn next_process(&mut self, end: ProcessEnd) -> StoreFuture<'_> {
        Box::pin(async move {
            self.others.clear();
            if end == ProcessEnd::Killed {
                // Its thread goes on, as a server goes on with the connections of a killed process.
                let dead = "update @sessions set owner = null; update @deliveries set owner = null;
                    update @runs set expires_at = 0; update @budget_reservations set expires_at = 0";
                Self::batch(&self.ledger, dead.to_owned()).await;
            } else {
                self.ledger.close().await.unwrap();
            }
            self.ledger = Self::open(&self.name, &self.times).0;
        })
    }

    fn other_process(&mut self) -> StoreFuture<'_, LedgerPorts> {
        Box::pin(async move {
            let ledger = Self::open(&self.name, &self.times).0;
            self.others.push(Arc::clone(&ledger));
            LedgerPorts::of(&ledger)
        })
    }

    fn advance(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).unwrap();
        self.times.wall.fetch_add(ms, SeqCst);
        wait(Self::batch(&self.ledger, format!("update @test_clock set ms = ms + {ms}")));
    }

    fn lease(&self) -> Duration {
        LEASE
    }

    fn catch_up(&self) -> StoreFuture<'_> {
        Box::pin(std::future::ready(()))
    }

    fn contents(&self) -> StoreFuture<'_, Contents> {
        Box::pin(async move {
            let ended = "join @turns t on t.id = turn_id where t.status <> 'streaming'";
            let counts = Self::run(
                &self.ledger,
                format!(
                    "select (select count(*) from @turns where status <> 'streaming'),
                       (select count(*) from @turns where status = 'streaming'),
                       (select count(*) from @messages {ended}), (select count(*) from @tool_calls {ended}),
                       (select count(*) from @compactions), (select count(*) from @sessions),
                       (select count(*) from @messages where turn_id not in (select id from @turns)) +
                       (select count(*) from @tool_calls where turn_id not in (select id from @turns)) +
                       (select count(*) from @turns where parent_turn_id not in (select id from @turns))"
                ),
            );
            let counts = counts.await;
            let count = |at: usize| usize::try_from(counts[0].get::<_, i64>(at)).unwrap();
            assert_eq!(count(6), 0, "a reference finds no row");
            let threads = "with recursive up as (
                   select id, parent_turn_id, array[id] as line, thread_tokens, session_label, depth
                   from @turns where parent_turn_id is null and status <> 'streaming'
                   union all
                   select t.id, t.parent_turn_id, line || t.id, t.thread_tokens, t.session_label, t.depth
                   from up join @turns t on t.parent_turn_id = up.id where t.status <> 'streaming')
                 select id, line, thread_tokens, session_label, depth from up order by id";
            let threads = Self::run(&self.ledger, threads.to_owned()).await;
            let threads = threads.iter().map(|row| {
                let ancestry: Vec<String> = row.get(1);
                assert_eq!(usize::try_from(row.get::<_, i64>(4)).unwrap() + 1, ancestry.len());
                Thread {
                    turn_id: row.get(0),
                    ancestry,
                    total_tokens: row.get(2),
                    session_label: row.get(3),
                }
            });
            let moves = "select session_label, thread_id from @session_moves order by id";
            let moves = Self::run(&self.ledger, moves.to_owned()).await;
            Contents {
                turns: count(0),
                open: count(1),
                messages: count(2),
                calls: count(3),
                compactions: count(4),
                sessions: count(5),
                threads: threads.collect(),
                moves: moves.iter().map(|row| (row.get(0), row.get(1))).collect(),
                large_values: 0,
                large_names: 0,
            }
        })
    }
}
