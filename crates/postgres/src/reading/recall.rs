//! A search by words in the part of a thread that its context no longer contains: the messages of the turns before the first
//! retained turn of the last compaction.
//!
//! It must never search outside the thread: turns of another session or of a sibling branch are not its ancestors.

use std::collections::HashMap;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::{Param, Server};
use crate::journal::history;
use crate::reading::search;
use crate::rows::turn_read::{get, message};
use base::words::{self, search_words};
use model::{Recall, Recalled, Role};
use portable::recalled::{MOST_BYTES, MOST_TERMS, MOST_TURNS, result_words, shown, size};

/// Turns whose messages are read by one statement.
const TURNS: usize = 64;

/// A message that was found.
struct Found {
    /// The position of its turn in the thread, the newest first.
    turn: usize,
    sequence: i32,
    /// How many of the words it contains.
    matched: usize,
    id: String,
}

/// Finds the messages that contain all words of the query or, if there are none, those that contain some.
pub(crate) async fn recall(server: &Server, request: &Recall) -> Stored<Recalled> {
    let head = history::head(server, &request.session_label).await?.flatten();
    let Some(head) = head.or_else(|| request.parent_turn_id.clone()) else {
        return Ok(Recalled::default());
    };
    let Some(newest) = history::newest_left_out(server, &head).await? else {
        return Ok(Recalled::default());
    };
    let mut recalled = Recalled { compacted: true, ..Recalled::default() };
    let Some(mut wanted) = words::wanted(&request.query) else { return Ok(recalled) };
    wanted.truncate(MOST_TERMS);
    // What was not in the index before is read then, or is there.
    search::index(server).await?;
    let thread = thread(server, &newest).await?;
    let mut found = Vec::new();
    let mut remaining = MOST_BYTES;
    let (newest, older) = thread.split_at(MOST_TURNS.min(thread.len()));
    let parts = newest.chunks(TURNS).map(|turns| (turns, true));
    let mut first = 0;
    for (turns, results) in parts.chain((!older.is_empty()).then_some((older, false))) {
        for row in &messages(server, turns, results && remaining > 0).await? {
            let message = message(row)?;
            remaining = remaining.saturating_sub(size(&message.blocks));
            let words = match message.role {
                Role::Tool => result_words(&message).unwrap_or_default(),
                Role::User | Role::Assistant | Role::System => search_words(&message.content()),
            };
            let matched = wanted.matched(&words);
            if matched > 0 {
                found.push(place(row, turns, first, matched)?);
            }
        }
        first += turns.len();
    }
    recalled.partial = !older.is_empty() || remaining == 0;
    let all = wanted.count();
    found.extend(indexed(server, &thread, wanted.tsqueries(), request.limit).await?);
    let most = found.iter().map(|it| it.matched).max();
    recalled.loosely = most.is_none_or(|most| most < all);
    found.retain(|it| recalled.loosely || it.matched == all);
    found.sort_unstable_by_key(|it| (usize::MAX - it.matched, it.turn, i32::MAX - it.sequence));
    found.truncate(request.limit);
    let ids: Vec<&str> = found.iter().map(|it| it.id.as_str()).collect();
    let text = "select turn_id, id, body, checksum from @messages where turn_id = any($1) and id = any($2)";
    let turns: Vec<&String> = found.iter().filter_map(|it| thread.get(it.turn)).collect();
    let params: [Param<'_>; 2] = [(&turns, Type::TEXT_ARRAY), (&ids, Type::TEXT_ARRAY)];
    let mut messages = HashMap::new();
    for row in &server.rows("read what was found", text, &params).await? {
        messages.insert((get::<String>(row, "turn_id")?, get::<String>(row, "id")?), message(row)?);
    }
    for it in &found {
        let Some(turn) = thread.get(it.turn) else { continue };
        let message = messages.get(&(turn.clone(), it.id.clone()));
        recalled.messages.extend(message.map(|found| shown(found, turn, &request.query)));
    }
    Ok(recalled)
}

/// The turn and its ancestors without compactions, newest first.
async fn thread(server: &Server, newest: &str) -> Stored<Vec<String>> {
    let text = "with recursive thread as (
           select id, parent_turn_id, turn_type, 1 as i from @turns where id = $1
           union all
           select t.id, t.parent_turn_id, t.turn_type, i + 1 from thread c join @turns t on t.id = c.parent_turn_id)
         select id from thread where turn_type = 'normal' order by i";
    let rows = server.rows("read the thread of a turn", text, &[(&newest, Type::TEXT)]).await?;
    rows.iter().map(|row| get(row, "id")).collect()
}

/// The messages of turns that no index has: those of turns that are not in it yet and, with `results`, tool results.
async fn messages(server: &Server, turns: &[String], results: bool) -> Stored<Vec<Row>> {
    let text = "select m.turn_id, m.id, m.sequence, m.body, m.checksum from @turns t join @messages m on m.turn_id = t.id
         where t.id = any($1) and case m.role when 'tool' then $2 else not t.indexed end";
    let params: [Param<'_>; 2] = [(&turns, Type::TEXT_ARRAY), (&results, Type::BOOL)];
    server.rows("search the messages of a thread", text, &params).await
}

/// The messages of the thread that the index has, those with the most words and the newest first.
async fn indexed(
    server: &Server,
    thread: &[String],
    wanted: Vec<String>,
    limit: usize,
) -> Stored<Vec<Found>> {
    let text = "select w.turn_id, w.message_id as id, m.sequence,
           (select count(*) from unnest($2::text[]) q where w.words @@ q::tsquery) as matched
         from @message_words w join @messages m on m.turn_id = w.turn_id and m.id = w.message_id
           join unnest($1::text[]) with ordinality as t (id, at) on t.id = w.turn_id
         where w.words @@ array_to_string($2, ' | ')::tsquery
         order by matched desc, t.at, m.sequence desc limit $3";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let params: [Param<'_>; 3] =
        [(&thread, Type::TEXT_ARRAY), (&wanted, Type::TEXT_ARRAY), (&limit, Type::INT8)];
    let rows = server.rows("search a thread", text, &params).await?;
    let found = |row| {
        let matched = usize::try_from(get::<i64>(row, "matched")?).unwrap_or_default();
        place(row, thread, 0, matched)
    };
    rows.iter().map(found).collect()
}

/// Where a found message is in the thread, of which `turns` begin at `first`.
fn place(row: &Row, turns: &[String], first: usize, matched: usize) -> Stored<Found> {
    let turn: &str = get(row, "turn_id")?;
    let at = turns.iter().position(|it| it == turn).unwrap_or_default();
    let (sequence, id) = (get(row, "sequence")?, get(row, "id")?);
    Ok(Found { turn: first + at, sequence, matched, id })
}
