//! The file names of a diff: quoted ones, times behind them, and the prefixes `a/` and `b/`.

use crate::error::{Problem, excerpt};

/// A name as a diff has it, before its prefix is removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) path: Vec<u8>,
    /// The time behind it is the epoch: `diff -N` writes it for a file that does not exist.
    pub(super) is_epoch: bool,
}

impl Name {
    pub(super) fn is_null(&self) -> bool {
        self.path == b"/dev/null"
    }
}

/// Reads what stands after `--- `, `rename from ` and their like.
pub(super) fn name(text: &[u8]) -> Result<Name, Problem> {
    let (path, rest) = match text.strip_prefix(b"\"") {
        Some(quoted) => unquoted(quoted).ok_or_else(|| Problem::Path {
            path: excerpt(text),
            reason: "has no closing quote, or an escape that does not exist",
        })?,
        None => {
            let end = memchr::memchr(b'\t', text).unwrap_or(text.len());
            let (path, rest) = text.split_at(end);
            (path.trim_ascii_end().to_vec(), rest)
        }
    };
    let time = rest.trim_ascii();
    let is_epoch = time.starts_with(b"1970-01-01 ") || time.starts_with(b"1969-12-31 ");
    Ok(Name { path, is_epoch })
}

/// The two names of `diff --git`. Unquoted ones are separated by a space and may have spaces themselves: they are read if both
/// are the same file, which is the only case where no other line has the names.
pub(super) fn git_names(text: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    if let Some(quoted) = text.strip_prefix(b"\"") {
        let (old, rest) = unquoted(quoted)?;
        let (new, _) = unquoted(rest.strip_prefix(b" \"")?)?;
        return Some((old, new));
    }
    let (old, rest) = text.split_at_checked(text.len() / 2)?;
    let new = rest.strip_prefix(b" ")?;
    let same = |prefix: &[u8], other: &[u8]| {
        old.strip_prefix(prefix).is_some_and(|old| new.strip_prefix(other) == Some(old))
    };
    let is_known = old == new || PREFIXES.iter().any(|(left, right)| same(left, right));
    is_known.then(|| (old.to_vec(), new.to_vec()))
}

/// The prefixes of the old and the new name: of `git diff`, and with `diff.mnemonicPrefix`.
const PREFIXES: [(&[u8], &[u8]); 5] =
    [(b"a/", b"b/"), (b"i/", b"w/"), (b"c/", b"i/"), (b"c/", b"w/"), (b"o/", b"w/")];

/// Removes `a/` and `b/` if both names have them, or one where the other is `/dev/null`; the other pairs in a git diff only.
pub(super) fn without_prefixes<'n>(
    old: &'n Name,
    new: &'n Name,
    is_git: bool,
) -> (&'n [u8], &'n [u8]) {
    let known = if is_git { PREFIXES.as_slice() } else { PREFIXES.get(..1).unwrap_or_default() };
    for (left, right) in known {
        let stripped_old = old.path.strip_prefix(*left);
        let stripped_new = new.path.strip_prefix(*right);
        match (stripped_old, stripped_new) {
            (Some(old), Some(new)) => return (old, new),
            (Some(old), None) if new.is_null() => return (old, &new.path),
            (None, Some(new)) if old.is_null() => return (&old.path, new),
            _ => {}
        }
    }
    (&old.path, &new.path)
}

/// A C string without its opening quote, and what follows the closing one.
fn unquoted(text: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut path = Vec::new();
    let mut rest = text;
    loop {
        let (&byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((path, rest)),
            b'\\' => {
                let (&escape, after) = rest.split_first()?;
                rest = after;
                path.push(match escape {
                    b'a' => 7,
                    b'b' => 8,
                    b't' => b'\t',
                    b'n' => b'\n',
                    b'v' => 11,
                    b'f' => 12,
                    b'r' => b'\r',
                    b'"' | b'\\' => escape,
                    b'0'..=b'3' => {
                        let (digits, after) = rest.split_at_checked(2)?;
                        rest = after;
                        digits.iter().try_fold(escape - b'0', |value, digit| match digit {
                            b'0'..=b'7' => Some(value * 8 + (digit - b'0')),
                            _ => None,
                        })?
                    }
                    _ => return None,
                });
            }
            other => path.push(other),
        }
    }
}
