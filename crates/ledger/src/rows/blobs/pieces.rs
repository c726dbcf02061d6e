//! Large values out of a row's columns, and back into them.
//!
//! A text is cut where its parts begin and end: at text blocks, at the strings of a JSON. Put together again, the columns
//! must have the same bytes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use memchr::{memchr, memchr2};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::store::{LARGE, store};
use crate::sqlite::error::{Stored, damaged};

/// A text that was taken out of a column.
#[derive(Serialize, Deserialize)]
struct Piece {
    /// Its position in the rest of the column, in bytes.
    at: usize,
    form: Form,
    hash: String,
}

/// How a blob's text is written in its column.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Form {
    Text,
    /// As the inside of a JSON string.
    Json,
}

/// By column.
type Pieces = BTreeMap<Cow<'static, str>, Vec<Piece>>;

/// The value of a column before it is written.
pub(crate) struct Value<'a> {
    pub(crate) column: &'static str,
    pub(crate) text: Option<&'a str>,
    pub(crate) kind: Kind,
}

/// Where a text may be cut.
pub(crate) enum Kind {
    /// Between parts of these lengths; nowhere without any.
    Texts(Vec<usize>),
    /// Around its strings.
    Json,
}

/// The rest of each column, and the `blobs_json` of what was taken out.
pub(crate) type Apart<'a, const N: usize> = ([Option<Cow<'a, str>>; N], Option<String>);

/// The hashes that a `blobs_json` names; none of one that cannot be read.
pub(crate) fn named(names: &str) -> Vec<String> {
    let pieces: Pieces = serde_json::from_str(names).unwrap_or_default();
    pieces.into_values().flatten().map(|piece| piece.hash).collect()
}

/// Stores the large values of these columns as blobs.
pub(crate) fn take_apart<'a, const N: usize>(
    connection: &Connection,
    values: [Value<'a>; N],
) -> Stored<Apart<'a, N>> {
    let mut left = [const { None }; N];
    let mut names = Pieces::new();
    for (left, value) in left.iter_mut().zip(values) {
        let Some(text) = value.text else { continue };
        if text.len() <= LARGE {
            *left = Some(Cow::Borrowed(text));
            continue;
        }
        let (rest, pieces) = cut(connection, text, &value.kind)?;
        *left = Some(Cow::Owned(rest));
        names.insert(Cow::Borrowed(value.column), pieces);
    }
    if names.is_empty() {
        return Ok((left, None));
    }
    let names =
        serde_json::to_string(&names).map_err(|_| damaged("the names of blobs have no JSON"))?;
    Ok((left, Some(names)))
}

fn cut(connection: &Connection, text: &str, kind: &Kind) -> Stored<(String, Vec<Piece>)> {
    let mut ranges = match kind {
        Kind::Texts(lengths) => parts(lengths),
        Kind::Json => strings(text),
    };
    ranges.retain(|range| range.len() > LARGE && text.get(range.clone()).is_some());
    let taken: usize = ranges.iter().map(ExactSizeIterator::len).sum();
    let mut strings = matches!(kind, Kind::Json);
    if text.len().saturating_sub(taken) > LARGE {
        // Many small parts: together they are one value.
        ranges.clear();
        ranges.push(0..text.len());
        strings = false;
    }
    let (mut rest, mut from) = (String::new(), 0);
    let mut pieces = Vec::with_capacity(ranges.len());
    for range in ranges {
        rest.push_str(text.get(from..range.start).unwrap_or_default());
        from = range.end;
        let part = text.get(range).unwrap_or_default();
        let (form, value) = if strings { inside(part) } else { (Form::Text, Cow::Borrowed(part)) };
        pieces.push(Piece { at: rest.len(), form, hash: store(connection, &value)? });
    }
    rest.push_str(text.get(from..).unwrap_or_default());
    Ok((rest, pieces))
}

fn parts(lengths: &[usize]) -> Vec<Range<usize>> {
    let mut from = 0;
    let range = |length: &usize| {
        let start = from;
        from += length;
        start..from
    };
    lengths.iter().map(range).collect()
}

/// The insides of the strings of a JSON.
fn strings(json: &str) -> Vec<Range<usize>> {
    let bytes = json.as_bytes();
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(open) = bytes.get(at..).and_then(|rest| memchr(b'"', rest)) {
        let start = at + open + 1;
        let mut end = start;
        loop {
            let Some(next) = bytes.get(end..).and_then(|rest| memchr2(b'"', b'\\', rest)) else {
                return found;
            };
            end += next;
            if bytes.get(end) == Some(&b'"') {
                break;
            }
            // An escaped quote does not end the string.
            end += 2;
        }
        found.push(start..end);
        at = end + 1;
    }
    found
}

/// The value of a string, where JSON of the value is the same bytes again; else the bytes as they are.
fn inside(string: &str) -> (Form, Cow<'_, str>) {
    if !string.contains('\\') {
        return (Form::Text, Cow::Borrowed(string));
    }
    let quoted = format!("\"{string}\"");
    match serde_json::from_str::<String>(&quoted) {
        Ok(value) if serde_json::to_string(&value).is_ok_and(|again| again == quoted) => {
            (Form::Json, Cow::Owned(value))
        }
        Ok(_) | Err(_) => (Form::Text, Cow::Borrowed(string)),
    }
}

/// The columns as they were before they were taken apart. `read` returns a blob's text.
///
/// # Errors
/// `ledger_corrupt` where the names and the columns of `of` do not fit together; those of `read`.
pub(crate) fn put_together<'a, const N: usize>(
    names: &str,
    values: [(&str, Option<&'a str>); N],
    of: &str,
    read: &mut dyn FnMut(&str) -> Stored<String>,
) -> Stored<[Option<Cow<'a, str>>; N]> {
    let torn = || damaged(&format!("the `blobs_json` of {of} cannot be read"));
    let names: Pieces = serde_json::from_str(names).map_err(|_| torn())?;
    let mut whole = [const { None }; N];
    for (whole, (column, text)) in whole.iter_mut().zip(values) {
        *whole = match (text, names.get(column)) {
            (None, None) => None,
            (Some(text), None) => Some(Cow::Borrowed(text)),
            (None, Some(_)) => return Err(torn()),
            (Some(text), Some(pieces)) => {
                let mut joined = String::new();
                let mut from = 0;
                for piece in pieces {
                    joined.push_str(text.get(from..piece.at).ok_or_else(torn)?);
                    from = piece.at;
                    let value = read(&piece.hash)?;
                    match piece.form {
                        Form::Text => joined.push_str(&value),
                        Form::Json => {
                            let quoted = serde_json::to_string(&value).map_err(|_| torn())?;
                            joined.push_str(quoted.get(1..quoted.len() - 1).ok_or_else(torn)?);
                        }
                    }
                }
                joined.push_str(text.get(from..).ok_or_else(torn)?);
                Some(Cow::Owned(joined))
            }
        };
    }
    Ok(whole)
}
