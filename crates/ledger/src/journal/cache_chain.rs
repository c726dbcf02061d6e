//! The chain of hashes of a session's last call, and the breaks of prompt caches.
//!
//! A turn writes only the links that the previous chain lacks. All of this is for diagnosis: it must never decide what a
//! history is, and an unreadable chain is treated as a missing one.

use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

use rusqlite::Connection;
use serde::Serialize;

use crate::journal::write::{count, json};
use crate::sqlite::checksum::replace_all;
use crate::sqlite::columns::{columns, list};
use crate::sqlite::error::Stored;
use crate::sqlite::sql;
use model::{CacheBreak, CacheChain, CacheStep};

/// Links of a row of `cache_links`.
const PART: usize = 128;

/// A row of `cache_chains`. Hashes are stored as signed integers of the same bits.
struct ChainColumns<'r> {
    session_label: &'r str,
    turn_id: &'r str,
    who: i64,
    way: i64,
    base: i64,
    called_at: i64,
    system_hash: i64,
    thinking_hash: i64,
    choice_hash: i64,
    tools_json: &'r str,
    messages: i64,
    comparable: i64,
    input_tokens: u64,
    read_tokens: u64,
    write_tokens: u64,
    /// Whether the provider reported the tokens that it read from its cache.
    told: bool,
    /// The links after the last full part.
    tail: &'r [u8],
}

columns!(for<'r> ChainColumns<'r> {
    session_label,
    turn_id,
    who,
    way,
    base,
    called_at,
    system_hash,
    thinking_hash,
    choice_hash,
    tools_json,
    messages,
    comparable,
    input_tokens,
    read_tokens,
    write_tokens,
    told,
    tail,
});

/// A row of `cache_links`.
struct LinkColumns<'r> {
    session_label: &'r str,
    part: i64,
    links: &'r [u8],
}

columns!(for<'r> LinkColumns<'r> { session_label, part, links });

/// A row of `cache_breaks`.
struct BreakColumns<'r> {
    turn_id: &'r str,
    attempt: u32,
    cause: &'r str,
    part: Option<&'r str>,
    change: Option<&'r str>,
    name: Option<&'r str>,
    position: Option<u32>,
    message_id: Option<&'r str>,
    role: Option<&'r str>,
    expected_tokens: u64,
    read_tokens: u64,
    tokens: u64,
    cost: Option<f64>,
    idle_ms: u64,
}

columns!(for<'r> BreakColumns<'r> {
    turn_id,
    attempt,
    cause,
    part,
    change,
    name,
    position,
    message_id,
    role,
    expected_tokens,
    read_tokens,
    tokens,
    cost,
    idle_ms,
});

