//! Changes that other processes wait for: ids only, sent in batches outside the writes, because a notification inside one
//! would let commits run one after the other; and received over one connection of its own.
//!
//! A notification is a hint: who waits looks by itself too, so that a lost one, or a pooler that passes none, only costs time.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use base::clock::Clock;
use tokio::time::timeout;
use tokio_postgres::AsyncMessage;
use tokio_postgres::types::Type;

use crate::connect::server::{Param, Server};

/// The time between two statements: changes of this time go in one.
const BATCH: Duration = Duration::from_millis(2);
/// The pause before the listening connection is opened again.
const AGAIN: Duration = Duration::from_secs(5);
/// How long others notify after [`show`], at least.
const SHOWN_MS: i64 = 15_000;
/// A notification's limit is 8,000 bytes.
const LONGEST: usize = 7_900;

/// Before the label of a session whose queue has changed.
const QUEUE: &str = "queue ";

impl Server {
    /// The run of a turn, and with it its session, has changed.
    pub(crate) fn changed(&self, turn_id: &str, label: &str) {
        self.live.wake(turn_id);
        self.live.wake(label);
        if self.live.has_listeners.load(Ordering::Acquire) {
            self.announce(&[turn_id, label]);
        }
    }

    /// Wakes who waits for a change of one of `names`, in other processes.
    pub(crate) fn announce(&self, names: &[&str]) {
        let payload = names.join("\n");
        if payload.len() < LONGEST {
            let mut payloads = self.announced.payloads.borrow_mut();
            if !payloads.contains(&payload) {
                payloads.push(payload);
            }
            self.announced.some.notify_one();
        }
    }

    /// A notification came.
    fn heard(&self, payload: &str) {
        for name in payload.split('\n') {
            if name == commands_to(&self.owner) {
                self.live.commands.notify_one();
            }
            match name.strip_prefix(QUEUE) {
                Some(label) => self.live.wake_queue(label),
                None => self.live.wake(name),
            }
        }
    }

    /// The queue of a session has changed.
    pub(crate) fn queue_changed(&self, label: &str) {
        if self.live.has_listeners.load(Ordering::Acquire) {
            self.announce(&[&format!("{QUEUE}{label}")]);
        }
    }
}

/// The name under which a process is notified of commands.
pub(crate) fn commands_to(owner: &str) -> String {
    format!("commands {owner}")
}

/// Sends what is announced, until the ledger is closed: at once, and what follows soon after it together.
pub(crate) async fn send(server: Rc<Server>) {
    let clock = Clock::default();
    let text = server.sql("select pg_notify($1, p) from unnest($2::text[]) as p");
    let mut next = clock.instant();
    loop {
        server.announced.some.notified().await;
        tokio::time::sleep_until(next).await;
        let payloads = server.announced.payloads.take();
        let params: [Param<'_>; 2] = [(&server.channel, Type::TEXT), (&payloads, Type::TEXT_ARRAY)];
        let listening = server.announced.listening.borrow().clone();
        // Who waits looks by itself too.
        match listening.filter(|client| !client.is_closed()) {
            // The connections of the pool are for what waits for the server.
            Some(client) => {
                drop(timeout(server.timeout, client.query_typed(&text, &params)).await);
            }
            None => drop(
                server
                    .run("notify other processes", async |client, _| {
                        Ok(client.query_typed(&text, &params).await?)
                    })
                    .await,
            ),
        }
        next = clock.instant() + BATCH;
    }
}

/// Receives notifications from the first time on that somebody here may need one.
pub(crate) async fn listen(server: Rc<Server>) {
    server.live.listens.notified().await;
    loop {
        if let Ok((client, mut connection)) = server.connect_beside().await {
            let client = Rc::new(client);
            let receive = async {
                while let Some(Ok(message)) = poll_fn(|it| connection.poll_message(it)).await {
                    if let AsyncMessage::Notification(it) = message {
                        server.heard(it.payload());
                    }
                }
            };
            let text = format!("listen \"{}\"", server.channel);
            let ask = async {
                let listens = client.batch_execute(&text);
                if matches!(timeout(server.timeout, listens).await, Ok(Ok(()))) {
                    server.announced.listening.replace(Some(Rc::clone(&client)));
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = receive => {}
                () = ask => {}
            }
            server.announced.listening.take();
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Shows other processes that somebody here follows runs.
pub(crate) async fn show(server: &Server) {
    let text = "with gone as (delete from @listeners where owner <> $1 and expires_at < @now_ms() - 600000)
        insert into @listeners (owner, expires_at) values ($1, @now_ms() + $2)
        on conflict (owner) do update set expires_at = excluded.expires_at";
    // A broker shows itself with each heartbeat, three times in a lease.
    let shown = server.lease_ms.max(SHOWN_MS);
    let params: [Param<'_>; 2] = [(&server.owner, Type::TEXT), (&shown, Type::INT8)];
    // Without the row they are found by looking.
    drop(server.exec("listen to runs of other processes", text, &params).await);
}
