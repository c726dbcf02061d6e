//! A pi session file as a list of entries; older versions are converted to version 3.
//!
//! Parents precede their children. It must never lose an entry because of an error in another.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::report::Problems;
use model::TransferCode;

/// The newest version.
pub(super) const VERSION: u64 = 3;

/// A line with its number; `None` for a damaged one.
pub(crate) type Numbered = (u64, Option<Map<String, Value>>);

/// A session's entries.
pub(crate) struct Session {
    /// The first line, if it can be read.
    pub(crate) header: Option<Map<String, Value>>,
    pub(crate) entries: Vec<Entry>,
}

/// An entry.
pub(crate) struct Entry {
    pub(crate) line: u64,
    pub(crate) id: String,
    /// The index of its parent.
    pub(crate) parent: Option<usize>,
    pub(crate) raw: Map<String, Value>,
}

impl Entry {
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.raw.get(name).and_then(Value::as_str)
    }

    pub(super) fn kind(&self) -> &str {
        self.text("type").unwrap_or_default()
    }
}

/// The entries of these lines, each with its number; `None` for a damaged line.
///
/// # Errors
/// An unknown version.
pub(crate) fn read(lines: Vec<Numbered>, problems: &mut Problems) -> Result<Session, u64> {
    let mut session = Session { header: None, entries: Vec::new() };
    // The index of the entry of each line: version 1 has no ids and refers to entries by their line.
    let mut indexes: Vec<Option<usize>> = Vec::with_capacity(lines.len());
    let mut by_id: HashMap<String, usize> = HashMap::new();
    let linear = lines
        .iter()
        .filter_map(|(_, line)| line.as_ref())
        .find_map(|line| match line.get("type").and_then(Value::as_str) {
            Some("session") => Some(line.get("version").and_then(Value::as_u64).unwrap_or(1) < 2),
            Some(_) => Some(!line.contains_key("id")),
            None => None,
        })
        .unwrap_or(false);
    for (line, raw) in lines {
        indexes.push(None);
        let Some(mut raw) = raw else { continue };
        match raw.get("type").and_then(Value::as_str) {
            None => {
                problems.add(line, TransferCode::InvalidLine, "the line has no `type`");
                continue;
            }
            Some("session") => {
                let version = raw.get("version").and_then(Value::as_u64).unwrap_or(1);
                if version > VERSION {
                    return Err(version);
                }
                if session.header.is_none() {
                    session.header = Some(raw);
                } else {
                    problems.add(line, TransferCode::InvalidLine, "the line is a second header");
                }
                continue;
            }
            Some(_) => {}
        }
        let index = session.entries.len();
        let previous = index.checked_sub(1);
        let given = raw.get("id").and_then(Value::as_str).filter(|_| !linear);
        let id = match given {
            Some(id) if !by_id.contains_key(id) => id.to_owned(),
            other => {
                if let Some(id) = other {
                    let message = format!("there are two entries `{id}`; this one has a new id");
                    problems.add(line, TransferCode::Reattached, message);
                }
                (index..)
                    .map(|number| format!("{number:08x}"))
                    .find(|id| !by_id.contains_key(id))
                    .unwrap_or_default()
            }
        };
        let parent = match raw.get("parentId") {
            _ if linear => previous,
            Some(Value::String(parent)) => by_id.get(parent).copied().or_else(|| {
                let message =
                    format!("entry `{id}` followed one that is lost; it follows the one before it");
                problems.add(line, TransferCode::Reattached, message);
                previous
            }),
            Some(Value::Null) => None,
            _ => previous,
        };
        raw.insert("id".to_owned(), Value::from(id.as_str()));
        let named = parent.and_then(|parent| session.entries.get(parent));
        raw.insert(
            "parentId".to_owned(),
            named.map_or(Value::Null, |it| Value::from(it.id.as_str())),
        );
        if let Some(line) = raw.remove("firstKeptEntryIndex").and_then(|it| it.as_u64()) {
            let first = usize::try_from(line).ok().and_then(|line| *indexes.get(line)?);
            if let Some(first) = first.and_then(|first| session.entries.get(first)) {
                raw.insert("firstKeptEntryId".to_owned(), Value::from(first.id.as_str()));
            }
        }
        if let Some(Value::Object(message)) = raw.get_mut("message")
            && message.get("role").and_then(Value::as_str) == Some("hookMessage")
        {
            message.insert("role".to_owned(), Value::from("custom"));
        }
        by_id.insert(id.clone(), index);
        if let Some(last) = indexes.last_mut() {
            *last = Some(index);
        }
        session.entries.push(Entry { line, id, parent, raw });
    }
    Ok(session)
}
