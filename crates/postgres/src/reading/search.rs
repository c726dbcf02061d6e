//! The search for messages by their words, and the index of these, which is behind the turns: a search catches up first.
//!
//! Tool results and reasoning are not searched. It must never show a turn that still runs.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};
use crate::rows::turn_read::{get, message};
use base::words::{self, excerpt, search_words};
use model::{AgentMessage, Page, SearchHit, SearchOptions};

/// Turns of one step of the index.
const TURNS: i64 = 64;
/// Characters of a message around the words that were found.
const EXCERPT: usize = 160;
/// PostgreSQL's limits of a word, and of the words of a message together.
const WORD_BYTES: usize = 2_000;
const WORDS_BYTES: usize = 900_000;

/// The messages that contain every word of `text`, newest first. Without words it finds none.
pub(crate) async fn search(
    server: &Server,
    text: &str,
    options: &SearchOptions,
) -> Stored<Page<SearchHit, i64>> {
    let Some(wanted) = words::wanted(text) else { return Ok(Page::empty()) };
    index(server).await?;
    let select = "select w.id as number, w.turn_id, w.session_label, m.id, m.body, m.checksum
        from @message_words w join @messages m on m.turn_id = w.turn_id and m.id = w.message_id
        where w.words @@ $1::text::tsquery and w.id < $2 and ($3::text is null or w.session_label = $3)
        order by w.id desc limit $4";
    let query = wanted.tsquery();
    let (before, limit) = (options.after.unwrap_or(i64::MAX), options.limit.and_one());
    let params: [Param<'_>; 4] = [
        (&query, Type::TEXT),
        (&before, Type::INT8),
        (&options.session_label, Type::TEXT),
        (&limit, Type::INT8),
    ];
    let rows = server.rows("search the ledger", select, &params).await?;
    let found = rows.iter().map(|row| {
        let message = AgentMessage::from(message(row)?);
        let hit = SearchHit {
            message_id: message.id,
            turn_id: get(row, "turn_id")?,
            session_label: get(row, "session_label")?,
            role: message.role.as_str().to_owned(),
            created_at: message.created_at,
            excerpt: excerpt(&message.content, text, EXCERPT),
        };
        Ok((get(row, "number")?, hit))
    });
    Ok(Page::cut(found.collect::<Stored<_>>()?, options.limit))
}

/// Indexes the turns that are not yet, oldest first.
pub(crate) async fn index(server: &Server) -> Stored<()> {
    let step = async |client: &mut Client, _: bool| step(server, client).await;
    while server.run("index messages", step).await? {}
    Ok(())
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
    let texts = server.sql(
        "select m.turn_id, m.id, m.body, m.checksum from @messages m join @turns t on t.id = m.turn_id
         where t.id = any($1) and t.turn_type = 'normal' and m.role in ('user', 'assistant', 'system')
         order by t.n, m.sequence",
    );
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
