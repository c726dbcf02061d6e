//! The task that indexes turns: it reads those that have ended, cuts their texts, and stores the chunks.
//!
//! Nothing waits for it. It must never index a turn twice or lose one: the store takes each once.

use std::sync::Arc;
use std::time::Duration;

use super::service::Memory;
use base::telemetry;
use memory::chunk::{CHUNK_TOKENS, MOST_CHUNKS, chunks};
use model::{
    IndexedTurn, MemoryKind, PENDING_BYTES, PendingText, PendingTurn, StorageError,
    StorageErrorKind,
};

/// The turns that are read at once.
const BATCH: usize = 32;
/// The batches that are still indexed while the engine closes: what a `reindex` has left waits for the next one.
const LAST_BATCHES: u32 = 32;
/// The wait after a turn has ended: what ends meanwhile is written with it, and the next turn of a busy session is not held up by each one.
const PAUSE: Duration = Duration::from_millis(50);
/// The wait after a failure of the store; it doubles.
const WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The bytes of texts above which they are cut on a thread of their own.
const MOST_INLINE: usize = 64 * 1024;
/// The longest wait after a failure of a service, whatever it asks for: its keys may be changed meanwhile.
const LONGEST_ASKED: Duration = Duration::from_secs(600);

/// The wait after so many failures of a service in a row. `asked`: how long it wants to be left alone.
pub(super) fn wait_for_service(failures: u32, asked: Duration) -> Duration {
    asked.max(backoff(failures)).min(LONGEST_ASKED)
}

/// The wait after so many failures in a row.
pub(super) fn backoff(failures: u32) -> Duration {
    WAIT.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST_WAIT)
}

impl Memory {
    /// Indexes turns as they end, until the engine closes: those that have ended by then are indexed as well.
    pub(super) async fn index_turns(self: Arc<Self>) {
        let mut failures = 0;
        let mut last_batches = LAST_BATCHES;
        loop {
            match self.index_pending().await {
                Ok(true) => {
                    failures = 0;
                    last_batches -= u32::from(self.closing.is_cancelled());
                    if last_batches == 0 {
                        return;
                    }
                }
                Ok(false) => {
                    failures = 0;
                    if self.closing.is_cancelled() {
                        return;
                    }
                    tokio::select! {
                        biased;
                        () = self.turn_ended.notified() => {}
                        () = self.closing.cancelled() => continue,
                    }
                    tokio::select! {
                        biased;
                        () = self.closing.cancelled() => {}
                        () = tokio::time::sleep(PAUSE) => {}
                    }
                }
                Err(error) if error.kind == StorageErrorKind::Closed => return,
                Err(error) => {
                    failures += 1;
                    telemetry::storage_failed(error.kind.code());
                    tokio::select! {
                        biased;
                        () = self.closing.cancelled() => return,
                        () = tokio::time::sleep(backoff(failures)) => {}
                    }
                }
            }
        }
    }

    /// Indexes the oldest turns. Returns whether there may be more.
    pub(super) async fn index_pending(self: &Arc<Self>) -> Result<bool, StorageError> {
        let done = self.index_batch().await;
        self.progress().indexing = done.as_ref().err().map(|error| error.message.clone());
        done
    }

    async fn index_batch(self: &Arc<Self>) -> Result<bool, StorageError> {
        let with_calls = !self.parts.options.observations.is_empty();
        let turns = self.parts.store.pending_turns(BATCH, with_calls).await?;
        let bytes: usize = turns.iter().map(PendingTurn::bytes).sum();
        let more = turns.len() == BATCH || bytes >= PENDING_BYTES;
        let turns = if bytes > MOST_INLINE {
            let memory = Arc::clone(self);
            let cutting = tokio::task::spawn_blocking(move || memory.all_indexed(turns));
            cutting.await.map_err(|_| {
                let message = "the texts of turns were not cut into chunks; they are tried again";
                StorageError::new(StorageErrorKind::Io, message)
            })?
        } else {
            self.all_indexed(turns)
        };
        // All are submitted before the first is awaited: the ledger writes them in one transaction.
        let submitted: Vec<_> = turns
            .into_iter()
            .map(|turn| {
                let has_chunks = !turn.chunks.is_empty() || !turn.facts.is_empty();
                (has_chunks, turn.extracts, self.parts.store.index_turn(turn))
            })
            .collect();
        for (has_chunks, extracts, written) in submitted {
            if written.await? {
                if has_chunks {
                    self.chunk_written.notify_one();
                }
                if extracts {
                    self.turn_indexed.notify_one();
                }
            }
        }
        Ok(more)
    }

    fn all_indexed(&self, turns: Vec<PendingTurn>) -> Vec<IndexedTurn> {
        turns.into_iter().map(|turn| self.indexed(self.turn_without_keys(turn))).collect()
    }

    /// A turn with its chunks.
    fn indexed(&self, turn: PendingTurn) -> IndexedTurn {
        let options = &self.parts.options;
        let wanted = if turn.is_summary { options.summaries } else { options.episodic };
        let mut found = Vec::new();
        let mut is_clipped = false;
        for text in turn.texts.iter().filter(|_| wanted) {
            for chunk in chunks(&text.text, CHUNK_TOKENS) {
                is_clipped |= found.len() == MOST_CHUNKS;
                if !is_clipped {
                    found.push(PendingText {
                        role: text.role.clone(),
                        text: chunk.to_owned(),
                        created_at: text.created_at,
                    });
                }
            }
        }
        IndexedTurn {
            facts: self.observed(&turn),
            extracts: self.parts.extractor.is_some() && !turn.is_summary,
            scope: options.scopes.scope_of(&turn.identity),
            kind: if turn.is_summary { MemoryKind::Summary } else { MemoryKind::Turn },
            turn_id: turn.turn_id,
            session_label: turn.session_label,
            chunks: found,
            is_clipped,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{backoff, wait_for_service};

    #[test]
    fn a_service_is_left_alone_as_long_as_it_asks_but_not_for_hours() {
        let wait = |asked| wait_for_service(1, Duration::from_secs(asked)).as_millis();
        assert_eq!([0, 7, 86_400].map(wait), [500, 7_000, 600_000]);
    }

    #[test]
    fn the_wait_after_failures_doubles_up_to_a_minute() {
        let waits: Vec<_> = [1, 2, 3, 8, 40].map(|failures| backoff(failures).as_millis()).into();
        assert_eq!(waits, [500, 1_000, 2_000, 60_000, 60_000]);
        assert!(backoff(0) >= Duration::from_millis(500));
    }
}
