//! A pi session file as a list of entries, of any version as version 3 has them.
//!
//! An entry comes after the one it follows. It must never lose an entry for what another says.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::super::report::Problems;
use model::TransferCode;

/// The newest version.
pub(super) const VERSION: u64 = 3;

/// A line with its number; `None` for one that is damaged.
pub(crate) type Numbered = (u64, Option<Map<String, Value>>);

/// A session's entries.
pub(crate) struct Session {
    /// The first line, where it can be read.
    pub(crate) header: Option<Map<String, Value>>,
    pub(crate) entries: Vec<Entry>,
}

/// An entry.
pub(crate) struct Entry {
    pub(crate) line: u64,
    pub(crate) id: String,
    /// The place of the one it follows.
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

/// The entries of these lines, each with its number; `None` for a line that is damaged.
///
/// # Errors
/// A version that is not known yet.
pub(crate) fn read(lines: Vec<Numbered>, problems: &mut Problems) -> Result<Session, u64> {
    let mut session = Session { header: None, entries: Vec::new() };
    // Version 1 has no ids, and names an entry by its place in the file.
    let mut places: Vec<Option<usize>> = Vec::with_capacity(lines.len());
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
        places.push(None);
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
        let place = session.entries.len();
        let previous = place.checked_sub(1);
        let given = raw.get("id").and_then(Value::as_str).filter(|_| !linear);
        let id = match given {
            Some(id) if !by_id.contains_key(id) => id.to_owned(),
            other => {
                if let Some(id) = other {
                    let message = format!("entry `{id}` is there twice; this one has a new id");
                    problems.add(line, TransferCode::Reattached, message);
                }
                (place..)
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
        if let Some(index) = raw.remove("firstKeptEntryIndex").and_then(|index| index.as_u64()) {
            let kept = usize::try_from(index).ok().and_then(|index| *places.get(index)?);
            if let Some(kept) = kept.and_then(|kept| session.entries.get(kept)) {
                raw.insert("firstKeptEntryId".to_owned(), Value::from(kept.id.as_str()));
            }
        }
        if let Some(Value::Object(message)) = raw.get_mut("message")
            && message.get("role").and_then(Value::as_str) == Some("hookMessage")
        {
            message.insert("role".to_owned(), Value::from("custom"));
        }
        by_id.insert(id.clone(), place);
        if let Some(last) = places.last_mut() {
            *last = Some(place);
        }
        session.entries.push(Entry { line, id, parent, raw });
    }
    Ok(session)
}
