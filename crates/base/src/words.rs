//! The words of a text, for the search indexes of every ledger and for a search. Pure: it must never read a ledger.
//!
//! Both use these functions, so that they always agree. Scripts without spaces are indexed as pairs of characters.

/// The words of a text in the form that a ledger indexes: lower case, with one space between them.
pub fn search_words(text: &str) -> String {
    let mut words = String::with_capacity(text.len());
    for (_, run) in runs(text) {
        if run.starts_with(is_dense) {
            words.extend(pairs(run).into_iter().flat_map(|pair| [pair, " ".to_owned()]));
            // The last character is also a separate word, so that a search for one character finds it.
            words.extend(run.chars().last());
        } else {
            words.push_str(&run.to_lowercase());
        }
        words.push(' ');
    }
    words
}

/// The terms of a search: words and prefixes, each of which must be found.
pub struct Wanted(Vec<(String, Match)>);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    Whole,
    Beginning,
}

/// The terms of a search for `text`; a last word before a `*` is a prefix. `None` for a text without a word.
pub fn wanted(text: &str) -> Option<Wanted> {
    let mut terms = Vec::new();
    for (_, run) in runs(text) {
        if !run.starts_with(is_dense) {
            terms.push((run.to_lowercase(), Match::Whole));
        } else if run.chars().nth(1).is_none() {
            terms.push((run.to_owned(), Match::Beginning));
        } else {
            terms.extend(pairs(run).into_iter().map(|pair| (pair, Match::Whole)));
        }
    }
    if text.trim_end().ends_with('*')
        && let Some((_, how)) = terms.last_mut()
    {
        *how = Match::Beginning;
    }
    (!terms.is_empty()).then_some(Wanted(terms))
}

impl Wanted {
    /// The query of FTS5.
    pub fn query(&self) -> String {
        let terms = self.0.iter().map(|(word, how)| match how {
            Match::Whole => format!("\"{word}\""),
            Match::Beginning => format!("\"{word}\"*"),
        });
        terms.collect::<Vec<_>>().join(" AND ")
    }

    /// The query of PostgreSQL's `tsquery`, over lexemes that are the words.
    #[must_use]
    pub fn tsquery(&self) -> String {
        let terms = self.0.iter().map(|(word, how)| match how {
            Match::Whole => format!("'{word}'"),
            Match::Beginning => format!("'{word}':*"),
        });
        terms.collect::<Vec<_>>().join(" & ")
    }

    /// A query of PostgreSQL for each term.
    #[must_use]
    pub fn tsqueries(self) -> Vec<String> {
        self.singly().map(|term| term.tsquery()).collect()
    }

    /// Splits the terms into searches for one term each.
    pub fn singly(self) -> impl Iterator<Item = Self> {
        self.0.into_iter().map(|term| Self(vec![term]))
    }

    /// The number of terms.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Drops all but the first `most`.
    pub fn truncate(&mut self, most: usize) {
        self.0.truncate(most);
    }

    /// Whether `words`, a result of [`search_words`], contain all terms, by the rules of FTS5.
    pub fn are_in(&self, words: &str) -> bool {
        self.0.iter().all(|term| is_in(words, term))
    }

    /// The number of terms that `words` contain.
    pub fn matched(&self, words: &str) -> usize {
        self.0.iter().filter(|term| is_in(words, term)).count()
    }
}

fn is_in(words: &str, (wanted, how): &(String, Match)) -> bool {
    words.split(' ').any(|word| match how {
        Match::Whole => word == wanted,
        Match::Beginning => word.starts_with(wanted.as_str()),
    })
}

/// The position in `text` of the first word of `query`, in bytes; 0 if the index matched only a part of a word.
pub fn position(text: &str, query: &str) -> usize {
    let wanted: Vec<String> = runs(query).map(|(_, run)| run.to_lowercase()).collect();
    let begins = |run: &str| {
        let run = run.to_lowercase();
        wanted.iter().any(|word| run.starts_with(word.as_str()))
    };
    runs(text).find(|(_, run)| begins(run)).map_or(0, |(at, _)| at)
}

/// At most `most` characters of `content`, around the first word of `text` in it.
#[must_use]
pub fn excerpt(content: &str, text: &str, most: usize) -> String {
    let at = position(content, text);
    let (before, from) = content.split_at_checked(at).unwrap_or(("", content));
    let lead = before.char_indices().rev().nth(most / 4 - 1).map_or(0, |(start, _)| start);
    let start = content.get(lead..).unwrap_or(from);
    let end = start.char_indices().nth(most).map_or(start.len(), |(end, _)| end);
    let mut excerpt = String::with_capacity(end + 6);
    if lead > 0 {
        excerpt.push('…');
    }
    excerpt.push_str(start.get(..end).unwrap_or(start));
    if end < start.len() {
        excerpt.push('…');
    }
    excerpt
}

