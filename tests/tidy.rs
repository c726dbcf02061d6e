//! Owns the shape of the house: which room may use which (read from the tables in `ARCHITECTURE.md`), who
//! may call what `clippy.toml` bans, how long a file may be, and that each says what it is for.
//! It reads text and nothing else: it must never need the crate, a network, or a build of anything.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "a test: what is missing here should stop it"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const LONGEST: usize = 800;
const LONG: usize = 400;
const MEDIAN: usize = 200;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file with one of these endings under `folder`, sorted, without what is installed, recorded or built.
fn files(folder: &str, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root().join(folder)];
    while let Some(path) = open.pop() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir()
            && !["node_modules", "fixtures", "target", "snapshots"].contains(&name.as_str())
        {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path.is_file() && endings.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/")
}

/// A Rust file of the crate.
struct Source {
    /// `src/turn/machine.rs`
    path: String,
    /// `turn`; empty for `lib.rs`, which only lists the rooms.
    room: String,
    text: String,
    /// The text without comments, the contents of strings, and tests; same line numbers.
    code: String,
    is_test: bool,
}

fn sources() -> Vec<Source> {
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let path = relative(path);
        let inside = path.strip_prefix("src/").unwrap();
        let is_test = inside.ends_with("tests.rs") || inside.contains("/tests/");
        let room = match inside.split('/').next().unwrap().trim_end_matches(".rs") {
            "lib" => String::new(),
            room => room.to_owned(),
        };
        let code = if is_test { String::new() } else { without_tests(&without_prose(&text)) };
        Source { path, room, text, code, is_test }
    };
    let mut sources: Vec<Source> = files("src", &[".rs"]).iter().map(read).collect();
    let only_tests: Vec<String> = sources.iter().flat_map(test_modules).collect();
    for source in sources.iter_mut().filter(|source| only_tests.contains(&source.path)) {
        source.is_test = true;
        source.code.clear();
    }
    sources
}

/// The files that `#[cfg(test)] mod name;` takes in: they are tests, whatever their name.
fn test_modules(source: &Source) -> Vec<String> {
    let folder = source.path.trim_end_matches("/lib.rs").trim_end_matches("/mod.rs");
    let folder = folder.trim_end_matches(".rs");
    let modules = source.text.split("#[cfg(test)]\nmod ").skip(1);
    let names = modules.filter_map(|rest| rest.split_once(';').map(|(name, _)| name));
    names.map(|name| format!("{folder}/{name}.rs")).collect()
}

