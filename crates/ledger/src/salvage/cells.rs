//! The rows of a page: cells, their overflow, and the values of a record.
//!
//! No number is trusted before it is checked: a damaged page gives fewer rows, never a panic or a wrong read.

use rusqlite::types::ValueRef;

use super::pages::Pages;

/// The size of the largest row that a connection of the ledger can write.
const LONGEST: usize = 64 << 20;

/// A value of a row.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Integer(i64),
    Real(f64),
    Text(String),
    Blob(Vec<u8>),
    /// A text that is not UTF-8, which no column of a ledger contains.
    Other,
}

impl Value {
    /// The value as SQLite would return it.
    pub(super) fn lend(&self) -> ValueRef<'_> {
        match self {
            Self::Null | Self::Other => ValueRef::Null,
            Self::Integer(value) => ValueRef::Integer(*value),
            Self::Real(value) => ValueRef::Real(*value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
            Self::Blob(value) => ValueRef::Blob(value),
        }
    }
}

/// A row: its rowid if its table has one, and its values.
pub(super) type Row = (Option<i64>, Vec<Value>);

/// The content of a page.
pub(super) enum Found {
    /// The rows, and the number of further rows that the header counts.
    Rows(Vec<Row>, usize),
    /// The page has no rows: an interior page, a free page, an overflow page.
    None,
}

/// The rows of a page.
pub(super) fn rows(pages: &mut Pages, number: u32) -> std::io::Result<Found> {
    let page = pages.read(number)?;
    let start = if number == 1 { 100 } else { 0 };
    let (kind, header) = match page.get(start) {
        Some(13) => (Kind::Table, 8),
        Some(10) => (Kind::Index, 8),
        Some(2) => (Kind::IndexBranch, 12),
        _ => return Ok(Found::None),
    };
    let count = usize::from(short(&page, start + 3).unwrap_or(0));
    let (mut rows, mut lost) = (Vec::new(), 0);
    for cell in 0..count {
        let at = short(&page, start + header + 2 * cell).map(usize::from);
        let row = match at {
            Some(at) if at >= start + header => row(pages, &page, at, kind)?,
            _ => None,
        };
        match row {
            Some(row) => rows.push(row),
            None => lost += 1,
        }
    }
    Ok(Found::Rows(rows, lost))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Table,
    Index,
    IndexBranch,
}

fn row(pages: &mut Pages, page: &[u8], at: usize, kind: Kind) -> std::io::Result<Option<Row>> {
    let Some(mut bytes) = page.get(at..) else { return Ok(None) };
    if kind == Kind::IndexBranch {
        bytes = bytes.get(4..).unwrap_or_default();
    }
    let Some(length) = varint(&mut bytes).and_then(|length| usize::try_from(length).ok()) else {
        return Ok(None);
    };
    let number = if kind == Kind::Table { varint(&mut bytes) } else { None };
    if length > LONGEST {
        return Ok(None);
    }
    let usable = pages.size;
    let least = (usable - 12) * 32 / 255 - 23;
    let most = if kind == Kind::Table { usable - 35 } else { (usable - 12) * 64 / 255 - 23 };
    let here = if length <= most {
        length
    } else {
        let here = least + (length - least) % (usable - 4);
        if here <= most { here } else { least }
    };
    let Some(local) = bytes.get(..here) else { return Ok(None) };
    let mut payload = local.to_vec();
    if length > here {
        let mut next = bytes.get(here..here + 4).and_then(word).unwrap_or(0);
        while payload.len() < length {
            if next == 0 || next > pages.count {
                return Ok(None);
            }
            let overflow = pages.read(next)?;
            let more = (length - payload.len()).min(usable - 4);
            let Some(bytes) = overflow.get(4..4 + more) else { return Ok(None) };
            payload.extend_from_slice(bytes);
            next = overflow.get(..4).and_then(word).unwrap_or(0);
        }
    }
    Ok(record(&payload).map(|values| (number, values)))
}

fn record(payload: &[u8]) -> Option<Vec<Value>> {
    let mut rest = payload;
    let header = usize::try_from(varint(&mut rest)?).ok()?;
    let mut types = payload.get(payload.len() - rest.len()..header)?;
    let mut body = payload.get(header..)?;
    let mut values = Vec::new();
    while !types.is_empty() {
        let kind = varint(&mut types)?;
        let length = match kind {
            0 | 8 | 9 => 0,
            1..=4 => usize::try_from(kind).ok()?,
            5 => 6,
            6 | 7 => 8,
            12.. => usize::try_from((kind - 12) / 2).ok()?,
            _ => return None,
        };
        let (value, left) = body.split_at_checked(length)?;
        body = left;
        values.push(match kind {
            0 => Value::Null,
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            7 => Value::Real(f64::from_be_bytes(value.try_into().ok()?)),
            1..=6 => Value::Integer(integer(value)),
            _ if kind % 2 == 1 => {
                String::from_utf8(value.to_vec()).map_or(Value::Other, Value::Text)
            }
            _ => Value::Blob(value.to_vec()),
        });
    }
    Some(values)
}

/// A signed integer of one to eight bytes.
fn integer(bytes: &[u8]) -> i64 {
    let sign = if bytes.first().is_some_and(|first| first & 0x80 != 0) { -1 } else { 0 };
    bytes.iter().fold(sign, |value, byte| value << 8 | i64::from(*byte))
}

/// SQLite's variable integer: up to nine bytes, seven bits each and eight in the last.
fn varint(bytes: &mut &[u8]) -> Option<i64> {
    let mut value = 0_i64;
    for at in 0..9 {
        let byte = *bytes.get(at)?;
        if at == 8 {
            value = value << 8 | i64::from(byte);
        } else {
            value = value << 7 | i64::from(byte & 0x7f);
        }
        if byte & 0x80 == 0 || at == 8 {
            *bytes = bytes.get(at + 1..)?;
            return Some(value);
        }
    }
    None
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_be_bytes)
}

fn word(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}
