//! Reads the sources: the files, their modules, their code without prose and tests, and the paths in it. It must never change
//! a file.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every file with one of these endings under `folder`, sorted, without installed, recorded or built ones.
pub(crate) fn files(folder: &str, endings: &[&str]) -> Vec<PathBuf> {
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

pub(crate) fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/")
}

/// A Rust file of the root package or of a leaf crate.
pub(crate) struct Source {
    /// `src/engine/driver.rs`, `crates/turn/src/machine/mod.rs`
    pub(crate) path: String,
    /// The path by modules, in any crate: `engine/driver.rs`, `turn/machine/mod.rs`.
    pub(crate) inside: String,
    /// `engine`, `turn`; empty for the root's `lib.rs`, which only lists the modules.
    pub(crate) module: String,
    pub(crate) text: String,
    /// The text without comments, contents of strings, and tests; with the same line numbers.
    pub(crate) code: String,
    pub(crate) is_test: bool,
}

pub(crate) fn sources() -> Vec<Source> {
    let read = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let path = relative(path);
        let inside = match path.strip_prefix("crates/") {
            Some(leaf) => leaf.replacen("/src/", "/", 1),
            None => path.strip_prefix("src/").unwrap().to_owned(),
        };
        let is_test = inside.ends_with("tests.rs") || inside.contains("/tests/");
        let module = match inside.split('/').next().unwrap().trim_end_matches(".rs") {
            "lib" => String::new(),
            module => module.to_owned(),
        };
        let code = if is_test { String::new() } else { without_tests(&without_prose(&text)) };
        Source { path, inside, module, text, code, is_test }
    };
    let mut sources: Vec<Source> = ["src", "crates"]
        .iter()
        .flat_map(|folder| files(folder, &[".rs"]))
        .map(|path| read(&path))
        .collect();
    let only_tests: Vec<String> = sources.iter().flat_map(test_modules).collect();
    for source in sources.iter_mut().filter(|source| only_tests.contains(&source.path)) {
        source.is_test = true;
        source.code.clear();
    }
    sources
}

/// The files of `#[cfg(test)] mod name;`: they are tests, whatever their name.
pub(crate) fn test_modules(source: &Source) -> Vec<String> {
    let folder = source.path.trim_end_matches("/lib.rs").trim_end_matches("/mod.rs");
    let folder = folder.trim_end_matches(".rs");
    let modules = source.text.split("#[cfg(test)]\nmod ").skip(1);
    let names = modules.filter_map(|rest| rest.split_once(';').map(|(name, _)| name));
    names.map(|name| format!("{folder}/{name}.rs")).collect()
}

/// Replaces comments and contents of strings by spaces, so that a word in them does not count as code.
pub(crate) fn without_prose(text: &str) -> String {
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
pub(crate) fn without_tests(code: &str) -> String {
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

/// The positions of `word` in `code` as a whole word (`env::var` is not in `env::vars` or `my_env::var`).
pub(crate) fn words(code: &str, word: &str) -> Vec<usize> {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let matches = code.match_indices(word).map(|(at, _)| at);
    matches
        .filter(|at| {
            !is_part(code[..*at].chars().next_back())
                && !is_part(code[*at + word.len()..].chars().next())
        })
        .collect()
}

pub(crate) fn line(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count() + 1
}

/// The paths in the text after `crate::`: one, or each one of a `{…}` group, however nested.
pub(crate) fn paths(text: &str, before: &[String], found: &mut Vec<Vec<String>>) -> usize {
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
pub(crate) fn table(heading: &str) -> BTreeMap<String, Vec<String>> {
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
