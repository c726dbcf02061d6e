//! Checks every file: short, with a header, and without unfinished work. It must never need a build.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use crate::none;
use crate::source::{files, line, relative, root, sources, without_prose, words};

/// The most files and folders side by side.
const MOST_SIDE_BY_SIDE: usize = 20;

const LONGEST: usize = 800;
const LONG: usize = 400;
const MEDIAN: usize = 200;

#[test]
fn every_file_begins_with_what_it_is_for() {
    let mut bad = Vec::new();
    for folder in ["src", "crates", "tests", "benches", "examples", "scripts", "__test__", "fuzz"] {
        for path in files(folder, &[".rs", ".js", ".mjs", ".cjs", ".ts", ".sh"]) {
            let text = fs::read_to_string(&path).unwrap();
            let starts: &[&str] = match path.extension().unwrap().to_str().unwrap() {
                "rs" => &["//!"],
                "sh" => &["#!"],
                _ => &["//", "/*", "#!"],
            };
            if !starts.iter().any(|start| text.starts_with(start)) {
                bad.push(format!(
                    "{}: begin with what it owns, and what it must never do",
                    relative(&path)
                ));
            }
        }
    }
    none(&bad);
}

#[test]
fn files_are_short() {
    let mut bad = Vec::new();
    let mut lengths = Vec::new();
    for source in sources() {
        let length = source.text.lines().count();
        if length > LONGEST {
            bad.push(format!("{}: {length} lines; split it", source.path));
        }
        if !source.is_test {
            lengths.push((length, source.path));
        }
    }
    lengths.sort();
    for (length, path) in lengths.iter().filter(|(length, _)| *length > LONG) {
        eprintln!("long: {path} has {length} lines");
    }
    let median = lengths[lengths.len() / 2].0;
    assert!(median <= MEDIAN, "half of the files have more than {median} lines");
    none(&bad);
}

#[test]
fn a_folder_is_read_at_a_glance() {
    let mut inside: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let folders = [
        "src",
        "crates",
        "lib",
        "tests",
        "benches",
        "examples",
        "scripts",
        "__test__",
        "fuzz/fuzz_targets",
        "docs",
        "types",
    ];
    for file in folders.into_iter().flat_map(|folder| files(folder, &[""])) {
        let path = relative(&file);
        for (at, _) in path.match_indices('/') {
            let name = path[at + 1..].split('/').next().unwrap();
            // `json.rs` and the folder `json` with its tests are one.
            let name = name.strip_suffix(".rs").unwrap_or(name);
            inside.entry(path[..at].to_owned()).or_default().insert(name.to_owned());
        }
    }
    let mut bad = Vec::new();
    for (folder, names) in &inside {
        let now = names.len();
        if now > MOST_SIDE_BY_SIDE {
            bad.push(format!(
                "{folder}: {now} files and folders, more than {MOST_SIDE_BY_SIDE}: group them"
            ));
        }
    }
    none(&bad);
}

#[test]
fn nothing_is_left_undone_or_silenced_without_a_reason() {
    let mut bad = Vec::new();
    let words_for_later = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];
    for folder in ["src", "crates", "tests", "benches", "examples", "scripts", "__test__"] {
        for path in files(folder, &[".rs", ".js", ".mjs", ".ts", ".sh"]) {
            let text = fs::read_to_string(&path).unwrap();
            for word in words_for_later {
                for at in words(&text, word) {
                    bad.push(format!(
                        "{}:{}: `{word}`: do it now",
                        relative(&path),
                        line(&text, at)
                    ));
                }
            }
        }
    }
    for source in sources() {
        let code = without_prose(&source.text);
        for opening in ["#[allow(", "#![allow(", "#[expect(", "#![expect("] {
            for (at, _) in code.match_indices(opening) {
                let attribute = &code[at..at + code[at..].find(")]").unwrap_or(0)];
                if !attribute.contains("reason") {
                    bad.push(format!("{}:{}: give a reason", source.path, line(&code, at)));
                }
            }
        }
        for later in [concat!("to", "do!"), "unimplemented!"] {
            if code.contains(later) {
                bad.push(format!("{}: `{later}` is no code", source.path));
            }
        }
    }
    none(&bad);
}

#[test]
fn the_code_map_shows_every_module() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(map.lines().count() <= 300, "ARCHITECTURE.md is for reading in one go");
    let modules: BTreeSet<String> = sources().into_iter().map(|source| source.module).collect();
    let missing = modules.iter().filter(|module| !module.is_empty());
    let missing: Vec<String> = missing
        .filter(|module| !map.contains(&format!("### `src/{module}")))
        .filter(|module| !map.contains(&format!("### `crates/{module}")))
        .map(|module| format!("describe `{module}` in the code map of ARCHITECTURE.md"))
        .collect();
    none(&missing);
}
