//! Where two requests differ: the first part of the later one that is not the earlier one's, and how it changed.
//!
//! It must never compare more than the earlier request had: appended messages are the normal growth of a conversation.

use std::collections::HashMap;

use super::link::role_of;
use model::{CacheChain, CacheChange, CachePart, Role};

/// The first part that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) part: CachePart,
    pub(super) change: CacheChange,
    pub(super) name: Option<String>,
    pub(super) index: Option<usize>,
    pub(super) role: Option<Role>,
}

/// The first difference of `now` from `before`, in the order of a request: system prompt, tools, messages.
pub(super) fn difference(before: &CacheChain, now: &CacheChain) -> Option<Difference> {
    if before.system != now.system {
        let change = match (before.system == super::text(""), now.system == super::text("")) {
            (true, _) => CacheChange::Inserted,
            (_, true) => CacheChange::Removed,
            (false, false) => CacheChange::Changed,
        };
        return Some(Difference {
            part: CachePart::System,
            change,
            name: None,
            index: None,
            role: None,
        });
    }
    tools(&before.tools, &now.tools).or_else(|| {
        messages(before.links.get(..before.comparable).unwrap_or(&before.links), &now.links)
    })
}

fn tools(before: &[(String, u64)], now: &[(String, u64)]) -> Option<Difference> {
    let at =
        parting(before, now).or_else(|| (before.len() != now.len()).then_some(before.len()))?;
    let (old, new) = (before.get(at), now.get(at));
    let has =
        |list: &[(String, u64)], name: &str| list.iter().any(|(other, _)| other.as_str() == name);
    let (change, name) = match (old, new) {
        (Some((name, _)), Some((same, _))) if name == same => (CacheChange::Changed, name),
        (_, Some((name, _))) if !has(before, name) => (CacheChange::Inserted, name),
        (Some((name, _)), _) if !has(now, name) => (CacheChange::Removed, name),
        (_, Some((name, _))) | (Some((name, _)), None) => (CacheChange::Reordered, name),
        (None, None) => return None,
    };
    Some(Difference {
        part: CachePart::Tool,
        change,
        name: Some(name.clone()),
        index: Some(at),
        role: None,
    })
}

fn messages(before: &[u64], now: &[u64]) -> Option<Difference> {
    let at = parting(before, now)?;
    let (old, new) = (before.get(at..)?, now.get(at..)?);
    let change = kind(old, new);
    // The role of a removed message is in the earlier request.
    let side = if change == CacheChange::Removed { old } else { new };
    let role = side.first().or_else(|| old.first()).map(|link| role_of(*link));
    Some(Difference { part: CachePart::Message, change, name: None, index: Some(at), role })
}

/// The first index of `before` where `now` differs or ends.
fn parting<T: PartialEq>(before: &[T], now: &[T]) -> Option<usize> {
    let same = before.iter().zip(now).take_while(|(old, new)| old == new).count();
    (same < before.len()).then_some(same)
}

/// How `old` changed into `new` at the first difference.
fn kind(old: &[u64], new: &[u64]) -> CacheChange {
    if new.is_empty() {
        return CacheChange::Removed;
    }
    // Removed: all later parts still follow, unchanged.
    let removed =
        (1..old.len()).any(|gone| old.get(gone..).is_some_and(|rest| new.starts_with(rest)));
    // Added: all old parts still follow, unchanged.
    let inserted =
        (1..new.len()).any(|more| new.get(more..).is_some_and(|rest| rest.starts_with(old)));
    let moved = || {
        let mut counts: HashMap<u64, i64> = HashMap::new();
        old.iter().for_each(|link| *counts.entry(*link).or_default() += 1);
        new.iter().take(old.len()).for_each(|link| *counts.entry(*link).or_default() -= 1);
        old.len() > 1 && counts.values().all(|count| *count == 0)
    };
    match (inserted, removed) {
        (true, _) => CacheChange::Inserted,
        (false, true) => CacheChange::Removed,
        (false, false) if moved() => CacheChange::Reordered,
        (false, false) => CacheChange::Changed,
    }
}
