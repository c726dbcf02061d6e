//! Which root a path belongs to, and how it is called beneath it. This is an address and not a check: whatever comes out of it
//! is resolved by the kernel beneath the handle of that root.

use std::path::{Component, Path, PathBuf};

use crate::error::{ToolError, quoted};

/// The longest path that a tool takes, as the kernel has it.
const MAX_PATH: usize = 4_096;

/// A path beneath a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Location {
    /// 0 is the workspace, the others are the read roots.
    pub(crate) root: usize,
    /// Never empty: the root itself is `.`.
    pub(crate) relative: PathBuf,
}

/// The location of a path as a model writes it: relative to the workspace, or absolute. `roots` has the names of each root: as
/// the host gave it, and without symbolic links.
pub(crate) fn locate(given: &str, roots: &[Vec<PathBuf>]) -> Result<Location, ToolError> {
    let path = given.strip_prefix('@').unwrap_or(given);
    if path.is_empty() {
        return Err(ToolError::new("`path` is empty"));
    }
    if path.len() > MAX_PATH {
        return Err(ToolError::new(format!("`{}` is too long for a path", quoted(given))));
    }
    if path.contains('\0') {
        return Err(ToolError::new("`path` has a NUL character"));
    }
    if path == "~" || path.starts_with("~/") {
        let message = "`~` is not expanded; give a path relative to the workspace";
        return Err(ToolError::new(message));
    }
    let base = roots.first().and_then(|names| names.first());
    let absolute = normalized(&base.map_or_else(PathBuf::new, Clone::clone).join(path));
    for (root, names) in roots.iter().enumerate() {
        for name in names {
            if let Ok(relative) = absolute.strip_prefix(name) {
                let empty = relative.as_os_str().is_empty();
                let relative = if empty { Path::new(".") } else { relative };
                return Ok(Location { root, relative: relative.to_owned() });
            }
        }
    }
    Err(ToolError::new(format!(
        "`{}` is outside of the workspace; use a path in it",
        quoted(given)
    )))
}

/// A path without `.` and `..`, by its text.
fn normalized(path: &Path) -> PathBuf {
    let mut parts = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                parts.push(component)
            }
        }
    }
    parts
}

/// Other spellings of a path, in the order in which they are tried after the path itself: Unicode spaces as plain ones, then as
/// macOS names its screenshots.
pub(crate) fn spellings(given: &str) -> Vec<String> {
    let plain = plain_spaces(given);
    let narrow = plain.replace(" AM.", "\u{202f}AM.").replace(" PM.", "\u{202f}PM.");
    let curly = plain.replace('\'', "\u{2019}");
    let mut others = Vec::new();
    for spelling in [plain, narrow, curly] {
        if spelling != given && !others.contains(&spelling) {
            others.push(spelling);
        }
    }
    others
}

/// A path with plain spaces.
pub(crate) fn plain_spaces(given: &str) -> String {
    given.chars().map(|char| if is_space(char) { ' ' } else { char }).collect()
}

fn is_space(char: char) -> bool {
    matches!(char, '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(path: &str) -> Result<(usize, String), String> {
        let roots = [
            vec![PathBuf::from("/w/link"), PathBuf::from("/w/real")],
            vec![PathBuf::from("/docs")],
        ];
        locate(path, &roots)
            .map(|at| (at.root, at.relative.to_string_lossy().into_owned()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_path_is_named_beneath_the_root_that_it_is_in() {
        let inside = [
            ("a.txt", (0, "a.txt")),
            ("@a.txt", (0, "a.txt")),
            ("./a//b/../c/", (0, "a/c")),
            (".", (0, ".")),
            ("../link/a", (0, "a")),
            ("/w/real/a", (0, "a")),
            ("/docs", (1, ".")),
            ("/docs/x/y", (1, "x/y")),
        ];
        for (path, (root, relative)) in inside {
            assert_eq!(located(path), Ok((root, relative.to_owned())), "{path}");
        }
        for path in ["..", "/etc/passwd", "/w/link2/a", "/documents", "~", "~/a", "", "a\0b"] {
            assert!(located(path).is_err(), "{path:?}");
        }
    }

    #[test]
    fn a_path_with_unusual_spaces_has_other_spellings() {
        assert_eq!(spellings("a.txt"), Vec::<String>::new());
        assert_eq!(spellings("a\u{a0}b"), ["a b"]);
        assert_eq!(spellings("at 5 PM.png"), ["at 5\u{202f}PM.png"]);
        assert_eq!(spellings("d'ici"), ["d\u{2019}ici"]);
    }
}
