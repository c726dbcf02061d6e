//! The steps of hostile patches, and what [`PatchPaths`](crate::PatchPaths) announces. It must never assert a time.

use std::cell::RefCell;

use super::run::apply_counted;
use super::work::Work;
use super::*;
use crate::{Patch, PatchError, Problem, parse};

/// The result, and the steps that it took.
fn counted(text: &[u8], file: &[u8]) -> (Result<Vec<FileChange>, Vec<PatchError>>, u64) {
    let patch = parse(text).unwrap();
    let mut work = Work::new(text.len());
    let result = apply_counted(&patch, &|path| (path == "a.txt").then(|| file.to_vec()), &mut work);
    (result, work.steps())
}

fn limit(text: &[u8], file: &[u8]) -> u64 {
    32 * (text.len() + file.len()) as u64 + 1_000_000
}

/// A hunk that is almost everywhere in a file of `aaab` lines, and whole nowhere.
fn near_miss(hunks: usize) -> Vec<u8> {
    let hunk = "@@\n a\n a\n b\n-a\n-a\n-b\n+c\n";
    let head = "*** Begin Patch\n*** Update File: a.txt\n";
    format!("{head}{}*** End Patch\n", hunk.repeat(hunks)).into_bytes()
}

#[test]
fn a_patch_whose_hunks_are_at_their_lines_takes_fewer_steps_than_its_bytes_and_those_of_its_file() {
    let lines = |word: &str| (0..20_000).map(|n| format!("{word} {n}\n")).collect::<Vec<_>>();
    let file = lines("line").concat();
    let mut patch = "--- a/a.txt\n+++ b/a.txt\n".to_owned();
    for at in (1..20_000).step_by(2) {
        patch += &format!("@@ -{at} +{at} @@\n-line {}\n+changed\n", at - 1);
    }
    let (result, steps) = counted(patch.as_bytes(), file.as_bytes());
    assert_eq!(result.unwrap()[0].hunks.len(), 10_000);
    let bytes = (patch.len() + file.len()) as u64;
    assert!(steps < 2 * bytes, "{steps} steps for {bytes} bytes");
}

#[test]
fn one_hunk_that_almost_fits_everywhere_takes_steps_in_proportion_to_the_file() {
    let patch = near_miss(1);
    let steps = |times: usize| {
        let (result, steps) = counted(&patch, "a\na\na\nb\n".repeat(times).as_bytes());
        assert!(matches!(result.unwrap_err()[0].problem, Problem::NotFound { .. }));
        steps
    };
    let (once, twice) = (steps(10_000), steps(20_000));
    assert!(twice < 2 * once + 1_000, "{once} steps, then {twice}");
}

#[test]
fn a_long_hunk_of_equal_lines_takes_steps_in_proportion_to_the_file() {
    let hunk = format!("@@\n{}-b\n-b\n", " a\n".repeat(2_000));
    let patch = format!("*** Begin Patch\n*** Update File: a.txt\n{hunk}*** End Patch\n");
    let file = format!("{}b\n", "a\n".repeat(40_000));
    let (result, steps) = counted(patch.as_bytes(), file.as_bytes());
    assert!(matches!(result.unwrap_err()[0].problem, Problem::NotFound { .. }));
    let bytes = (patch.len() + file.len()) as u64;
    assert!(steps < 16 * bytes, "{steps} steps for {bytes} bytes");
}

#[test]
fn many_hunks_that_almost_fit_everywhere_are_stopped_at_the_limit() {
    let patch = near_miss(2_000);
    let file = "a\na\na\nb\n".repeat(10_000);
    let (result, steps) = counted(&patch, file.as_bytes());
    let problems = result.unwrap_err();
    let path = "a.txt".to_owned();
    assert!(problems.iter().any(|it| it.problem == Problem::TooMuchWork { path: path.clone() }));
    assert_eq!(problems.last().unwrap().problem, Problem::More { count: 1_800 });
    assert!(steps <= limit(&patch, file.as_bytes()), "{steps} steps");
}

#[test]
fn a_large_file_that_is_patched_again_and_again_is_stopped_at_the_limit() {
    let file = "a\n".repeat(10_000) + "b\n";
    let section = "*** Update File: a.txt\n@@\n-b\n+c\n*** Update File: a.txt\n@@\n-c\n+b\n";
    let patch = format!("*** Begin Patch\n{}*** End Patch\n", section.repeat(400)).into_bytes();
    let (result, steps) = counted(&patch, file.as_bytes());
    assert!(matches!(result.unwrap_err()[0].problem, Problem::TooMuchWork { .. }));
    assert!(steps <= limit(&patch, file.as_bytes()), "{steps} steps");
}

#[test]
fn many_copies_of_a_large_file_are_stopped_at_the_limit() {
    let copy = |n: usize| {
        format!("diff --git a/a.txt b/{n}\nsimilarity index 100%\ncopy from a.txt\ncopy to {n}\n")
    };
    let patch: String = (0..400).map(copy).collect();
    let file = vec![b'a'; 2_000_000];
    let (result, _) = counted(patch.as_bytes(), &file);
    let problems = result.unwrap_err();
    assert_eq!(problems[0].problem, Problem::TooMuchWork { path: "a.txt".to_owned() });
    // Some are made: the limit is on what is too much.
    assert!(problems[0].line > 4, "{}", problems[0]);
}

#[test]
fn each_file_is_requested_once_and_only_if_it_is_announced() {
    let text = b"*** Begin Patch\n*** Update File: b\n*** Move to: dir/c\n@@\n-1\n+2\n*** Add File: n\n+n\n\
        *** Update File: dir/c\n@@\n-2\n+3\n*** Delete File: d\n*** End Patch\n";
    let patch: Patch<'_> = parse(text).unwrap();
    let requested = RefCell::new(Vec::new());
    let changes = apply(&patch, &|path| {
        requested.borrow_mut().push(path.to_owned());
        (path == "b" || path == "d").then(|| b"1\n".to_vec())
    });
    let mut requested = requested.into_inner();
    requested.sort();
    let paths = patch.paths();
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    assert_eq!(
        (requested, paths.read),
        (names(&["b", "d", "dir/c", "n"]), names(&["b", "d", "dir/c", "n"]))
    );
    assert_eq!(paths.written, names(&["b", "d", "dir/c", "n"]));
    let report = |patch_line| HunkReport {
        patch_line,
        file_line: 1,
        offset: None,
        leniency: Leniency::Exact,
    };
    let change =
        |path: &str, kind, content: Option<&str>, source: Option<&str>, hunks| FileChange {
            path: path.to_owned(),
            kind,
            content: content.map(|text| text.as_bytes().to_vec()),
            source: source.map(str::to_owned),
            hunks,
        };
    assert_eq!(
        changes,
        Ok(vec![
            change("b", ChangeKind::Deleted, None, None, vec![]),
            change("d", ChangeKind::Deleted, None, None, vec![]),
            change("dir/c", ChangeKind::Added, Some("3\n"), Some("b"), vec![report(4), report(10)]),
            change("n", ChangeKind::Added, Some("n\n"), None, vec![]),
        ])
    );
}

#[test]
fn a_dry_run_is_the_same_call_and_gives_the_same_changes() {
    let patch = parse(b"--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b\n").unwrap();
    let read = |_: &str| Some(b"a\n".to_vec());
    assert_eq!(apply(&patch, &read), apply(&patch, &read));
}
