//! What holds for any patch: one made of two trees turns the first into the second, moved text is found, and no bytes end the
//! parser. It must never assert a time.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test: what is missing here should stop it"
)]

mod support;

use std::collections::BTreeMap;

use nexus_agent_patch::{Leniency, Patch, PatchError, apply, parse};
use proptest::prelude::*;

use support::{Tree, begin_patch, unified_diff};

fn applied(patch: &Patch<'_>, before: &Tree) -> Result<Tree, Vec<PatchError>> {
    let mut after = before.clone();
    for change in apply(patch, &|path| before.get(path).cloned())? {
        match change.content {
            Some(content) => drop(after.insert(change.path, content)),
            None => drop(after.remove(&change.path)),
        }
    }
    Ok(after)
}

/// Few different lines, so that most of them repeat.
fn line() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => "[ab]{0,2}".prop_map(String::into_bytes),
        1 => "\\PC{0,6}".prop_map(String::into_bytes),
        1 => prop::sample::select(vec![
            b"--- a/x".to_vec(), b"+++ b/x".to_vec(), b"@@ -1 +1 @@".to_vec(), b"*** End Patch".to_vec(),
            b"\\ No newline at end of file".to_vec(), b"-- ".to_vec(), b" ".to_vec(), b"a\r".to_vec(),
            b"\xff\xfe".to_vec(), b"\xef\xbb\xbfa".to_vec(), b"a\0b".to_vec(), b"diff --git a/x b/x".to_vec(),
        ]),
    ]
}

fn file() -> impl Strategy<Value = Vec<u8>> {
    (prop::collection::vec(line(), 0..30), any::<bool>()).prop_map(|(lines, is_terminated)| {
        let mut bytes = lines.join(&b'\n');
        if is_terminated && !lines.is_empty() {
            bytes.push(b'\n');
        }
        bytes
    })
}

/// Another version of a file: lines removed, inserted and replaced.
fn edited(bytes: &[u8], edits: &[(prop::sample::Index, u8, Vec<u8>)], flips_end: bool) -> Vec<u8> {
    let mut lines: Vec<Vec<u8>> = bytes.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let last = lines.pop().unwrap_or_default();
    let is_terminated = last.is_empty();
    if !is_terminated {
        lines.push(last);
    }
    for (at, kind, line) in edits {
        let at = at.index(lines.len() + 1);
        match kind {
            0 => lines.insert(at, line.clone()),
            1 if at < lines.len() => drop(lines.remove(at)),
            _ if at < lines.len() => lines[at].clone_from(line),
            _ => {}
        }
    }
    let mut bytes = lines.join(&b'\n');
    if !lines.is_empty() && is_terminated != flips_end {
        bytes.push(b'\n');
    }
    bytes
}

fn edits() -> impl Strategy<Value = Vec<(prop::sample::Index, u8, Vec<u8>)>> {
    prop::collection::vec((any::<prop::sample::Index>(), 0..3_u8, line()), 0..6)
}

/// Two versions of a tree. A file is in both, in one, or in both with edits.
fn trees() -> impl Strategy<Value = (Tree, Tree)> {
    let name = prop::sample::select(vec!["a.txt", "dir/b c.txt", "dir/q\"uote", "ü", "e", "f/g/h"]);
    let version = (file(), 0..4_u8, edits(), any::<bool>());
    prop::collection::btree_map(name, version, 1..5).prop_map(|files| {
        let (mut before, mut after) = (Tree::new(), Tree::new());
        for (name, (bytes, kind, edits, flips_end)) in files {
            if kind != 0 {
                before.insert(name.to_owned(), bytes.clone());
            }
            match kind {
                0 => drop(after.insert(name.to_owned(), bytes)),
                1 => {}
                _ => drop(after.insert(name.to_owned(), edited(&bytes, &edits, flips_end))),
            }
        }
        (before, after)
    })
}

/// The form has no mark for a missing newline at the end: it stays as it is, and a new file has one. What line break a last line
/// gets that had none is not in the patch either, so that such files have one kind.
fn with_endings_of(before: &mut Tree, mut after: Tree) -> Tree {
    for (path, old) in &mut *before {
        if !old.ends_with(b"\n") {
            old.retain(|byte| *byte != b'\r');
            if let Some(new) = after.get_mut(path) {
                new.retain(|byte| *byte != b'\r');
            }
        }
    }
    let ends = |bytes: &[u8]| bytes.is_empty() || bytes.ends_with(b"\n");
    let mut result = Tree::new();
    for (path, mut bytes) in after {
        let is_terminated = before.get(&path).is_none_or(|old| ends(old));
        while !is_terminated && bytes.ends_with(b"\n") {
            bytes.pop();
        }
        if is_terminated && !ends(&bytes) {
            bytes.push(b'\n');
        }
        result.insert(path, bytes);
    }
    result
}

