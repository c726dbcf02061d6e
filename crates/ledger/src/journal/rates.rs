//! What the processes share of the limits of rate queues: a text for each, without a checksum, because it is an estimate that the next
//! answers correct. It must never read what is in it.

use rusqlite::Connection;

use crate::sqlite::error::Stored;
use crate::sqlite::sql;

pub(crate) const STATE: &str = "SELECT state FROM rate_queues WHERE queue = ?1";
pub(crate) const STORE: &str = "INSERT INTO rate_queues (queue, state) VALUES (?1, ?2)
     ON CONFLICT (queue) DO UPDATE SET state = excluded.state";

pub(crate) fn state(connection: &Connection, queue: &str) -> Stored<Option<String>> {
    sql::optional(connection, STATE, (queue,), "read the rate limits")
}

pub(crate) fn change(
    connection: &Connection,
    queue: &str,
    now: i64,
    apply: &mut dyn FnMut(Option<&str>, i64) -> String,
) -> Stored<()> {
    let state = apply(state(connection, queue)?.as_deref(), now);
    sql::exec(connection, STORE, (queue, &state), "write the rate limits").map(drop)
}
