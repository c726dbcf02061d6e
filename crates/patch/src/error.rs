//! What is wrong with a patch: the line of the patch, and a problem that its author can act on.

/// A problem, at a line of the patch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct PatchError {
    /// The line of the patch, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with a patch.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The line is another one than the form requires.
    #[error("expected {expected}, found `{found}`")]
    Expected {
        /// What the form requires.
        expected: &'static str,
        /// The line, shortened.
        found: String,
    },
    /// The patch ends where the form requires more.
    #[error("expected {expected}, but the patch ends here")]
    Ended {
        /// What the form requires.
        expected: &'static str,
    },
    /// The path cannot be one of the workspace.
    #[error("the path `{path}` {reason}")]
    Path {
        /// The path, shortened.
        path: String,
        /// Why it is refused.
        reason: &'static str,
    },
    /// The patch needs what cannot be applied.
    #[error("{what} cannot be applied: {instead}")]
    Unsupported {
        /// What it needs.
        what: &'static str,
        /// What to do.
        instead: &'static str,
    },
    /// The hunk has other numbers of lines than its header.
    #[error(
        "the header announces {old} old and {new} new lines, but the hunk has {old_found} and {new_found}: correct the numbers, or write `@@` alone"
    )]
    Counts {
        /// As announced.
        old: usize,
        /// As announced.
        new: usize,
        /// As found.
        old_found: usize,
        /// As found.
        new_found: usize,
    },
    /// The hunk neither adds nor removes a line.
    #[error("the hunk changes nothing: it has no line that begins with `+` or `-`")]
    NoChange,
    /// The section names a file and does nothing with it.
    #[error("the section of `{path}` changes nothing: {instead}")]
    EmptySection {
        /// The file.
        path: String,
        /// What to write.
        instead: &'static str,
    },
    /// The file is not there.
    #[error("`{path}` does not exist{hint}")]
    Missing {
        /// The file.
        path: String,
        /// What to do, if it is known.
        hint: &'static str,
    },
    /// A file that the patch makes is there already.
    #[error("`{path}` exists already: update it, or delete it first")]
    Exists {
        /// The file.
        path: String,
    },
    /// The path leads through a file of the patch.
    #[error(
        "`{path}` cannot be made, because `{file}` is a file: choose another name for one of them"
    )]
    Nested {
        /// The path.
        path: String,
        /// The file.
        file: String,
    },
    /// The old lines of the hunk are not in the file.
    #[error("the lines of this hunk are not in `{path}` {searched}{}", first_missing(*searched, missing.as_deref()))]
    NotFound {
        /// The file.
        path: String,
        /// The part of the file that was searched.
        searched: Searched,
        /// The first of the lines that is nowhere in that part; none if all of them are there, but not together. Of a hunk that
        /// ends the file, its last line.
        missing: Option<String>,
    },
    /// The hunk fits several places.
    #[error("the lines of this hunk are in `{path}` several times, at lines {}: add context lines", listed(lines, *has_more))]
    Ambiguous {
        /// The file.
        path: String,
        /// The first places, as lines counted from 1.
        lines: Vec<usize>,
        /// Whether there are others.
        has_more: bool,
    },
    /// The `@@` line of a hunk is not in the file.
    #[error("the line `{header}` after `@@` is not in `{path}` {searched}")]
    HeaderNotFound {
        /// The file.
        path: String,
        /// The line.
        header: String,
        /// The part of the file that was searched.
        searched: Searched,
    },
    /// The hunk begins after the end of the file.
    #[error("the hunk belongs after line {line}, but `{path}` has {length} lines")]
    BeyondEnd {
        /// The file.
        path: String,
        /// The line that the header names.
        line: usize,
        /// The number of lines of the file.
        length: usize,
    },
    /// The hunks of a file are not in its order, or two of them change the same line.
    #[error(
        "the hunk belongs before the end of the hunk above: write the hunks in the order of `{path}`"
    )]
    Order {
        /// The file.
        path: String,
    },
    /// The patch deletes a file and does not name all of its lines.
    #[error("`{path}` has lines that the patch does not delete")]
    NotEmpty {
        /// The file.
        path: String,
    },
    /// The search was stopped.
    #[error(
        "the search in `{path}` takes too many steps: use fewer hunks, with context that occurs once"
    )]
    TooMuchWork {
        /// The file.
        path: String,
    },
    /// The file is larger than 4 GiB.
    #[error("`{path}` is too large to be patched")]
    TooLarge {
        /// The file.
        path: String,
    },
    /// The list of problems was ended.
    #[error("{count} more problems")]
    More {
        /// How many are not listed.
        count: usize,
    },
}

/// The part of a file where a hunk may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Searched {
    /// All of it.
    Whole,
    /// The lines after this one, counted from 1.
    After(usize),
    /// Its last lines.
    End,
}

impl std::fmt::Display for Searched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Whole => f.write_str("(all of it was searched)"),
            Self::After(line) => write!(f, "after line {line}"),
            Self::End => f.write_str("at its end"),
        }
    }
}

fn first_missing(searched: Searched, missing: Option<&str>) -> String {
    match (searched, missing) {
        (Searched::End, Some(line)) => format!(": the last one is `{line}`"),
        (_, Some(line)) => format!(": the first one that is missing is `{line}`"),
        (_, None) => ": each of them is, but not together".to_owned(),
    }
}

fn listed(lines: &[usize], has_more: bool) -> String {
    let mut text = lines.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
    if has_more {
        text.push_str(" and others");
    }
    text
}

/// The longest excerpt of a line, in characters.
const EXCERPT: usize = 80;

/// A line as it stands in a message.
pub(crate) fn excerpt(line: &[u8]) -> String {
    // A character has at most four bytes.
    let head = line.get(..EXCERPT * 4).unwrap_or(line);
    let text = String::from_utf8_lossy(head);
    let mut characters = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut excerpt: String = characters.by_ref().take(EXCERPT).collect();
    if characters.next().is_some() || head.len() < line.len() {
        excerpt.push('…');
    }
    excerpt
}