/// Replaces comments and the contents of strings by spaces, so that a word in them is not taken for code.
fn without_prose(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let is = |at: usize, what: &str| {
        what.chars().enumerate().all(|(i, c)| chars.get(at + i) == Some(&c))
    };
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
        let after_word = at > 0 && (chars[at - 1].is_alphanumeric() || chars[at - 1] == '_');
        let end = if is(at, "//") {
            (at..chars.len()).find(|i| chars[*i] == '\n')
        } else if is(at, "/*") {
            let mut depth = 0;
            (at..chars.len()).find(|i| {
                depth += i32::from(is(*i, "/*")) - i32::from(is(i - 1, "*/") && *i > at + 2);
                depth == 0
            })
        } else if chars[at] == 'r' && chars.get(at + 1 + hashes) == Some(&'"') && !after_word {
            let close = format!("\"{}", "#".repeat(hashes));
            (at + 2 + hashes..chars.len()).find(|i| is(*i, &close)).map(|i| i + 1 + hashes)
        } else if chars[at] == '"' {
            let mut escaped = false;
            let quote = (at + 1..chars.len()).find(|i| {
                let closes = chars[*i] == '"' && !escaped;
                escaped = chars[*i] == '\\' && !escaped;
                closes
            });
            quote.map(|i| i + 1)
        } else if is(at, "'\\") {
            (at + 3..chars.len()).find(|i| chars[*i] == '\'').map(|i| i + 1)
        } else if chars[at] == '\'' && chars.get(at + 2) == Some(&'\'') {
            Some(at + 3)
        } else {
            out.push(chars[at]);
            at += 1;
            continue;
        };
        let end = end.unwrap_or(chars.len());
        out.extend(chars[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
        at = end;
    }
    out
}

/// Blanks each item under `#[cfg(test)]`: a test may reach where the code may not.
fn without_tests(code: &str) -> String {
    let mut out = code.to_owned();
    while let Some(from) = out.find("#[cfg(test)]") {
        let body = out[from..].find(['{', ';']).map_or(out.len(), |i| from + i);
        let mut depth = 0_i32;
        let end = out[body..].char_indices().find(|(_, c)| {
            depth += i32::from(*c == '{') - i32::from(*c == '}');
            depth == 0
        });
        let end = end.map_or(out.len(), |(i, _)| body + i + 1);
        let blank: String =
            out[from..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        out.replace_range(from..end, &blank);
    }
    out
}

/// Where `word` stands in `code` as a word of its own (`env::var` is not in `env::vars` or `my_env::var`).
fn words(code: &str, word: &str) -> Vec<usize> {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let matches = code.match_indices(word).map(|(at, _)| at);
    matches
        .filter(|at| {
            !is_part(code[..*at].chars().next_back())
                && !is_part(code[*at + word.len()..].chars().next())
        })
        .collect()
}

fn line(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// The paths that the text after `crate::` names: one, or each one of a `{…}` group, however nested.
fn paths(text: &str, before: &[String], found: &mut Vec<Vec<String>>) -> usize {
    let mut path = before.to_vec();
    let mut at = 0;
    loop {
        at += text[at..].len() - text[at..].trim_start().len();
        if text[at..].starts_with('{') {
            at += 1;
            while !text[at..].trim_start().starts_with('}') && !text[at..].trim_start().is_empty() {
                at += paths(&text[at..], &path, found);
                at += text[at..].find([',', '}']).unwrap_or(text.len() - at);
                at += usize::from(text[at..].starts_with(','));
            }
            return at + text[at..].find('}').map_or(0, |i| i + 1);
        }
        let name: String =
            text[at..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        at += name.len();
        if !name.is_empty() {
            path.push(name);
        }
        if !text[at..].starts_with("::") || path.len() == before.len() {
            found.push(path);
            return at;
        }
        at += 2;
    }
}

/// The rows of the first table of `ARCHITECTURE.md` under this heading: the first cell's name, the names of the second.
fn table(heading: &str) -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let (_, section) = text.split_once(&format!("## {heading}\n")).expect(heading);
    let names = |cell: &str| -> Vec<String> {
        cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    };
    let rows = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = rows.take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        (names(cells[1]).remove(0), names(cells[2]))
    })
    .collect()
}

fn none(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn every_file_says_first_what_it_is_for() {
    let mut bad = Vec::new();
    for folder in ["src", "tests", "benches", "examples", "scripts", "__test__", "fuzz"] {
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
fn a_room_uses_only_the_rooms_it_may() {
    let may = table("Which room may use which");
    let mut bad = Vec::new();
    for source in sources().iter().filter(|source| !source.room.is_empty()) {
        let Some(allowed) = may.get(&source.room) else {
            bad.push(format!("{}: give `{}` a row in ARCHITECTURE.md", source.path, source.room));
            continue;
        };
        let mut check = |at: usize, path: &[String]| {
            let own = path[0] == source.room;
            let fits = |entry: &String| {
                let entry: Vec<&str> = entry.split("::").collect();
                path.len() >= entry.len() && entry.iter().zip(path).all(|(a, b)| a == b)
            };
            if !own && !allowed.iter().any(fits) {
                let (file, line) = (&source.path, line(&source.code, at));
                bad.push(format!(
                    "{file}:{line}: `{}` may not use `{}`",
                    source.room,
                    path.join("::")
                ));
            }
        };
        for at in words(&source.code, "crate") {
            let Some(rest) = source.code[at..].strip_prefix("crate::") else { continue };
            let mut found = Vec::new();
            paths(rest, &[], &mut found);
            found.iter().filter(|path| !path.is_empty()).for_each(|path| check(at, path));
        }
        // `super::` as far as the crate root is `crate::` by another name.
        let depth = source.path.trim_end_matches("/mod.rs").matches('/').count();
        let climb = "super::".repeat(depth);
        for (at, _) in source.code.match_indices(&climb) {
            let mut found = Vec::new();
            paths(&source.code[at + climb.len()..], &[], &mut found);
            let is_room =
                |path: &&Vec<String>| path.first().is_some_and(|name| may.contains_key(name));
            found.iter().filter(is_room).for_each(|path| check(at, path));
        }
    }
    none(&bad);
}

#[test]
fn the_rooms_stand_in_a_line() {
    let mut may = table("Which room may use which");
    let known: BTreeSet<String> = may.keys().cloned().collect();
    for (room, uses) in &may {
        for used in uses {
            let first = used.split("::").next().unwrap();
            assert!(
                known.contains(first) && first != room,
                "`{room}` may use `{used}`, which is no other room"
            );
        }
    }
    // Take away the rooms that use no room still there; a circle remains. A port (`a::b`) is no room.
    while let Some(free) = may
        .iter()
        .find(|(_, uses)| uses.iter().all(|used| !may.contains_key(used)))
        .map(|(room, _)| room.clone())
    {
        may.remove(&free);
    }
    assert_eq!(may.keys().collect::<Vec<_>>(), Vec::<&String>::new(), "these rooms use each other");
}

#[test]
fn a_crate_is_named_only_in_its_rooms() {
    let mut bad = Vec::new();
    for (name, rooms) in table("Which room may name which crate") {
        for source in sources().iter().filter(|source| !rooms.contains(&source.room)) {
            for at in words(&source.code, &name) {
                let (before, after) = (&source.code[..at], &source.code[at + name.len()..]);
                let is_path = after.starts_with("::") && !before.ends_with("::");
                if is_path || before.ends_with("use ") || before.ends_with("#[") {
                    bad.push(format!(
                        "{}:{}: `{name}` belongs to {rooms:?} alone",
                        source.path,
                        line(&source.code, at)
                    ));
                }
            }
        }
    }
    none(&bad);
}

#[test]
fn a_banned_call_is_made_by_its_owner_alone() {
    let bans = fs::read_to_string(root().join("clippy.toml")).unwrap();
    let mut owners = BTreeSet::new();
    let mut bad = Vec::new();
    let sources = sources();
    let is_owner = |source: &Source, owner: &str| {
        let inside = source.path.trim_start_matches("src/");
        inside.strip_prefix(owner).is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
    };
    for ban in bans.lines().filter(|line| line.contains("path = ")) {
        let strings: Vec<&str> = ban.split('"').skip(1).step_by(2).collect();
        let owner = strings[1].split(' ').next().unwrap();
        assert!(strings[1].contains(" owns "), "say who owns `{}` in clippy.toml", strings[0]);
        owners.insert(owner.to_owned());
        let segments: Vec<&str> = strings[0].rsplitn(3, "::").collect();
        let call = format!("{}::{}", segments[1], segments[0]);
        for source in sources.iter().filter(|source| !is_owner(source, owner)) {
            for at in words(&source.code, &call) {
                let line = line(&source.code, at);
                bad.push(format!("{}:{line}: `{call}` belongs to {owner}", source.path));
            }
        }
    }
    for source in &sources {
        if source.code.contains("disallowed_methods")
            && !owners.iter().any(|owner| is_owner(source, owner))
        {
            bad.push(format!("{}: owns no banned call, and may lift no ban", source.path));
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
fn nothing_is_left_undone_or_silenced_without_a_reason() {
    let mut bad = Vec::new();
    let words_for_later = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X:")];
    for folder in ["src", "tests", "benches", "examples", "scripts", "__test__"] {
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
fn the_code_map_shows_every_room() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    assert!(map.lines().count() <= 250, "ARCHITECTURE.md is for reading in one go");
    let rooms: BTreeSet<String> = sources().into_iter().map(|source| source.room).collect();
    let missing = rooms.iter().filter(|room| !room.is_empty());
    let missing: Vec<String> = missing
        .filter(|room| !map.contains(&format!("### `src/{room}")))
        .map(|room| format!("describe `src/{room}` in the code map of ARCHITECTURE.md"))
        .collect();
    none(&missing);
}