static STORE_LINKS: LazyLock<String> =
    LazyLock::new(|| replace_all::<LinkColumns<'_>>("cache_links"));
static STORE_CHAIN: LazyLock<String> =
    LazyLock::new(|| replace_all::<ChainColumns<'_>>("cache_chains"));
static STORE_BREAK: LazyLock<String> =
    LazyLock::new(|| replace_all::<BreakColumns<'_>>("cache_breaks"));
static CHAIN: LazyLock<String> = LazyLock::new(|| {
    let columns = list::<ChainColumns<'_>>();
    format!("SELECT {columns} FROM cache_chains WHERE session_label = ?1")
});
const LINKS: &str = "SELECT links FROM cache_links WHERE session_label = ?1 ORDER BY part";

const WRITING: &str = "write what is known of the prompt cache";
const READING: &str = "read what is known of the prompt cache";

/// Writes the breaks of a turn, and its chain where the session points `at_turn`.
pub(crate) fn write(
    connection: &Connection,
    label: &str,
    turn_id: &str,
    step: &CacheStep,
    at_turn: bool,
) -> Stored<()> {
    step.breaks.iter().try_for_each(|broken| write_break(connection, turn_id, broken))?;
    match &step.chain {
        Some(chain) if at_turn => write_chain(connection, label, chain, step.known.as_ref()),
        Some(_) | None => Ok(()),
    }
}

fn write_chain(
    connection: &Connection,
    label: &str,
    chain: &CacheChain,
    known: Option<&(String, usize)>,
) -> Stored<()> {
    let select = "SELECT turn_id, messages FROM cache_chains WHERE session_label = ?1";
    let before: Option<(String, i64)> = sql::optional(connection, select, (label,), WRITING)?;
    let (writer, messages) = before.unzip();
    // The number of common links is known only for the chain of this turn.
    let same = known.filter(|(turn, _)| writer.as_ref() == Some(turn)).map_or(0, |(_, same)| *same);
    let (whole, tail) = chain.links.split_at(chain.links.len() / PART * PART);
    for (part, links) in whole.chunks(PART).enumerate().skip(same / PART) {
        let row = LinkColumns { session_label: label, part: count(part), links: &bytes(links) };
        sql::insert(connection, &STORE_LINKS, &row, WRITING)?;
    }
    let parts = count(whole.len() / PART);
    if messages.is_some_and(|before| before / count(PART) > parts) {
        let delete = "DELETE FROM cache_links WHERE session_label = ?1 AND part >= ?2";
        sql::exec(connection, delete, (label, parts), WRITING)?;
    }
    let [input_tokens, read_tokens, write_tokens] = chain.tokens;
    let [thinking_hash, choice_hash] = chain.settings.map(u64::cast_signed);
    let tools: Vec<(&str, i64)> =
        chain.tools.iter().map(|(name, hash)| (name.as_str(), hash.cast_signed())).collect();
    let row = ChainColumns {
        session_label: label,
        turn_id: &chain.turn_id,
        who: chain.who.cast_signed(),
        way: chain.way.cast_signed(),
        base: chain.base.cast_signed(),
        called_at: chain.called_at,
        system_hash: chain.system.cast_signed(),
        thinking_hash,
        choice_hash,
        tools_json: &json(&tools),
        messages: count(chain.links.len()),
        comparable: count(chain.comparable),
        input_tokens,
        read_tokens,
        write_tokens,
        told: chain.reported,
        tail: &bytes(tail),
    };
    sql::insert(connection, &STORE_CHAIN, &row, WRITING)
}

fn write_break(connection: &Connection, turn_id: &str, broken: &CacheBreak) -> Stored<()> {
    let (part, change) = (broken.part.map(|it| word(&it)), broken.change.map(|it| word(&it)));
    let row = BreakColumns {
        turn_id,
        attempt: broken.attempt,
        cause: &word(&broken.cause),
        part: part.as_deref(),
        change: change.as_deref(),
        name: broken.name.as_deref(),
        position: broken.index,
        message_id: broken.message_id.as_deref(),
        role: broken.role.map(model::Role::as_str),
        expected_tokens: broken.expected_tokens,
        read_tokens: broken.read_tokens,
        tokens: broken.tokens,
        cost: broken.cost,
        idle_ms: broken.idle_ms,
    };
    sql::insert(connection, &STORE_BREAK, &row, WRITING)
}

/// The serialized name of an enum's variant.
fn word(value: &impl Serialize) -> String {
    json(value).trim_matches('"').to_owned()
}

/// The chain of a session's last call.
pub(crate) fn read(connection: &Connection, label: &str) -> Stored<Option<Box<CacheChain>>> {
    let found = sql::first(connection, &CHAIN, (label,), READING, |fields| {
        let row: ChainColumns<'_> = fields.next()?;
        let tools: Vec<(String, i64)> = serde_json::from_str(row.tools_json).unwrap_or_default();
        let tools = tools.into_iter().map(|(name, hash)| (name, hash.cast_unsigned()));
        let chain = CacheChain {
            turn_id: row.turn_id.to_owned(),
            who: row.who.cast_unsigned(),
            way: row.way.cast_unsigned(),
            base: row.base.cast_unsigned(),
            called_at: row.called_at,
            system: row.system_hash.cast_unsigned(),
            settings: [row.thinking_hash, row.choice_hash].map(i64::cast_unsigned),
            tools: tools.collect::<Arc<[_]>>(),
            links: Vec::new(),
            comparable: usize::try_from(row.comparable).unwrap_or(0),
            tokens: [row.input_tokens, row.read_tokens, row.write_tokens],
            reported: row.told,
        };
        Ok((Box::new(chain), row.messages, links(row.tail)))
    })?;
    let Some((mut chain, messages, tail)) = found else { return Ok(None) };
    sql::each(connection, LINKS, (label,), READING, |fields| {
        chain.links.append(&mut links(fields.next()?));
        Ok(ControlFlow::Continue(()))
    })?;
    chain.links.extend(tail);
    // A chain with missing links would show a break that never happened.
    Ok((i64::try_from(chain.links.len()) == Ok(messages)).then_some(chain))
}

fn bytes(links: &[u64]) -> Vec<u8> {
    links.iter().flat_map(|link| link.to_le_bytes()).collect()
}

fn links(bytes: &[u8]) -> Vec<u64> {
    let (links, _) = bytes.as_chunks::<8>();
    links.iter().map(|link| u64::from_le_bytes(*link)).collect()
}
