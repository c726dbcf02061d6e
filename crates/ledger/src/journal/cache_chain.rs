//! The chain of hashes of a session's last call, and the breaks of prompt caches.
//!
//! A turn writes what its chain has more than the one before. What stands here is for diagnosis: it must never decide what
//! a history is, and a chain that cannot be understood is none.

use std::sync::{Arc, LazyLock};

use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;

use crate::journal::write::{count, integer, json};
use crate::sqlite::checksum::{columns, numbered, replace};
use crate::sqlite::error::{Stored, sqlite};
use model::{CacheBreak, CacheChain, CacheStep};

/// Links of a part.
const PART: usize = 128;

/// As every table here is written: a whole row, under the columns that its checksum covers.
fn keep(table: &str) -> String {
    replace(table, &numbered(columns(table)))
}

static KEEP_PART: LazyLock<String> = LazyLock::new(|| keep("cache_links"));
static KEEP_CHAIN: LazyLock<String> = LazyLock::new(|| keep("cache_chains"));
static KEEP_BREAK: LazyLock<String> = LazyLock::new(|| keep("cache_breaks"));

/// Writes the breaks of a turn, and its chain where the session stands `at_turn`.
pub(crate) fn write(
    connection: &Connection,
    label: &str,
    turn_id: &str,
    step: &CacheStep,
    at_turn: bool,
) -> Stored<()> {
    let failed = |error| sqlite("write what is known of the prompt cache", &error);
    step.breaks
        .iter()
        .try_for_each(|broken| write_break(connection, turn_id, broken))
        .map_err(failed)?;
    match &step.chain {
        Some(chain) if at_turn => {
            write_chain(connection, label, chain, step.known.as_ref()).map_err(failed)
        }
        Some(_) | None => Ok(()),
    }
}

fn write_chain(
    connection: &Connection,
    label: &str,
    chain: &CacheChain,
    known: Option<&(String, usize)>,
) -> rusqlite::Result<()> {
    let before: Option<(String, i64)> = connection
        .prepare_cached("SELECT turn_id, messages FROM cache_chains WHERE session_label = ?1")?
        .query_row((label,), |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (writer, messages) = before.unzip();
    // Of another turn's chain nothing is known.
    let same = known.filter(|(turn, _)| writer.as_ref() == Some(turn)).map_or(0, |(_, same)| *same);
    let (whole, tail) = chain.links.split_at(chain.links.len() / PART * PART);
    for (part, links) in whole.chunks(PART).enumerate().skip(same / PART) {
        connection.prepare_cached(&KEEP_PART)?.execute((label, count(part), bytes(links)))?;
    }
    if messages.is_some_and(|before| before / count(PART) > count(whole.len() / PART)) {
        connection
            .prepare_cached("DELETE FROM cache_links WHERE session_label = ?1 AND part >= ?2")?
            .execute((label, count(whole.len() / PART)))?;
    }
    let [input, read, write] = chain.tokens.map(integer);
    let [thinking, choice] = chain.settings.map(u64::cast_signed);
    let tools: Vec<(&str, i64)> =
        chain.tools.iter().map(|(name, hash)| (name.as_str(), hash.cast_signed())).collect();
    connection
        .prepare_cached(&KEEP_CHAIN)?
        .execute(params![
            label,
            chain.turn_id,
            chain.who.cast_signed(),
            chain.way.cast_signed(),
            chain.base.cast_signed(),
            chain.called_at,
            chain.system.cast_signed(),
            thinking,
            choice,
            json(&tools),
            count(chain.links.len()),
            count(chain.comparable),
            input,
            read,
            write,
            chain.reported,
            bytes(tail),
        ])
        .map(drop)
}

fn write_break(
    connection: &Connection,
    turn_id: &str,
    broken: &CacheBreak,
) -> rusqlite::Result<()> {
    connection
        .prepare_cached(&KEEP_BREAK)?
        .execute(params![
            turn_id,
            broken.attempt,
            word(&broken.cause),
            broken.part.map(|part| word(&part)),
            broken.change.map(|change| word(&change)),
            broken.name,
            broken.index,
            broken.message_id,
            broken.role.map(model::Role::as_str),
            integer(broken.expected_tokens),
            integer(broken.read_tokens),
            integer(broken.tokens),
            broken.cost,
            integer(broken.idle_ms),
        ])
        .map(drop)
}

/// The word that an enum of words has on every surface.
fn word(value: &impl Serialize) -> String {
    json(value).trim_matches('"').to_owned()
}

/// The chain of a session's last call.
pub(crate) fn read(connection: &Connection, label: &str) -> Stored<Option<Box<CacheChain>>> {
    read_chain(connection, label)
        .map_err(|error| sqlite("read what is known of the prompt cache", &error))
}

fn read_chain(connection: &Connection, label: &str) -> rusqlite::Result<Option<Box<CacheChain>>> {
    let found = connection
        .prepare_cached(
            "SELECT turn_id, who, way, base, called_at, system_hash, thinking_hash, choice_hash, tools_json, messages,
               comparable, input_tokens, read_tokens, write_tokens, told, tail
             FROM cache_chains WHERE session_label = ?1",
        )?
        .query_row((label,), |row| {
            let hash = |at: usize| Ok::<_, rusqlite::Error>(row.get::<_, i64>(at)?.cast_unsigned());
            let size = |at: usize| {
                Ok::<_, rusqlite::Error>(u64::try_from(row.get::<_, i64>(at)?).unwrap_or(0))
            };
            let tools: Vec<(String, i64)> =
                serde_json::from_str(row.get_ref(8)?.as_str()?).unwrap_or_default();
            let tools = tools.into_iter().map(|(name, hash)| (name, hash.cast_unsigned()));
            let chain = CacheChain {
                turn_id: row.get(0)?,
                who: hash(1)?,
                way: hash(2)?,
                base: hash(3)?,
                called_at: row.get(4)?,
                system: hash(5)?,
                settings: [hash(6)?, hash(7)?],
                tools: tools.collect::<Arc<[_]>>(),
                links: Vec::new(),
                comparable: usize::try_from(size(10)?).unwrap_or(0),
                tokens: [size(11)?, size(12)?, size(13)?],
                reported: row.get(14)?,
            };
            Ok((Box::new(chain), size(9)?, links(row.get_ref(15)?.as_blob()?)))
        })
        .optional()?;
    let Some((mut chain, messages, tail)) = found else { return Ok(None) };
    let mut statement = connection
        .prepare_cached("SELECT links FROM cache_links WHERE session_label = ?1 ORDER BY part")?;
    let mut rows = statement.query((label,))?;
    while let Some(row) = rows.next()? {
        chain.links.append(&mut links(row.get_ref(0)?.as_blob()?));
    }
    chain.links.extend(tail);
    // A chain that is not whole would accuse somebody of what nobody did.
    Ok((u64::try_from(chain.links.len()) == Ok(messages)).then_some(chain))
}

fn bytes(links: &[u64]) -> Vec<u8> {
    links.iter().flat_map(|link| link.to_le_bytes()).collect()
}

fn links(bytes: &[u8]) -> Vec<u64> {
    let (links, _) = bytes.as_chunks::<8>();
    links.iter().map(|link| u64::from_le_bytes(*link)).collect()
}
