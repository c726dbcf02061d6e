//! The search for messages by their words, and the index of these, which is behind the turns: it follows them a few at a time, and a
//! search catches up first, if its role may write.
//!
//! Tool results and reasoning are not searched. It must never show a turn that still runs.

use std::rc::Rc;

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};
use crate::rows::turn_read::{get, message};
use base::words::{self, excerpt, search_words};
use model::{AgentMessage, Page, SearchHit, SearchOptions, StorageErrorKind};

/// Turns of one step of the index.
const TURNS: i64 = 64;
/// Ended turns of this process between two times at which some are indexed, and the most steps of one.
const ENDED: u32 = 64;
const STEPS: usize = 4;
/// Characters of a message around the words that were found.
const EXCERPT: usize = 160;
/// PostgreSQL's limits of a word, and of the words of a message together.
const WORD_BYTES: usize = 2_000;
const WORDS_BYTES: usize = 900_000;

/// The messages that contain every word of `text`, newest first. Without words it finds none. A role that only reads does not write the
/// index: what is not in it yet is read for each search.
pub(crate) async fn search(
    server: &Server,
    text: &str,
    options: &SearchOptions,
) -> Stored<Page<SearchHit, i64>> {
    let Some(wanted) = words::wanted(text) else { return Ok(Page::empty()) };
    let query = wanted.tsquery();
    let most = options.limit.items() + 1;
    let hit = |row: &Row| -> Stored<SearchHit> {
        let message = AgentMessage::from(message(row)?);
        Ok(SearchHit {
            message_id: message.id,
            turn_id: get(row, "turn_id")?,
            session_label: get(row, "session_label")?,
            role: message.role.as_str().to_owned(),
            created_at: message.created_at,
            excerpt: excerpt(&message.content, text, EXCERPT),
        })
    };
    let mut found = Vec::new();
    match index(server).await {
        Err(error) if error.kind == StorageErrorKind::ReadOnly => {
            for (number, row) in unindexed(server, &query, options, most).await? {
                found.push((number, hit(&row)?));
            }
        }
        indexed => indexed?,
    }
    let select = "select w.id as number, w.turn_id, w.session_label, m.id, m.body, m.checksum
        from @message_words w join @messages m on m.turn_id = w.turn_id and m.id = w.message_id
        where w.words @@ $1::text::tsquery and w.id < $2 and ($3::text is null or w.session_label = $3)
        order by w.id desc limit $4";
    let (before, limit) = (options.after.unwrap_or(i64::MAX), options.limit.and_one());
    let params: [Param<'_>; 4] = [
        (&query, Type::TEXT),
        (&before, Type::INT8),
        (&options.session_label, Type::TEXT),
        (&limit, Type::INT8),
    ];
    if found.len() < most {
        for row in &server.rows("search the ledger", select, &params).await? {
            found.push((get(row, "number")?, hit(row)?));
        }
    }
    Ok(Page::cut(found, options.limit))
}

/// The position of a message without a row in the index, after all of those that have one: JavaScript represents it exactly.
fn unindexed_position(turn: i64, sequence: i32) -> i64 {
    const FIRST: i64 = 1 << 52;
    FIRST + (turn << 12) + i64::from(sequence.clamp(0, 4_095))
}

