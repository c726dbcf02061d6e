//! What a server sends unasked: over the subscription to its changes where there is no handshake (`subscriptions/listen`), else over a
//! stream of its own. Both are a request that stays open, and is made again when it ends.
//!
//! It must never outlive its connection, or ask a server again without a pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::stdio::OnChange;

/// The acknowledgement of a subscription.
pub(crate) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";
/// The pause before the second attempt; it doubles.
const PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Attempts that were never acknowledged: the server does not know subscriptions.
const MAX_REFUSED: u32 = 3;
/// The longest wait for a stream to be open. A server may send its headers only with its first message.
const OPENING: Duration = Duration::from_secs(1);

/// Whether the server says when it changes.
#[derive(Clone, Default)]
pub(crate) struct Listening(Arc<Flags>);

#[derive(Default)]
struct Flags {
    is_on: AtomicBool,
    was_on: AtomicBool,
    /// The first request is answered: with a stream, or without one.
    settled: Notify,
}

impl Listening {
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_on.load(Ordering::Acquire)
    }

    /// What the connection calls for each notification. Tools may have changed between two subscriptions.
    pub(crate) fn through(&self, on_change: OnChange) -> OnChange {
        let listening = self.clone();
        Arc::new(move |method| {
            if method != ACKNOWLEDGED {
                return on_change(method);
            }
            listening.0.is_on.store(true, Ordering::Release);
            listening.0.settled.notify_one();
            if listening.0.was_on.swap(true, Ordering::AcqRel) {
                on_change("notifications/tools/list_changed");
            }
        })
    }

    /// Waits until it is on, or known not to be: what the server sends before is lost.
    pub(crate) async fn settled(&self) {
        // After the time limit it is on later, or never.
        let _ = tokio::time::timeout(OPENING, self.0.settled.notified()).await;
    }

    /// Waits for the end of a request that is made once.
    pub(crate) async fn once<T>(
        self,
        mut closing: watch::Receiver<bool>,
        answer: impl Future<Output = T>,
    ) {
        tokio::select! {
            _ = answer => {}
            _ = closing.wait_for(|closing| *closing) => {}
        }
        self.0.is_on.store(false, Ordering::Release);
    }

    /// Makes the request, and makes it again when it ends, until the connection closes.
    pub(crate) async fn run<F: Future<Output = ()>>(
        self,
        mut closing: watch::Receiver<bool>,
        request: impl Fn() -> F,
    ) {
        let (mut pause, mut refused) = (PAUSE, 0);
        while refused < MAX_REFUSED {
            tokio::select! {
                () = request() => {}
                _ = closing.wait_for(|closing| *closing) => return,
            }
            self.0.settled.notify_one();
            if self.0.is_on.swap(false, Ordering::AcqRel) {
                (pause, refused) = (PAUSE, 0);
            } else {
                refused += 1;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = closing.wait_for(|closing| *closing) => return,
            }
            pause = pause.saturating_mul(2).min(MAX_PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::watch;

    use super::{ACKNOWLEDGED, Listening, MAX_REFUSED};

    #[tokio::test(start_paused = true)]
    async fn a_subscription_is_made_again_and_given_up_where_it_is_never_acknowledged() {
        let listening = Listening::default();
        let (changes, requests) = (Arc::new(AtomicU32::new(0)), AtomicU32::new(0));
        let seen = Arc::clone(&changes);
        let on_change = listening.through(Arc::new(move |_| {
            seen.fetch_add(1, Ordering::Relaxed);
        }));
        let (_closing, closed) = watch::channel(false);
        let run = listening.clone().run(closed, || async {
            if requests.fetch_add(1, Ordering::Relaxed) < 4 {
                on_change(ACKNOWLEDGED);
                assert!(listening.is_on());
            }
        });
        run.await;
        assert_eq!(requests.load(Ordering::Relaxed), 4 + MAX_REFUSED);
        // The first subscription began with the first list.
        assert_eq!(changes.load(Ordering::Relaxed), 3);
        assert!(!listening.is_on());
    }

    #[tokio::test]
    async fn it_ends_with_its_connection() {
        let (closing, closed) = watch::channel(false);
        let ended = Listening::default().run(closed, std::future::pending);
        tokio::join!(ended, async move { drop(closing) });
    }
}
