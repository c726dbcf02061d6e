//! Writes the patch between two trees, in both forms. It must never use the crate that it tests.

use std::collections::BTreeMap;
use std::ops::Range;

/// Files by path.
pub(crate) type Tree = BTreeMap<String, Vec<u8>>;

/// The lines, with their newlines.
fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').collect()
}

fn quoted(path: &str) -> Vec<u8> {
    if !path.contains(['"', 'ü']) {
        return path.as_bytes().to_vec();
    }
    let mut text = b"\"".to_vec();
    for byte in path.bytes() {
        match byte {
            b'"' => text.extend(b"\\\""),
            128.. => text.extend(format!("\\{byte:03o}").into_bytes()),
            other => text.push(other),
        }
    }
    text.push(b'"');
    text
}

/// A diff as git writes it; empty if the trees are equal.
pub(crate) fn unified_diff(before: &Tree, after: &Tree, context: usize) -> Vec<u8> {
    let mut text = Vec::new();
    for path in paths(before, after) {
        let (old, new) = (before.get(path), after.get(path));
        if old == new {
            continue;
        }
        let name = |prefix: &str, exists: bool| {
            let path = if exists { format!("{prefix}/{path}") } else { "/dev/null".to_owned() };
            quoted(&path)
        };
        let names = [name("a", true), b" ".to_vec(), name("b", true), b"\n".to_vec()].concat();
        text.extend([b"diff --git ".to_vec(), names].concat());
        match (old, new) {
            (None, _) => text.extend(b"new file mode 100644\n"),
            (_, None) => text.extend(b"deleted file mode 100644\n"),
            _ => {}
        }
        let old_lines = lines(old.map(Vec::as_slice).unwrap_or_default());
        let new_lines = lines(new.map(Vec::as_slice).unwrap_or_default());
        if old_lines != new_lines {
            for (start, name) in
                [("--- ", name("a", old.is_some())), ("+++ ", name("b", new.is_some()))]
            {
                text.extend([start.as_bytes(), &name, b"\n"].concat());
            }
        }
        for group in groups(&old_lines, &new_lines, context) {
            let header = format!(
                "@@ -{} +{} @@\n",
                numbers(&group.old_range()),
                numbers(&group.new_range())
            );
            text.extend(header.into_bytes());
            for (mark, line) in group.lines {
                text.push(mark);
                text.extend(line);
                if !line.ends_with(b"\n") {
                    text.extend(b"\n\\ No newline at end of file\n");
                }
            }
        }
    }
    text
}

/// The `*** Begin Patch` form, with as much context as makes each hunk the only one of its kind; empty if the trees are equal.
pub(crate) fn begin_patch(before: &Tree, after: &Tree) -> Vec<u8> {
    let mut text = Vec::new();
    for path in paths(before, after) {
        let (old, new) = (before.get(path), after.get(path));
        match (old, new) {
            _ if old == new => {}
            (_, None) => text.extend(format!("*** Delete File: {path}\n").into_bytes()),
            (None, Some(new)) => {
                text.extend(format!("*** Add File: {path}\n").into_bytes());
                for line in lines(new) {
                    text.extend([b"+", line].concat());
                }
            }
            (Some(old), Some(new)) => {
                text.extend(format!("*** Update File: {path}\n").into_bytes());
                // Every line has a newline in this form.
                let (old, new) = (terminated(old), terminated(new));
                update(&lines(&old), &lines(&new), &mut text);
            }
        }
    }
    if text.is_empty() {
        return text;
    }
    [b"*** Begin Patch\n".to_vec(), text, b"*** End Patch\n".to_vec()].concat()
}

fn terminated(bytes: &[u8]) -> Vec<u8> {
    let is_whole = bytes.is_empty() || bytes.ends_with(b"\n");
    if is_whole { bytes.to_vec() } else { [bytes, b"\n"].concat() }
}

