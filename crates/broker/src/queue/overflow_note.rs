//! The note about messages that a full queue has dropped. It is a user message of its own, before the next message.

use crate::one_line::one_line;

/// The longest line, in characters.
const LINE: usize = 160;

/// The note, or `None` where nothing was dropped. `texts` are the dropped messages, the oldest first; the newest `most` of
/// them have a line each.
#[must_use]
pub fn overflow_note(texts: &[&str], most: usize) -> Option<String> {
    if texts.is_empty() {
        return None;
    }
    let mut note = match texts.len() {
        1 => "[1 message was left out because the queue was full:]".to_owned(),
        many => format!("[{many} messages were left out because the queue was full:]"),
    };
    for text in texts.iter().skip(texts.len().saturating_sub(most)) {
        note.push_str("\n- ");
        note.push_str(&line(text));
    }
    Some(note)
}

/// A text in one line.
fn line(text: &str) -> String {
    let words = one_line(text);
    match words.char_indices().nth(LINE) {
        None => words,
        // The ellipsis is a character of the line.
        Some(_) => words.chars().take(LINE - 1).chain(['…']).collect(),
    }
}
