//! A whole deletion: the plan from a snapshot, the sessions first, then the turns a batch at a time between other jobs of the writer.
//!
//! After a kill at any moment the ledger is sound, and the same call, or the next deletion, continues. It must never hold the
//! writer for longer than a batch, apart from the rewriting of the file that `secure` asks for.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::deletion::batch::{self, Batch};
use crate::deletion::plan::{Plan, plan};
use crate::deletion::{count, overwrite, sessions};
use crate::sqlite::error::Stored;
use crate::sqlite::readers::{self, Readers};
use crate::sqlite::writer::Writer;
use base::clock::Clock;
use model::{DeleteSessionOptions, Deletion, LedgerDeletion, StorageError, StorageErrorKind};

/// Sessions that one transaction hides.
const SESSIONS: usize = 32;

/// What a deletion works with.
pub(crate) struct DeletionParts {
    pub(crate) readers: Arc<Readers>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) clock: Clock,
    pub(crate) path: PathBuf,
}

impl DeletionParts {
    /// Deletes, or counts what would be deleted.
    pub(crate) async fn run(&self, deletion: Deletion) -> Stored<LedgerDeletion> {
        if deletion.dry_run() {
            return self
                .read(move |connection| count::count(connection, &plan(connection, &deletion)?))
                .await;
        }
        let secure = deletion.secure();
        // What a killed process has left comes first.
        let mut finished = None;
        for label in self.read(sessions::all_pending).await? {
            let options = DeleteSessionOptions { turns: true, ..DeleteSessionOptions::default() };
            let done = self.delete(Deletion::Session(label.clone(), options)).await?;
            if matches!(&deletion, Deletion::Session(wanted, _) if *wanted == label) {
                finished = Some(done);
            }
        }
        let mut done = match (self.delete(deletion).await, finished) {
            (Err(error), Some(done)) if error.kind == StorageErrorKind::UnknownSession => done,
            (done, _) => done?,
        };
        // The batches do not wait for the disk; this does.
        self.writer.submit(|_| Ok(())).await?;
        if secure {
            let path = self.path.clone();
            let overwritten =
                self.writer.submit_alone(move |connection| overwrite::overwrite(connection, &path));
            done.overwritten = overwritten.await?;
        }
        Ok(done)
    }

    async fn delete(&self, deletion: Deletion) -> Stored<LedgerDeletion> {
        let mut plan = self.read(move |connection| plan(connection, &deletion)).await?;
        let mut done =
            LedgerDeletion { retained_turns: plan.retained, ..LedgerDeletion::default() };
        let labels = self.hide(&mut plan, &mut done).await?;
        let plan = Arc::new(plan);
        let gone: Arc<HashSet<i64>> = Arc::new(plan.turns.iter().copied().collect());
        let mut emptied = BTreeSet::new();
        let mut at = 0;
        while at < plan.turns.len() {
            let (of, numbers, now) = (Arc::clone(&plan), Arc::clone(&gone), self.clock.now_ms());
            let batch = self
                .writer
                .submit_alone(move |connection| batch::run(connection, &of, &numbers, (at, now)));
            let Batch { taken, turns, deleted, blobs, labels: of_turns } = batch.await?;
            emptied.extend(of_turns);
            at += taken.max(1);
            done.turns += turns;
            done.retained_turns += taken as u64 - turns;
            done.messages += deleted.messages;
            done.tool_calls += deleted.tool_calls;
            done.runs += deleted.runs;
            done.blobs += blobs;
        }
        let finished: Vec<(String, bool)> = labels
            .into_iter()
            .map(|label| (label, true))
            // Deleted sessions whose last turn went now.
            .chain(emptied.into_iter().map(|label| (label, false)))
            .collect();
        for some in finished.chunks(SESSIONS) {
            let some = some.to_vec();
            let finish = self.writer.submit(move |connection| {
                some.iter().try_for_each(|(label, is_pending)| {
                    if *is_pending {
                        sessions::finish(connection, label)
                    } else {
                        sessions::remove(connection, label)
                    }
                })
            });
            finish.await?;
        }
        Ok(done)
    }

    /// Hides the sessions of the plan, and returns them.
    ///
    /// # Errors
    /// `storage_locked` for one that is in use by now. Those that are hidden then are finished by the next deletion.
    async fn hide(&self, plan: &mut Plan, done: &mut LedgerDeletion) -> Stored<Vec<String>> {
        let mut labels = Vec::new();
        let sessions = std::mem::take(&mut plan.sessions);
        for some in sessions.chunks(SESSIONS) {
            let (some, clock) = (some.to_vec(), self.clock.clone());
            let hidden = self.writer.submit(move |connection| {
                let mut hidden = Vec::new();
                for session in &some {
                    if sessions::hide(connection, session, &clock)? {
                        hidden.push((session.label.clone(), session.runs.len() as u64));
                    } else {
                        return Err(StorageError::new(
                            StorageErrorKind::Locked,
                            format!("session `{}` is in use by now; try again", session.label),
                        ));
                    }
                }
                Ok(hidden)
            });
            for (label, runs) in hidden.await? {
                done.sessions += 1;
                done.runs += runs;
                labels.push(label);
            }
        }
        Ok(labels)
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> Stored<T> + Send + 'static,
    ) -> Stored<T> {
        self.readers.run(|connection| readers::snapshot(connection, read)).await
    }
}
