//! Patches that are refused: each with its whole message, and no change. It must never accept one silently.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test: what is missing here should stop it"
)]

use std::collections::BTreeMap;

use nexus_agent_patch::{PatchError, apply, parse};

/// The tree that the patches are for.
fn tree() -> BTreeMap<&'static str, &'static [u8]> {
    BTreeMap::from([
        ("a.txt", b"one\ntwo\nthree\nfour\n".as_slice()),
        ("b.txt", b"x\ny\nx\ny\nx\ny\n".as_slice()),
        ("dir/c.txt", b"c\n".as_slice()),
    ])
}

fn problems(text: &str) -> Vec<String> {
    let listed = |problems: Vec<PatchError>| problems.iter().map(PatchError::to_string).collect();
    match parse(text.as_bytes()) {
        Err(problem) => vec![problem.to_string()],
        Ok(patch) => match apply(&patch, &|path| tree().get(path).map(|it| it.to_vec())) {
            Err(problems) => listed(problems),
            Ok(changes) => panic!("accepted: {text}\n{changes:?}"),
        },
    }
}

#[test]
fn malformed_patches_are_refused_with_a_message() {
    let table = include_str!("fixtures/malformed.txt");
    let mut refused = 0;
    for case in table.split("\n=== ").skip(1) {
        let (name, rest) = case.split_once('\n').unwrap();
        let (text, expected) = rest.split_once("--> ").unwrap_or_else(|| panic!("{name}"));
        // `<CR>` is what an editor would lose.
        let text = text.replace("<CR>", "\r");
        let found = problems(&text).join("\n--> ");
        assert_eq!(found, expected.trim_end(), "{name}");
        refused += 1;
    }
    assert!(refused >= 50, "{refused} patches");
}
