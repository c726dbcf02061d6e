//! The chain of hashes of a session's last call, and the breaks of prompt caches, written by the statement of W4.
//!
//! A part of the links that is there already is not written again. All of this is for diagnosis: it must never decide what a
//! history is, and an unreadable chain is treated as a missing one.

use std::sync::Arc;

use tokio_postgres::types::Type;

use crate::connect::error::{Stored, damaged};
use crate::connect::server::{Param, Server};
use crate::rows::turn_read::get;
use model::{CacheChain, CacheStep};

/// Links of a row of `cache_links`.
const PART: usize = 128;

/// What is known of a call besides its links.
type State = (u64, u64, u64, u64, [u64; 2], Vec<(String, u64)>, [u64; 3], bool);

/// What a turn writes of the cache.
pub(crate) struct Written {
    chain: Option<Chain>,
    /// A JSON array; `None` for none.
    breaks: Option<String>,
}

struct Chain {
    called_at: i64,
    messages: i32,
    comparable: i32,
    state: String,
    tail: Vec<u8>,
    numbers: Vec<i32>,
    parts: Vec<Vec<u8>>,
}

impl Written {
    pub(crate) fn of(step: &CacheStep) -> Stored<Self> {
        let chain = step.chain.as_deref().map(Chain::of).transpose()?;
        let breaks = (!step.breaks.is_empty()).then(|| json(&step.breaks)).transpose()?;
        Ok(Self { chain, breaks })
    }

    /// Whether it has a chain, and breaks.
    pub(crate) fn has(&self) -> (bool, bool) {
        (self.chain.is_some(), self.breaks.is_some())
    }

    pub(crate) fn params(&self) -> Vec<Param<'_>> {
        let mut params: Vec<Param<'_>> = Vec::new();
        if let Some(chain) = &self.chain {
            let Chain { called_at, messages, comparable, state, tail, numbers, parts } = chain;
            params.push((called_at, Type::INT8));
            params.push((messages, Type::INT4));
            params.push((comparable, Type::INT4));
            params.push((state, Type::TEXT));
            params.push((tail, Type::BYTEA));
            params.push((numbers, Type::INT4_ARRAY));
            params.push((parts, Type::BYTEA_ARRAY));
        }
        params.extend(self.breaks.iter().map(|breaks| -> Param<'_> { (breaks, Type::TEXT) }));
        params
    }
}

/// The parts of the statement of W4 that write it, with parameters from `first` on. The chain is written where the pointer moves to
/// the turn.
pub(crate) fn sql((has_chain, has_breaks): (bool, bool), mut first: usize) -> String {
    let mut text = String::new();
    if has_chain {
        let [called, messages, comparable, state, tail, numbers, parts] =
            [0, 1, 2, 3, 4, 5, 6].map(|n| format!("${}", first + n));
        text.push_str(&format!(
            ", cache_chain as (
               insert into @cache_chains (session_label, turn_id, called_at, messages, comparable, state, tail)
               select $1, $2, {called}, {messages}, {comparable}, {state}, {tail} from pointed where $2::text is not null
               on conflict (session_label) do update set (turn_id, called_at, messages, comparable, state, tail) =
                 (excluded.turn_id, excluded.called_at, excluded.messages, excluded.comparable, excluded.state, excluded.tail)),
             cache_links as (
               insert into @cache_links (session_label, part, links)
               select $1, e.part, e.links from pointed, unnest({numbers}::int[], {parts}::bytea[]) as e (part, links)
               where $2::text is not null and not exists (
                 select from @cache_links l where l.session_label = $1 and l.part = e.part and l.links = e.links)
               on conflict (session_label, part) do update set links = excluded.links),
             cache_cut as (
               delete from @cache_links l using pointed
               where $2::text is not null and l.session_label = $1 and l.part >= cardinality({numbers}::int[])
                 and exists (select from @cache_chains where session_label = $1
                   and messages >= (cardinality({numbers}::int[]) + 1) * {PART}))"
        ));
        first += 7;
    }
    if has_breaks {
        text.push_str(&format!(
            ", cache_breaks as (
               insert into @cache_breaks select $6, b.* from pointed, json_to_recordset(${first}::json) as b (
                 attempt int, cause text, part text, change text, name text, index int, \"messageId\" text, role text,
                 \"expectedTokens\" bigint, \"readTokens\" bigint, tokens bigint, cost float8, \"idleMs\" bigint))"
        ));
    }
    text
}

impl Chain {
    fn of(chain: &CacheChain) -> Stored<Self> {
        let state: State = (
            chain.who,
            chain.way,
            chain.base,
            chain.system,
            chain.settings,
            chain.tools.to_vec(),
            chain.tokens,
            chain.reported,
        );
        let (whole, tail) = chain.links.split_at(chain.links.len() / PART * PART);
        let parts: Vec<Vec<u8>> = whole.chunks(PART).map(bytes).collect();
        Ok(Self {
            called_at: chain.called_at,
            messages: i32::try_from(chain.links.len()).unwrap_or(i32::MAX),
            comparable: i32::try_from(chain.comparable).unwrap_or(i32::MAX),
            state: json(&state)?,
            tail: bytes(tail),
            numbers: (0..).take(parts.len()).collect(),
            parts,
        })
    }
}

/// The chain of a session's last call.
pub(crate) async fn read(server: &Server, label: &str) -> Stored<Option<Box<CacheChain>>> {
    // The array is read in the order of the parts; one statement has one state of both tables.
    let text = "select turn_id, called_at, messages, comparable, state, array(
           select links from @cache_links where session_label = $1 order by part) || tail as links
         from @cache_chains where session_label = $1";
    let of: [Param<'_>; 1] = [(&label, Type::TEXT)];
    let row = server.row("read what is known of the prompt cache", text, &of).await?;
    let Some(row) = row else { return Ok(None) };
    let Ok(state) = serde_json::from_str::<State>(get(&row, "state")?) else { return Ok(None) };
    let (who, way, base, system, settings, tools, tokens, reported) = state;
    let links: Vec<&[u8]> = get(&row, "links")?;
    let links: Vec<u64> = links.into_iter().flat_map(links_of).collect();
    // A chain with missing links would show a break that never happened.
    let is_whole = i32::try_from(links.len()) == Ok(get(&row, "messages")?);
    let chain = CacheChain {
        turn_id: get(&row, "turn_id")?,
        who,
        way,
        base,
        called_at: get(&row, "called_at")?,
        system,
        settings,
        tools: Arc::from(tools),
        links,
        comparable: usize::try_from(get::<i32>(&row, "comparable")?).unwrap_or_default(),
        tokens,
        reported,
    };
    Ok(is_whole.then(|| Box::new(chain)))
}

fn json(value: &impl serde::Serialize) -> Stored<String> {
    serde_json::to_string(value).map_err(|_| damaged("a value has no JSON"))
}

fn bytes(links: &[u64]) -> Vec<u8> {
    links.iter().flat_map(|link| link.to_le_bytes()).collect()
}

fn links_of(bytes: &[u8]) -> Vec<u64> {
    let (links, _) = bytes.as_chunks::<8>();
    links.iter().map(|link| u64::from_le_bytes(*link)).collect()
}
