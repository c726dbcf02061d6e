//! The result of a tool, and the part of it that the model reads (docs/rules/compaction.md#tool-result-cap).
//!
//! The cap cuts on character boundaries with a marker. It must never change the full result that is stored beside it.

use serde::Deserialize;
use serde_json::value::RawValue;

use model::{Block, is_base64};

/// The maximum characters of a result, whatever the window.
const MAX_CHARS: usize = 400_000;
/// The maximum bytes of base64 of a result's images: half of the limit of a request (docs/rules/wire/anthropic.md#request).
const MAX_IMAGE_BYTES: usize = 16 * 1024 * 1024;
/// Characters per token (docs/rules/compaction.md#estimate).
const CHARS_PER_TOKEN: u64 = 4;
/// The text in place of an invalid image.
const UNREADABLE: &str = "[an image was left out: its data is not base64]";
/// Characters reserved for the marker.
const MARKER_CHARS: usize = 80;

/// The result of a tool.
#[derive(Debug, Clone)]
pub struct ToolAnswer {
    /// The content for the model: text and images.
    pub content: Vec<Block>,
    /// The whole return value, for the result and the ledger.
    pub result_json: Option<Box<RawValue>>,
    /// True when the tool failed; the content has the reason.
    pub is_error: bool,
    /// The session of the agent that the call has started.
    pub spawned_session_label: Option<String>,
}

impl ToolAnswer {
    /// A success with text only.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            content: vec![Block::text(text)],
            result_json: None,
            is_error: false,
            spawned_session_label: None,
        }
    }

    /// A failure with the text for the model.
    #[must_use]
    pub fn error(message: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(message) }
    }

    /// An answer that was stored as JSON; `None` if it cannot be read.
    #[must_use]
    pub fn parse(json: &str) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Stored {
            content: Vec<Block>,
            #[serde(default)]
            result_json: Option<String>,
            #[serde(default)]
            is_error: bool,
        }
        let Stored { content, result_json, is_error } = serde_json::from_str(json).ok()?;
        let result_json = result_json.and_then(|text| RawValue::from_string(text).ok());
        Some(Self { content, result_json, is_error, spawned_session_label: None })
    }

    /// The text of the result: for a failure, the reason.
    #[must_use]
    pub fn message(&self) -> String {
        let mut out = String::new();
        for block in &self.content {
            if let Block::Text { text, .. } = block {
                if !out.is_empty() {
                    out.push('\n');
                }
                out.push_str(text);
            }
        }
        out
    }

    /// The characters of its text.
    fn chars(&self) -> usize {
        let texts = self.content.iter().filter_map(Block::as_text);
        texts.map(|text| text.chars().count()).fold(0, usize::saturating_add)
    }

    /// Whether a model reads it only in part.
    pub(crate) fn exceeds(&self, max_chars: usize) -> bool {
        let bytes = self.content.iter().filter_map(Block::as_text).map(str::len);
        // A text has as many bytes as characters at least, and bytes need not be counted.
        bytes.fold(0, usize::saturating_add) > max_chars && self.chars() > max_chars
    }

    /// Cuts the content to `max_chars` characters of text, and images to the limit of a request. Other blocks than text and
    /// images are left out, and so are images that no provider accepts; returns the number of those. Idempotent.
    pub fn cap(&mut self, max_chars: usize) -> usize {
        self.cap_noting(max_chars, None)
    }

    /// The same; `spilled` says how the model reads the whole.
    pub(crate) fn cap_noting(&mut self, max_chars: usize, spilled: Option<&str>) -> usize {
        let total = self.chars();
        let stored = spilled.unwrap_or("the full result is stored");
        let marker_chars = MARKER_CHARS + spilled.map_or(0, |text| text.chars().count());
        let mut room =
            if total > max_chars { max_chars.saturating_sub(marker_chars) } else { total };
        let mut marker = (total > max_chars).then(|| {
            format!("\n[… {} of {total} characters were cut here; {stored} …]\n", total - room)
        });
        let mut image_room = MAX_IMAGE_BYTES;
        let mut unreadable = 0;
        let mut shown = Vec::with_capacity(self.content.len());
        for block in std::mem::take(&mut self.content) {
            match block {
                Block::Text { text, .. } => {
                    let chars = text.chars().count();
                    if chars <= room {
                        room -= chars;
                        shown.push(Block::text(text));
                    } else if let Some(marker) = marker.take() {
                        shown.push(Block::text(middle_cut(&text, chars, room, &marker)));
                        room = 0;
                    }
                }
                Block::Image { data, .. } if !is_base64(&data) => {
                    unreadable += 1;
                    shown.push(Block::text(UNREADABLE));
                }
                Block::Image { mime_type, data } => match image_room.checked_sub(data.len()) {
                    Some(left) => {
                        image_room = left;
                        shown.push(Block::Image { mime_type, data });
                    }
                    None => shown.push(Block::text("[an image was left out: it is too large]")),
                },
                Block::Thinking { .. }
                | Block::RedactedThinking { .. }
                | Block::ToolCall { .. }
                | Block::ToolResult { .. }
                | Block::Opaque { .. } => {}
            }
        }
        self.content = shown;
        unreadable
    }
}

