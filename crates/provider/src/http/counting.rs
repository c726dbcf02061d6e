//! A sink that counts the deltas it passes on. It must never change one.

use std::task::{Context, Poll};

use crate::{Delta, DeltaSink, Failure};

/// Counts the deltas, so that pings can be distinguished from progress.
pub(super) struct Counting<'a> {
    pub(super) sink: &'a mut dyn DeltaSink,
    pub(super) deltas: u64,
}

impl Counting<'_> {
    /// Waits for the reader; true if there was a wait.
    pub(super) async fn wait_until_ready(&mut self) -> bool {
        let mut waited = false;
        std::future::poll_fn(|cx| {
            let ready = self.sink.poll_ready(cx);
            waited |= ready.is_pending();
            ready
        })
        .await;
        waited
    }
}

impl DeltaSink for Counting<'_> {
    fn delta(&mut self, delta: Delta<'_>) {
        self.deltas = self.deltas.wrapping_add(1);
        self.sink.delta(delta);
    }

    fn withheld(&mut self, index: u32, bytes: usize) {
        self.sink.withheld(index, bytes);
    }

    fn refusal(&self) -> Option<Failure> {
        self.sink.refusal()
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.sink.poll_ready(cx)
    }
}