fn update(old: &[&[u8]], new: &[&[u8]], text: &mut Vec<u8>) {
    // In the first line of a file, a byte order mark is not compared.
    let bare = |line: &'_ [u8]| line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).to_vec();
    let bare_old: Vec<Vec<u8>> = old.iter().map(|line| bare(line)).collect();
    let is_unique = |group: &Group<'_>| {
        let pattern = &bare_old[group.old_range()];
        let is_same = |here: &&[Vec<u8>]| *here == pattern;
        !pattern.is_empty() && bare_old.windows(pattern.len()).filter(is_same).count() == 1
    };
    // A blank line at the end of a hunk is no part of it, so that hunks with one need more context, or the end of the file.
    let ends_blank = |group: &Group<'_>| {
        let (mark, line) = *group.lines.last().unwrap();
        mark == b' ' && line.trim_ascii().is_empty()
    };
    let whole = old.len() + new.len();
    let contexts = (1..whole).map(|context| groups(old, new, context));
    let chosen = contexts
        .into_iter()
        .find(|groups| groups.iter().all(|group| is_unique(group) && !ends_blank(group)));
    let is_whole = chosen.is_none();
    for group in chosen.unwrap_or_else(|| groups(old, new, whole)) {
        text.extend(b"@@\n");
        for (mark, line) in group.lines {
            text.push(mark);
            text.extend(line);
        }
        if is_whole {
            text.extend(b"*** End of File\n");
        }
    }
}

fn paths<'t>(before: &'t Tree, after: &'t Tree) -> Vec<&'t String> {
    let mut paths: Vec<&String> = before.keys().chain(after.keys()).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// A line of a diff: its mark, and itself.
type Marked<'l> = (u8, &'l [u8]);

/// Neighbouring changes with their context, and the first line of each side.
struct Group<'l> {
    old_start: usize,
    new_start: usize,
    lines: Vec<Marked<'l>>,
}

/// The shortest edit script, by the longest common subsequence.
fn script<'l>(old: &[&'l [u8]], new: &[&'l [u8]]) -> Vec<Marked<'l>> {
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] = if old[i] == new[j] {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut script = Vec::new();
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            script.push((b' ', old[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < old.len() && (j == new.len() || common[i + 1][j] >= common[i][j + 1]) {
            script.push((b'-', old[i]));
            i += 1;
        } else {
            script.push((b'+', new[j]));
            j += 1;
        }
    }
    script
}

fn groups<'l>(old: &[&'l [u8]], new: &[&'l [u8]], context: usize) -> Vec<Group<'l>> {
    let script = script(old, new);
    let changes: Vec<usize> = (0..script.len()).filter(|at| script[*at].0 != b' ').collect();
    let mut spans: Vec<Range<usize>> = Vec::new();
    for at in changes {
        let (start, end) = (at.saturating_sub(context), (at + context + 1).min(script.len()));
        match spans.last_mut() {
            Some(last) if start <= last.end => last.end = end,
            _ => spans.push(start..end),
        }
    }
    let count = |lines: &[Marked<'_>], other: u8| lines.iter().filter(|it| it.0 != other).count();
    spans
        .into_iter()
        .map(|span| Group {
            old_start: count(&script[..span.start], b'+'),
            new_start: count(&script[..span.start], b'-'),
            lines: script[span].to_vec(),
        })
        .collect()
}

impl Group<'_> {
    fn old_range(&self) -> Range<usize> {
        self.old_start..self.old_start + self.lines.iter().filter(|it| it.0 != b'+').count()
    }

    fn new_range(&self) -> Range<usize> {
        self.new_start..self.new_start + self.lines.iter().filter(|it| it.0 != b'-').count()
    }
}

/// Without lines, the number is of the line before.
fn numbers(range: &Range<usize>) -> String {
    match range.len() {
        0 => format!("{},0", range.start),
        1 => (range.start + 1).to_string(),
        length => format!("{},{length}", range.start + 1),
    }
}
