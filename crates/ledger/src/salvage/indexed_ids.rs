//! The ids of turns by their numbers, from the index of turns by session. A row of another table may look like one of it, so that a number
//! may have several: the one whose label is a session's is right. It must never choose before all sessions are known.

use std::collections::HashMap;

/// What rows of an index say: labels and ids by number.
#[derive(Default)]
pub(super) struct IndexedIds(HashMap<i64, Vec<(String, String)>>);

impl IndexedIds {
    /// Adds a row. No turn has a number below 1.
    pub(super) fn add(&mut self, label: &str, id: &str, number: i64) {
        if number >= 1 && !id.starts_with('{') {
            self.0.entry(number).or_default().push((label.to_owned(), id.to_owned()));
        }
    }

    /// The id of a turn.
    pub(super) fn id(&self, number: i64, is_session: impl Fn(&str) -> bool) -> Option<String> {
        let rows = self.0.get(&number)?;
        rows.iter().rfind(|(label, _)| is_session(label)).map(|(_, id)| id.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::IndexedIds;

    #[test]
    fn a_row_of_the_memory_that_looks_like_one_of_the_index_hides_no_turn() {
        let mut ids = IndexedIds::default();
        ids.add("main", "T1", 1);
        ids.add("main", "T2", 2);
        // Of `memory_turns`: a turn, its session, and whether its text was clipped.
        ids.add("T1", "main", 0);
        ids.add("T2", "main", 1);
        let id = |number| ids.id(number, |label| label == "main");
        assert_eq!([id(0), id(1), id(2)], [None, Some("T1".to_owned()), Some("T2".to_owned())]);
        assert_eq!(ids.id(1, |label| label == "other"), None);
    }
}