proptest! {
    #[test]
    fn a_unified_diff_of_two_trees_turns_the_first_into_the_second(
        (mut before, mut after) in trees(), context in 0..5_usize,
    ) {
        if context == 0 {
            // Without context, the line break of an added line is that of its neighbour, and a mark stays at the beginning.
            for bytes in before.values_mut().chain(after.values_mut()) {
                bytes.retain(|byte| *byte != b'\r' && *byte != 0xef);
            }
        }
        let text = unified_diff(&before, &after, context);
        if text.is_empty() {
            return Ok(());
        }
        let patch = parse(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{}", text.escape_ascii())))?;
        let result = applied(&patch, &before);
        prop_assert_eq!(result, Ok(after), "{}", text.escape_ascii());
    }

    #[test]
    fn a_begin_patch_of_two_trees_turns_the_first_into_the_second((mut before, after) in trees()) {
        let after = with_endings_of(&mut before, after);
        let text = begin_patch(&before, &after);
        if text.is_empty() {
            return Ok(());
        }
        let patch = parse(&text).map_err(|error| TestCaseError::fail(format!("{error}\n{}", text.escape_ascii())))?;
        let result = applied(&patch, &before);
        prop_assert_eq!(result, Ok(after), "{}", text.escape_ascii());
    }

    #[test]
    fn a_patch_applies_to_text_with_lines_inserted_above_and_reports_the_offset(
        inserted in 1..50_usize, changed in 3..97_usize, context in 1..4_usize,
    ) {
        let lines = |changed: Option<usize>| -> Vec<u8> {
            (0..100).flat_map(|n| {
                let word = if changed == Some(n) { "changed" } else { "line" };
                format!("{word} {n}\n").into_bytes()
            }).collect()
        };
        let above: Vec<u8> = (0..inserted).flat_map(|n| format!("above {n}\n").into_bytes()).collect();
        let tree = |bytes: Vec<u8>| Tree::from([("a.txt".to_owned(), bytes)]);
        let (old, new) = (tree(lines(None)), tree(lines(Some(changed))));
        let text = unified_diff(&old, &new, context);
        let patch = parse(&text).unwrap();
        let grown = tree([above.clone(), lines(None)].concat());
        let changes = apply(&patch, &|path| grown.get(path).cloned()).unwrap();
        let found: Vec<_> = changes[0].hunks.iter().map(|it| (it.offset, it.leniency)).collect();
        prop_assert_eq!(found, vec![(Some(i64::try_from(inserted).unwrap()), Leniency::Exact)]);
        prop_assert_eq!(changes[0].content.clone(), Some([above, lines(Some(changed))].concat()));
    }

    #[test]
    fn no_bytes_end_the_parser(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _: Result<_, PatchError> = parse(&bytes);
    }

    #[test]
    fn no_lines_of_patches_end_the_parser_or_what_applies_them(
        lines in prop::collection::vec(patch_line(), 0..25),
        before in prop::collection::btree_map("[ab]".prop_map(String::from), file(), 0..3),
    ) {
        let text = lines.join(&b'\n');
        if let Ok(patch) = parse(&text) {
            let paths = patch.paths();
            let before: BTreeMap<String, Vec<u8>> = before;
            let result = apply(&patch, &|path| {
                assert!(paths.read.iter().any(|known| known == path), "`{path}` is not announced");
                before.get(path).cloned()
            });
            match result {
                Ok(changes) => for change in changes {
                    prop_assert!(paths.written.contains(&change.path), "`{}` is not announced", change.path);
                },
                Err(problems) => prop_assert!(!problems.is_empty()),
            }
        }
    }
}

fn patch_line() -> impl Strategy<Value = Vec<u8>> {
    let known = [
        "*** Begin Patch",
        "*** End Patch",
        "*** Add File: a",
        "*** Update File: a",
        "*** Update File: b",
        "*** Delete File: b",
        "*** Move to: b",
        "*** End of File",
        "@@",
        "@@ a",
        "@@ -1 +1 @@",
        "@@ -1,2 +1,2 @@",
        "@@ -0,0 +1 @@",
        "@@ -99999999999999999999 +1 @@",
        "@@ -1,9223372036854775807 +1 @@",
        "--- a/a",
        "+++ b/a",
        "--- /dev/null",
        "+++ /dev/null",
        "diff --git a/a b/a",
        "rename from a",
        "rename to b",
        "copy from a",
        "copy to b",
        "new file mode 100644",
        "deleted file mode 100644",
        "\\ No newline at end of file",
        " a",
        "-a",
        "+a",
        " ",
        "+",
        "-",
        "",
        " b",
        "-b",
        "+b",
        "\r",
        "--- \"a/\\303",
        "-- ",
        "```",
        "apply_patch <<EOF",
        "EOF",
    ];
    prop_oneof![
        9 => prop::sample::select(known.to_vec()).prop_map(|line| line.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ]
}
