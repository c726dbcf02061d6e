//! The quality gate: whether a summary may replace its messages (docs/rules/compaction.md#quality-gate).
//!
//! It compares the summary with the summarised messages, and never trusts the model's own claim. A summary that fails here
//! must never replace a history.

use std::collections::BTreeSet;
use std::fmt;

use crate::estimate;

/// The sections of a summary.
pub(super) const SECTIONS: [&str; 6] = [
    "Goal",
    "Constraints & preferences",
    "Progress",
    "Key decisions",
    "Next steps",
    "Critical context",
];

/// The maximum number of identifiers checked: a request with a page of ids is not about each of them.
const MOST_IDENTIFIERS: usize = 32;

/// A defect of a summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw {
    /// There is no text.
    Empty,
    /// It is not smaller than the summarised messages.
    NotSmaller {
        /// Its tokens.
        summary: u64,
        /// The tokens of the summarised messages.
        input: u64,
    },
    /// A section is missing or empty.
    Section(&'static str),
    /// An identifier of a message that stays is not in it.
    Identifier(String),
}

impl Flaw {
    /// Whether a second attempt is useless.
    pub fn is_fatal(&self) -> bool {
        match self {
            Self::Empty | Self::NotSmaller { .. } => true,
            Self::Section(_) | Self::Identifier(_) => false,
        }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "it had no text"),
            Self::NotSmaller { summary, input } => write!(
                f,
                "it had about {summary} tokens, and what it stands for has {input}; be much shorter"
            ),
            Self::Section(name) => write!(f, "the section `## {name}` was missing or empty"),
            Self::Identifier(text) => write!(f, "`{text}` was not in it; repeat it exactly"),
        }
    }
}

/// What a summary is checked against.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// The text the model wrote.
    pub summary: &'a str,
    /// The tokens of the summarised messages.
    pub input_tokens: u64,
    /// The text of the summarised messages.
    pub summarised: &'a str,
    /// The user's text in messages that stay.
    pub user_requests: &'a str,
    /// Whether the sections are required.
    pub sections: bool,
}

/// The defects of the summary; empty where it is accepted.
pub fn judge(judged: Judged<'_>) -> Vec<Flaw> {
    if judged.summary.trim().is_empty() {
        return vec![Flaw::Empty];
    }
    let mut flaws = Vec::new();
    let summary = estimate::text_tokens(judged.summary);
    if summary >= judged.input_tokens {
        flaws.push(Flaw::NotSmaller { summary, input: judged.input_tokens });
    }
    if judged.sections {
        flaws.extend(
            SECTIONS
                .iter()
                .filter(|name| !has_section(judged.summary, name))
                .map(|name| Flaw::Section(name)),
        );
    }
    flaws.extend(
        identifiers(judged.user_requests)
            .into_iter()
            .filter(|id| {
                judged.summarised.contains(id.as_str()) && !judged.summary.contains(id.as_str())
            })
            .take(MOST_IDENTIFIERS)
            .map(Flaw::Identifier),
    );
    flaws
}

/// Whether the section has a heading and at least one line.
fn has_section(summary: &str, name: &str) -> bool {
    let mut inside = false;
    for line in summary.lines() {
        let heading =
            line.trim_start().strip_prefix('#').map(|rest| rest.trim_matches(['#', ' ', ':', '*']));
        match heading {
            Some(title) => {
                inside = title.eq_ignore_ascii_case(name)
                    || (inside && line.trim_start().starts_with("###"))
            }
            None if inside && !line.trim().is_empty() => return true,
            None => {}
        }
    }
    false
}

/// The identifiers in a text: paths, URLs, addresses, ids, names with digits or underscores.
fn identifiers(text: &str) -> BTreeSet<String> {
    text.split(|c: char| c.is_whitespace() || "\"'`()[]{}<>,;".contains(c))
        .map(|word| word.trim_matches(|c: char| ".:!?*".contains(c)))
        .filter(|word| (4..=200).contains(&word.len()) && is_identifier(word))
        .map(ToOwned::to_owned)
        .collect()
}

fn is_identifier(word: &str) -> bool {
    let inner = |c: char| word.trim_matches(c).contains(c);
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let letters = word.chars().filter(|c| c.is_alphabetic()).count();
    inner('/')
        || word.starts_with('/')
        || word.contains("://")
        || word.contains('@')
        || inner('_')
        || word.contains("::")
        || digits >= 4
        || (digits > 0 && letters > 0)
        || (inner('.') && letters > 0)
}
