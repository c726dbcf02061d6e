//! The tasks of a ledger's thread, without a server: one that panics runs again.

use std::future::ready;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::config::Environment;
use tokio::sync::Notify;

use crate::PostgresOptions;
use crate::connect::held::Held;
use crate::connect::options::PostgresFields;
use crate::connect::server::Server;
use crate::connect::tls::Tls;
use crate::connect::worker::{Duties, Order, Worker};
use crate::events::live::Live;

static RUNS: AtomicUsize = AtomicUsize::new(0);
static GOES_ON: Notify = Notify::const_new();

#[tokio::test]
async fn a_task_runs_again_after_a_panic() {
    let fields = PostgresFields { url: "postgres://me@localhost/x", ..PostgresFields::default() };
    let options = PostgresOptions::read(fields, &Environment::fixed([])).unwrap();
    let tls = Tls::new(&options.tls).unwrap();
    let server = move || {
        Rc::new(Server::new(options, "own".to_owned(), Held::default(), Live::new(None), tls))
    };
    let duties = Duties {
        open: |_| Box::pin(ready(Ok(()))),
        tasks: &[|_| {
            Box::pin(async {
                assert!(RUNS.fetch_add(1, Ordering::SeqCst) > 0, "a bug");
                GOES_ON.notify_one();
            })
        }],
        beats: &[],
        every: Duration::from_secs(3_600),
        end: |_| Box::pin(ready(())),
    };
    let worker = Worker::start(server, duties).unwrap();
    worker.submit((Order::Now, None), |_| ready(Ok(()))).await.unwrap();
    GOES_ON.notified().await;
    worker.close().await;
}