/// The newest messages of turns that are not in the index and fit, with their positions.
async fn unindexed(
    server: &Server,
    query: &str,
    options: &SearchOptions,
    most: usize,
) -> Stored<Vec<(i64, Row)>> {
    let doing = "search what is not in the index";
    let after = options.after.unwrap_or(i64::MAX);
    let (mut found, mut before) = (Vec::new(), i64::MAX);
    while found.len() < most {
        let turns = "select id, n from @turns where not indexed and n is not null and n < $1
            and ($2::text is null or session_label = $2) order by n desc limit $3";
        let params: [Param<'_>; 3] =
            [(&before, Type::INT8), (&options.session_label, Type::TEXT), (&TURNS, Type::INT8)];
        let turns = server.rows(doing, turns, &params).await?;
        let Some(oldest) = turns.last() else { break };
        before = get(oldest, "n")?;
        let ids: Vec<&str> = turns.iter().map(|row| get(row, "id")).collect::<Stored<_>>()?;
        let messages = format!(
            "select t.n, m.sequence, t.session_label, {TEXTS} order by t.n desc, m.sequence desc"
        );
        let rows = server.rows(doing, &messages, &[(&ids, Type::TEXT_ARRAY)]).await?;
        // As in the index: a damaged message is found by no word.
        let texts =
            rows.iter().map(|row| message(row).map(|it| lexemes(&search_words(&it.content()))));
        let texts: Vec<String> = texts.map(Result::unwrap_or_default).collect();
        let fits = "select e.at - 1 as at from unnest($1::text[]) with ordinality as e (words, at)
            where e.words <> '' and array_to_tsvector(string_to_array(e.words, ' ')) @@ $2::text::tsquery order by e.at";
        let params: [Param<'_>; 2] = [(&texts, Type::TEXT_ARRAY), (&query, Type::TEXT)];
        let fits = server.rows(doing, fits, &params).await?;
        let fits: Vec<i64> = fits.iter().map(|row| get(row, "at")).collect::<Stored<_>>()?;
        for (at, row) in (0_i64..).zip(rows) {
            let position = unindexed_position(get(&row, "n")?, get(&row, "sequence")?);
            if position < after && fits.binary_search(&at).is_ok() {
                found.push((position, row));
            }
        }
    }
    Ok(found)
}

/// The messages of the turns `$1` that are searched.
const TEXTS: &str =
    "m.turn_id, m.id, m.body, m.checksum from @messages m join @turns t on t.id = m.turn_id
     where t.id = any($1) and t.turn_type = 'normal' and m.role in ('user', 'assistant', 'system')";

/// Indexes the turns that are not yet, oldest first.
pub(crate) async fn index(server: &Server) -> Stored<()> {
    index_steps(server, usize::MAX).await
}

async fn index_steps(server: &Server, most: usize) -> Stored<()> {
    let step = async |client: &mut Client, _: bool| step(server, client).await;
    for _ in 0..most {
        if !server.run("index messages", step).await? {
            break;
        }
    }
    Ok(())
}

impl Server {
    /// Counts an ended turn, and indexes a few after a number of them: without this, the first search would read all turns.
    pub(crate) fn index_sometimes(self: &Rc<Self>) {
        let ended = self.unindexed.get() + 1;
        self.unindexed.set(ended % ENDED);
        if ended >= ENDED {
            let server = Rc::clone(self);
            tokio::task::spawn_local(async move {
                if let Some(_alone) = server.indexes.alone() {
                    // The next turns try again, and a search reports why it fails.
                    drop(index_steps(&server, STEPS).await);
                }
            });
        }
    }
}

/// Indexes a few turns; true where there are more.
async fn step(server: &Server, client: &mut Client) -> Result<bool, Failure> {
    let transaction = client.transaction().await?;
    // Another process may index others meanwhile; those that are locked are indexed by it.
    let due = server.sql(
        "select id from @turns where not indexed and n is not null order by n limit $1 for update skip locked",
    );
    let rows = transaction.query_typed(&due, &[(&TURNS, Type::INT8)]).await?;
    let mut turns = Vec::new();
    for row in &rows {
        turns.push(get::<String>(row, "id")?);
    }
    if turns.is_empty() {
        return Ok(false);
    }
    let of: [Param<'_>; 1] = [(&turns, Type::TEXT_ARRAY)];
    let texts = server.sql(&format!("select {TEXTS} order by t.n, m.sequence"));
    let (mut ids, mut messages, mut words) = (Vec::new(), Vec::new(), Vec::new());
    for row in &transaction.query_typed(&texts, &of).await? {
        // A damaged message is found by no word; reading it reports that.
        let Ok(message) = message(row) else { continue };
        let found = lexemes(&search_words(&message.content()));
        if !found.is_empty() {
            ids.push(get::<String>(row, "turn_id")?);
            messages.push(message.id);
            words.push(found);
        }
    }
    let add = server.sql(
        "insert into @message_words (turn_id, message_id, session_label, words)
         select e.turn_id, e.id, t.session_label, array_to_tsvector(string_to_array(e.words, ' '))
         from unnest($1::text[], $2::text[], $3::text[]) with ordinality as e (turn_id, id, words, at)
         join @turns t on t.id = e.turn_id order by e.at",
    );
    let params: [Param<'_>; 3] =
        [(&ids, Type::TEXT_ARRAY), (&messages, Type::TEXT_ARRAY), (&words, Type::TEXT_ARRAY)];
    transaction.execute_typed(&add, &params).await?;
    let done = server.sql("update @turns set indexed = true where id = any($1)");
    transaction.execute_typed(&done, &of).await?;
    transaction.commit().await?;
    Ok(true)
}

/// The beginning of a word, of at most so many bytes.
fn beginning(word: &str, bytes: usize) -> &str {
    let end = word.char_indices().map(|(at, character)| at + character.len_utf8());
    let end = end.take_while(|end| *end <= bytes).last().unwrap_or_default();
    word.get(..end).unwrap_or(word)
}

/// The words of a text, each once, with one space between them.
fn lexemes(words: &str) -> String {
    let mut seen = std::collections::HashSet::new();
    let mut found = String::new();
    for word in words.split_ascii_whitespace() {
        let word = beginning(word, WORD_BYTES);
        if found.len() + word.len() > WORDS_BYTES {
            break;
        }
        if seen.insert(word) {
            if !found.is_empty() {
                found.push(' ');
            }
            found.push_str(word);
        }
    }
    found
}
