//! A text in one line, so that it cannot begin a line of its own where it is put.

/// The words of a text, with one space between them.
pub(crate) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
