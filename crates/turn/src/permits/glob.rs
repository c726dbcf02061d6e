//! Patterns with wildcards, for names of tools and for arguments.
//!
//! It must never take more steps than the pattern has characters times those of the text.

/// Whether a text matches a pattern: `*` is any characters but `/`, `**` any, `?` one other than `/`.
pub(super) fn matches(glob: &str, text: &str) -> bool {
    let (glob, text): (Vec<char>, Vec<char>) = (glob.chars().collect(), text.chars().collect());
    // Whether the pattern so far matches the first n characters; one row for each character of the pattern.
    let mut row = vec![false; text.len() + 1];
    if let Some(first) = row.first_mut() {
        *first = true;
    }
    let mut rest = glob.as_slice();
    while let Some((&head, mut tail)) = rest.split_first() {
        let mut next = vec![false; row.len()];
        let crosses = head == '*' && tail.first() == Some(&'*');
        if crosses {
            tail = tail.get(1..).unwrap_or_default();
        }
        for at in 0..row.len() {
            let here = row.get(at).copied().unwrap_or_default();
            let before = at.checked_sub(1);
            let last = before.and_then(|at| text.get(at)).copied();
            let (skipped, grown) = (
                before.and_then(|at| row.get(at)).copied().unwrap_or_default(),
                before.and_then(|at| next.get(at)).copied().unwrap_or_default(),
            );
            let matched = match head {
                '*' => here || (grown && (crosses || last != Some('/'))),
                '?' => skipped && last.is_some_and(|last| last != '/'),
                other => skipped && last == Some(other),
            };
            if let Some(cell) = next.get_mut(at) {
                *cell = matched;
            }
        }
        (row, rest) = (next, tail);
    }
    row.last().copied().unwrap_or_default()
}
