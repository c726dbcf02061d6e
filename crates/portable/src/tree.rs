//! The turns of an export in their order: parents before children, a session's own thread last.

use std::collections::{HashMap, HashSet};

use crate::error::Stored;
use crate::rows::Rows;

/// The ids of the turns of a session, or of all, depth first.
pub(crate) async fn turns(rows: &dyn Rows, label: Option<&str>) -> Stored<Vec<String>> {
    let listed = rows.turns(label).await?;
    let parents: HashMap<&str, Option<&str>> =
        listed.iter().map(|(id, parent)| (id.as_str(), parent.as_deref())).collect();
    // The session's thread is last, so that the last line is its head.
    let mut thread = HashSet::new();
    let head = match label {
        Some(label) => rows.there(label).await?.and_then(|there| there.head),
        None => None,
    };
    let mut next = head.as_deref();
    while let Some(id) = next
        && thread.insert(id)
    {
        next = parents.get(id).copied().flatten();
    }
    let mut children: HashMap<Option<&str>, Vec<&str>> = HashMap::new();
    for (id, parent) in &listed {
        // In a damaged ledger a parent may be missing; its child is then a root.
        let parent = parent.as_deref().filter(|parent| parents.contains_key(parent));
        children.entry(parent).or_default().push(id);
    }
    for siblings in children.values_mut() {
        // The last sibling is visited first, so the thread, which must be last, is sorted to the front.
        siblings.sort_by_key(|id| !thread.contains(id));
    }
    let mut ordered = Vec::with_capacity(listed.len());
    let mut waiting = children.remove(&None).unwrap_or_default();
    while let Some(id) = waiting.pop() {
        ordered.push(id.to_owned());
        waiting.extend(children.remove(&Some(id)).unwrap_or_default());
    }
    Ok(ordered)
}
