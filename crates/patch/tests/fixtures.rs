//! Applies each patch of `fixtures/`: a folder with the files before (`in`) and after (`out`), the patch, and where its hunks
//! were found (`report`; empty if every hunk is exactly where its header says). It must never write a file.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test: what is missing here should stop it"
)]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use nexus_agent_patch::{FileChange, Leniency, apply, parse};

type Tree = BTreeMap<String, Vec<u8>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn tree(folder: &Path) -> Tree {
    let mut files = Tree::new();
    let mut open = vec![folder.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.is_file() {
            let name = path.strip_prefix(folder).unwrap().to_str().unwrap().replace('\\', "/");
            files.insert(name, fs::read(&path).unwrap());
        }
    }
    files
}

/// The hunks that were found elsewhere than at their line, or not exactly.
fn report(changes: &[FileChange]) -> String {
    let mut text = String::new();
    for change in changes {
        for hunk in &change.hunks {
            let offset = hunk.offset.map_or(String::new(), |offset| format!("offset {offset}, "));
            writeln!(text, "{}:{}: {offset}{:?}", change.path, hunk.file_line, hunk.leniency)
                .unwrap();
        }
    }
    let is_plain = |change: &FileChange| {
        change
            .hunks
            .iter()
            .all(|hunk| hunk.offset.unwrap_or(0) == 0 && hunk.leniency == Leniency::Exact)
    };
    let is_unmoved = changes.iter().all(is_plain);
    let is_numbered = changes.iter().flat_map(|change| &change.hunks).all(|it| it.offset.is_some());
    if is_unmoved && is_numbered { String::new() } else { text }
}

#[test]
fn every_patch_of_the_fixtures_makes_the_files_beside_it() {
    let mut folders: Vec<PathBuf> =
        fs::read_dir(root()).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|folder| folder.is_dir());
    folders.sort();
    assert!(folders.len() >= 50, "{} fixtures", folders.len());
    for folder in folders {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let before = tree(&folder.join("in"));
        let text = fs::read(folder.join("patch")).unwrap();
        let patch = parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let changes = apply(&patch, &|path| before.get(path).cloned())
            .unwrap_or_else(|problems| panic!("{name}: {problems:#?}"));
        let paths = patch.paths();
        let mut after = before.clone();
        for change in &changes {
            assert!(paths.written.contains(&change.path), "{name}: `{}`", change.path);
            match &change.content {
                Some(content) => drop(after.insert(change.path.clone(), content.clone())),
                None => drop(after.remove(&change.path)),
            }
        }
        let readable = |tree: &Tree| -> BTreeMap<String, String> {
            tree.iter()
                .map(|(path, bytes)| (path.clone(), bytes.escape_ascii().to_string()))
                .collect()
        };
        assert_eq!(readable(&after), readable(&tree(&folder.join("out"))), "{name}");
        let expected = fs::read_to_string(folder.join("report")).unwrap();
        assert_eq!(report(&changes), expected, "{name}");
    }
}