/// The head and a shorter tail of `text`, `room` characters together, with the marker between them: an output names its
/// subject first and an error last.
fn middle_cut(text: &str, chars: usize, room: usize, marker: &str) -> String {
    let tail = room / 4;
    let head = room - tail;
    let at = |n: usize| text.char_indices().nth(n).map_or(text.len(), |(at, _)| at);
    let mut out = String::with_capacity(room + marker.len());
    out.push_str(text.get(..at(head)).unwrap_or_default());
    out.push_str(marker);
    out.push_str(text.get(at(chars - tail)..).unwrap_or_default());
    out
}

/// The maximum characters of a result for a model: 30 % of its window, and 400,000.
#[must_use]
pub fn result_cap(window_tokens: Option<u64>) -> usize {
    window_tokens
        .map(|tokens| tokens.saturating_mul(CHARS_PER_TOKEN) / 10 * 3)
        .and_then(|chars| usize::try_from(chars).ok())
        .map_or(MAX_CHARS, |chars| chars.min(MAX_CHARS))
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{MAX_IMAGE_BYTES, ToolAnswer, result_cap};
    use model::Block;

    fn texts(answer: &ToolAnswer) -> Vec<String> {
        answer
            .content
            .iter()
            .map(|block| match block {
                Block::Text { text, .. } => text.clone(),
                Block::Image { data, .. } => format!("image:{}", data.len()),
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn the_cap_is_30_percent_of_the_window_and_at_most_400_000() {
        assert_eq!(result_cap(None), 400_000);
        assert_eq!(result_cap(Some(200_000)), 240_000);
        assert_eq!(result_cap(Some(8_000)), 9_600);
        assert_eq!(result_cap(Some(u64::MAX)), 400_000);
    }

    #[test]
    fn a_long_text_is_cut_in_the_middle_on_a_character_boundary_and_marked() {
        let mut answer = ToolAnswer::text("ä".repeat(300) + "end");
        answer.result_json = Some(RawValue::from_string("{\"full\":true}".to_owned()).unwrap());
        answer.cap(200);
        let expected = "ä".repeat(90)
            + "\n[… 183 of 303 characters were cut here; the full result is stored …]\n"
            + &"ä".repeat(27)
            + "end";
        let once = texts(&answer);
        assert!(expected.chars().count() <= 200);
        assert_eq!(once, [expected]);
        answer.cap(200);
        assert_eq!(texts(&answer), once);
        assert_eq!(answer.result_json.unwrap().get(), "{\"full\":true}");
    }

    #[test]
    fn blocks_share_the_cap_and_images_stay() {
        let image = Block::Image { mime_type: "image/png".into(), data: "AAAA".into() };
        let mut answer = ToolAnswer::text("a".repeat(100));
        answer.content.extend([image.clone(), Block::text("b".repeat(200)), Block::text("c")]);
        answer.cap(200);
        let marker = "\n[… 181 of 301 characters were cut here; the full result is stored …]\n";
        assert_eq!(
            texts(&answer),
            ["a".repeat(100), "image:4".into(), format!("{}{marker}{}", "b".repeat(15), "bbbbb")]
        );
        answer.content = vec![Block::Image {
            mime_type: "image/png".into(),
            data: "A".repeat(MAX_IMAGE_BYTES + 4),
        }];
        answer.cap(200);
        assert_eq!(texts(&answer), ["[an image was left out: it is too large]"]);
    }

    #[test]
    fn an_image_that_is_no_base64_becomes_a_text_and_is_counted() {
        let image = |data: &str| Block::Image { mime_type: "image/png".into(), data: data.into() };
        let mut answer = ToolAnswer::text("a");
        answer.content.extend([image("not base64!"), image("AAAA"), image("")]);
        assert_eq!(answer.cap(200), 2);
        let note = "[an image was left out: its data is not base64]";
        assert_eq!(texts(&answer), ["a", note, "image:4", note]);
        assert_eq!(answer.cap(200), 0);
    }
}