/// The runs of characters of one kind, with their positions.
fn runs(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let tail = text.get(rest..)?;
        let start = rest + tail.find(is_word)?;
        let tail = text.get(start..)?;
        let dense = tail.chars().next().is_some_and(is_dense);
        let length = tail.find(|c| !is_word(c) || is_dense(c) != dense).unwrap_or(tail.len());
        rest = start + length;
        Some((start, text.get(start..rest)?))
    })
}

/// Each pair of adjacent characters.
fn pairs(run: &str) -> Vec<String> {
    let characters: Vec<char> = run.chars().collect();
    characters.windows(2).map(|pair| pair.iter().collect()).collect()
}

fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    // Combining marks belong to their letter; the ranges are the blocks of signs.
    !(c.is_whitespace()
        || c.is_control()
        || matches!(c, '\u{a1}'..='\u{a9}' | '\u{ab}'..='\u{b4}' | '\u{b6}'..='\u{b9}' | '\u{bb}'..='\u{bf}'
            | '\u{d7}' | '\u{f7}' | '\u{2000}'..='\u{206f}' | '\u{2190}'..='\u{2bff}' | '\u{3000}'..='\u{3004}'
            | '\u{3008}'..='\u{3020}' | '\u{3030}' | '\u{fe10}'..='\u{fe1f}' | '\u{fe30}'..='\u{fe6f}'
            | '\u{ff01}'..='\u{ff0f}' | '\u{ff1a}'..='\u{ff20}' | '\u{ff3b}'..='\u{ff40}' | '\u{ff5b}'..='\u{ff65}'))
}

/// Whether the character is of a script without spaces between words.
fn is_dense(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::{excerpt, position, search_words, wanted};

    #[test]
    fn words_are_cut_at_spaces_and_signs_and_scripts_without_spaces_into_pairs() {
        for (text, words) in [
            ("Hello, World! x_1", "hello world x_1 "),
            ("naïve Ünder-score «z»", "naïve ünder score z "),
            ("हिन्दी में", "हिन्दी में "),
            ("上下文过长 ok", "上下 下文 文过 过长 长 ok "),
            ("文", "文 "),
            ("id-42:foo/bar.rs", "id 42 foo bar rs "),
            ("😀 → …", ""),
        ] {
            let words = if text.contains('😀') { "😀 " } else { words };
            assert_eq!(search_words(text), words, "{text}");
        }
    }

    #[test]
    fn a_query_names_every_word_and_nothing_else_to_the_index() {
        for (text, expected) in [
            ("Hello World", Some(r#""hello" AND "world""#)),
            (r#"a" OR b NOT (c*"#, Some(r#""a" AND "or" AND "b" AND "not" AND "c"*"#)),
            ("e-mail NEAR", Some(r#""e" AND "mail" AND "near""#)),
            ("文", Some(r#""文"*"#)),
            ("上下文", Some(r#""上下" AND "下文""#)),
            ("pre *", Some(r#""pre"*"#)),
            (" -:\"* ", None),
            ("", None),
        ] {
            assert_eq!(wanted(text).map(|it| it.query()).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_text_is_matched_as_the_index_would_match_it() {
        let words = search_words("The Größe of 上下文 is id_7");
        for (query, found) in [
            ("größe ID_7", 2),
            ("größ", 0),
            ("größ*", 1),
            ("文 id*", 2),
            ("上文", 0),
            ("of absent", 1),
        ] {
            let wanted = wanted(query).unwrap();
            assert_eq!(wanted.matched(&words), found, "{query}");
            assert_eq!(wanted.are_in(&words), wanted.count() == found, "{query}");
        }
    }

    #[test]
    fn the_first_word_of_the_query_is_found_in_the_text() {
        assert_eq!(position("Größe: the Needle here", "needle"), 13);
        assert_eq!(position("nothing of it", "absent"), 0);
    }

    #[test]
    fn an_excerpt_is_cut_on_characters_and_marks_each_cut() {
        assert_eq!(excerpt("short Needle", "needle", 160), "short Needle");
        let long = format!("{} needle {}", "ü".repeat(500), "é".repeat(500));
        let cut = excerpt(&long, "needle", 160);
        assert_eq!(cut.chars().count(), 162);
        assert!(cut.starts_with("…ü") && cut.ends_with("é…") && cut.contains(" needle "));
    }
}
