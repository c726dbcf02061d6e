//! The index of words, filled after the commits: a slice at a time, by the keys of messages.
//!
//! Neither a commit nor a search must ever wait for it: a search reads the messages that are not indexed yet.

use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::rows::blobs;
use crate::sqlite::checksum::set;
use crate::sqlite::error::{Stored, damaged};
use crate::sqlite::functions::words_of;
use crate::sqlite::readers::Readers;
use crate::sqlite::sql;
use crate::sqlite::writer::{Job, Writer};
use model::StorageError;

/// Limits of one transaction in messages and in bytes of text, so that other jobs wait only briefly.
const SLICE: i64 = 256;
const SLICE_BYTES: usize = 1 << 20;
/// Number of messages that may stay unindexed: a search reads so many in a few milliseconds, and an index that is written in
/// few large steps stays small.
pub(crate) const WAITING: i64 = 256;

pub(crate) const INDEXED_THROUGH: &str = "SELECT indexed_through FROM search_progress WHERE id = 1";
pub(crate) const LAST: &str = "SELECT coalesce(max(key), 0) FROM message_rows";
/// Keys have gaps, so messages are counted, up to a bound.
pub(crate) const UNINDEXED: &str =
    "SELECT count(*) FROM (SELECT 1 FROM message_rows WHERE key > ?1 LIMIT 1024)";
pub(crate) const END_OF_SLICE: &str =
    "SELECT key FROM message_rows WHERE key > ?1 ORDER BY key LIMIT 1 OFFSET ?2";
/// The messages to index. Messages never change, so those of running turns are indexed as well.
pub(crate) const TO_INDEX: &str = "SELECT m.key, m.content, m.blobs_json FROM message_values m CROSS JOIN turns t ON t.n = m.key >> 20
     WHERE m.key > ?1 AND m.key <= ?2 AND m.role IN ('user', 'assistant', 'system') AND t.turn_type = 'normal'
     ORDER BY m.key";

static PROGRESS: LazyLock<String> = LazyLock::new(|| {
    format!("UPDATE search_progress SET {} WHERE id = 1", set(&[("indexed_through", "?1")]))
});

/// The last message that is indexed.
pub(crate) fn indexed_through(connection: &Connection) -> Stored<i64> {
    number(connection, INDEXED_THROUGH)
}

/// The number of messages that are not indexed yet, or 1,024 if there are more.
pub(crate) fn waiting(connection: &Connection) -> Stored<i64> {
    waiting_after(connection, indexed_through(connection)?)
}

fn waiting_after(connection: &Connection, through: i64) -> Stored<i64> {
    sql::one(connection, UNINDEXED, (through,), "count messages that are not indexed")
}

fn number(connection: &Connection, sql: &str) -> Stored<i64> {
    sql::optional(connection, sql, (), "read how far messages are indexed")?
        .ok_or_else(|| damaged("the ledger does not have the number of its last indexed message"))
}

/// Indexes the next messages. Returns whether more remain than [`WAITING`].
pub(crate) fn slice(connection: &Connection) -> Stored<bool> {
    let doing = "index messages";
    let from = indexed_through(connection)?;
    let end: Option<i64> = sql::optional(connection, END_OF_SLICE, (from, SLICE - 1), doing)?;
    let mut through = match end {
        Some(end) => end,
        None => number(connection, LAST)?.max(from),
    };
    let mut bytes = 0;
    sql::each(connection, TO_INDEX, (from, through), doing, |fields| {
        let id: i64 = fields.next()?;
        let words = words_of(&blobs::message_text(connection, fields)?);
        bytes += words.len();
        if !words.is_empty() {
            let add = "INSERT INTO message_words (rowid, words) VALUES (?1, ?2)";
            sql::exec(connection, add, (id, words), doing)?;
        }
        if bytes > SLICE_BYTES {
            through = id;
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    sql::exec(connection, &PROGRESS, (through,), doing)?;
    Ok(waiting_after(connection, through)? > WAITING)
}

/// Takes the words of a turn's messages out of the index.
pub(crate) fn forget(connection: &Connection, turn: i64) -> Stored<()> {
    let doing = "delete words of messages";
    let indexed = indexed_through(connection)?;
    let (before, last) = ((turn << 20) - 1, (turn << 20 | 1_048_575).min(indexed));
    let mut found = Vec::new();
    sql::each(connection, TO_INDEX, (before, last), doing, |fields| {
        let key: i64 = fields.next()?;
        found.push((key, words_of(&blobs::message_text(connection, fields)?)));
        Ok(ControlFlow::Continue(()))
    })?;
    for (key, words) in found.into_iter().filter(|(_, words)| !words.is_empty()) {
        // The index has no text: what it has to forget is passed.
        let delete =
            "INSERT INTO message_words (message_words, rowid, words) VALUES ('delete', ?1, ?2)";
        sql::exec(connection, delete, (key, words), doing)?;
    }
    Ok(())
}

/// Lowers the progress to the last message there is: the number of a deleted turn may be given again.
pub(crate) fn lower(connection: &Connection) -> Stored<()> {
    let last = number(connection, LAST)?;
    if indexed_through(connection)? <= last {
        return Ok(());
    }
    sql::exec(connection, &PROGRESS, (last,), "lower the progress of the index").map(drop)
}

/// Receives whether more messages remain than [`WAITING`]; called in the writer's thread.
type Then = Box<dyn FnOnce(bool) + Send>;

/// A slice as a job of the writer, which does not wait for the disk: slices that a power cut undoes are indexed again.
struct Slice {
    more: bool,
    then: Then,
}

impl Slice {
    fn new(then: impl FnOnce(bool) + Send + 'static) -> Box<Self> {
        Box::new(Self { more: false, then: Box::new(then) })
    }
}

impl Job for Slice {
    fn run(&mut self, connection: &Connection) -> bool {
        match slice(connection) {
            Ok(more) => {
                self.more = more;
                true
            }
            // Nothing is lost: a search reads the unindexed messages, and the next turns request a slice again.
            Err(_) => {
                self.more = false;
                false
            }
        }
    }

    fn waits_for_disk(&self) -> bool {
        false
    }

    fn answer(self: Box<Self>, failure: Option<&StorageError>) {
        (self.then)(self.more && failure.is_none());
    }
}

/// Submits a slice. `then` receives whether more messages remain: the next slice follows after a pause, so that the writer
/// has time for turns.
pub(crate) fn begin(writer: &Writer, then: impl FnOnce(bool) + Send + 'static) {
    writer.post(Slice::new(then));
}

/// Indexes all but the last few messages. If that fails (a full disk, another process that writes), the search reads more
/// messages.
pub(crate) async fn catch_up(readers: &Arc<Readers>, writer: &Writer) -> Stored<()> {
    let last = readers.run(|connection| number(connection, LAST)).await?;
    let waits = move |connection: &mut Connection| {
        Ok(indexed_through(connection)? < last && waiting(connection)? > WAITING)
    };
    // Each slice indexes at least one message, and it ends at the last one of now, even if messages are added meanwhile.
    while readers.run(waits).await? {
        let (done, more) = oneshot::channel();
        // A dropped search has closed the channel.
        begin(writer, move |waits| {
            let _ = done.send(waits);
        });
        if !more.await.unwrap_or(false) {
            break;
        }
    }
    Ok(())
}
