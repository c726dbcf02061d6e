//! Cuts a text into chunks: at most so many tokens each, ending at a paragraph, a sentence or a word where there is one.
//!
//! The chunks of a text, joined, are the text without the white space at the cuts. It must never cut inside a character.

/// The most tokens of a chunk.
pub const CHUNK_TOKENS: usize = 400;
/// The most chunks of one turn: about 1 MB of text.
pub const MOST_CHUNKS: usize = 768;

/// The weight of a token: an ASCII character weighs 1, another one 2.
const TOKEN_WEIGHT: usize = 4;
/// A cut earlier than at this share of a chunk makes chunks too small.
const EARLIEST: usize = 2;

/// How good a place for a cut is. The last of the best in reach is taken.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cut {
    Character,
    Word,
    Sentence,
    Paragraph,
}

/// The chunks of `text`, each of at most `tokens`, without white space around them. A text without words has none.
#[must_use]
pub fn chunks(text: &str, tokens: usize) -> Vec<&str> {
    let most = tokens.max(1) * TOKEN_WEIGHT;
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at_checked(end_of_chunk(rest, most)).unwrap_or((rest, ""));
        found.push(chunk.trim_end());
        rest = after.trim_start();
    }
    found
}

/// Where the first chunk of a text ends, in bytes; at least one character.
fn end_of_chunk(text: &str, most: usize) -> usize {
    let mut weight = 0;
    let mut best = (Cut::Character, 0);
    let mut before = '\0';
    for (at, c) in text.char_indices() {
        let next = weight + if c.is_ascii() { 1 } else { 2 };
        if next > most && at > 0 {
            return if best.1 == 0 { at } else { best.1 };
        }
        if weight * EARLIEST >= most || best.0 == Cut::Character {
            let cut = cut_before(before, c, at);
            if cut > Cut::Character && cut >= best.0 {
                best = (cut, at);
            }
        }
        weight = next;
        before = c;
    }
    text.len()
}

/// How good a cut between two characters is.
fn cut_before(before: char, c: char, at: usize) -> Cut {
    if at == 0 {
        return Cut::Character;
    }
    match (before, c) {
        ('\n', '\n') => Cut::Paragraph,
        (_, '\n') | ('。' | '！' | '？', _) => Cut::Sentence,
        ('.' | '!' | '?' | ';', c) if c.is_whitespace() => Cut::Sentence,
        (_, c) if c.is_whitespace() => Cut::Word,
        _ => Cut::Character,
    }
}

/// The first characters of `text`, at most so many, cut at a word where there is one; `…` marks a cut.
#[must_use]
pub fn excerpt(text: &str, most: usize) -> String {
    let text = text.trim();
    let Some((end, _)) = text.char_indices().nth(most) else { return text.to_owned() };
    let cut = text.get(..end).unwrap_or(text);
    let at_word = cut.rfind(char::is_whitespace).filter(|at| *at * 2 > cut.len());
    let cut = at_word.and_then(|at| cut.get(..at)).unwrap_or(cut);
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{TOKEN_WEIGHT, chunks, excerpt};

    #[test]
    fn a_short_text_is_one_chunk_and_one_without_words_has_none() {
        assert_eq!(chunks("  Hello there.\n", 400), ["Hello there."]);
        assert_eq!(chunks(" \n\t ", 400), Vec::<&str>::new());
        assert_eq!(chunks("", 400), Vec::<&str>::new());
    }

    #[test]
    fn a_text_is_cut_at_the_last_paragraph_in_reach_then_at_a_sentence_then_at_a_word() {
        let text = "One two three.\n\nFour five. Six seven.\n\nEight";
        assert_eq!(chunks(text, 10), ["One two three.\n\nFour five. Six seven.", "Eight"]);
        assert_eq!(chunks("One two three. Four five six", 6), ["One two three.", "Four five six"]);
        assert_eq!(chunks("aaaa bbbb cccc dddd", 3), ["aaaa bbbb", "cccc dddd"]);
        assert_eq!(chunks("abcdefghij", 1), ["abcd", "efgh", "ij"]);
        assert_eq!(chunks("上下文过长", 1), ["上下", "文过", "长"]);
    }

    #[test]
    fn an_excerpt_is_cut_at_a_word_and_marked() {
        assert_eq!(excerpt("one two three", 20), "one two three");
        assert_eq!(excerpt("one two three", 9), "one two…");
        assert_eq!(excerpt("ünïcödé", 3), "ünï…");
    }

    proptest! {
        #[test]
        fn the_chunks_of_a_text_have_all_its_words_and_none_is_too_long(
            text in "[a-zé上。. \n]{0,400}", tokens in 1_usize..20,
        ) {
            let found = chunks(&text, tokens);
            let black = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(black(&found.concat()), black(&text));
            for chunk in found {
                let weight: usize = chunk.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum();
                prop_assert!(weight <= tokens * TOKEN_WEIGHT);
                prop_assert!(!chunk.is_empty() && chunk.trim() == chunk);
            }
        }
    }
}
