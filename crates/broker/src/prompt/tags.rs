//! The tags around a text that somebody else wrote, such that the text cannot end them or write others
//! (docs/rules/prompts.md#tags).

use model::BlockOrigin;
use serde_json::Value;

/// A file of the workspace. A closing tag in it is changed: the prompt must stay the same from call to call, so that it has no
/// random mark.
#[must_use]
pub fn file_tag(path: &str, content: &str) -> String {
    let content = unclosed("file", content);
    format!("<file path={}>\n{}\n</file>", attribute(path), content.trim_end_matches('\n'))
}

/// A text without closing tags of this name. A model reads them in any case, and with blanks.
pub(super) fn unclosed(name: &str, text: &str) -> String {
    let closes = |tag: &str| {
        let named = tag.trim_start().strip_prefix('/').map(str::trim_start);
        let named = named.and_then(|named| named.get(..name.len()));
        named.is_some_and(|it| it.eq_ignore_ascii_case(name))
    };
    let mut pieces = text.split('<');
    let mut changed = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        changed.push_str(if closes(piece) { "<\\" } else { "<" });
        changed.push_str(piece);
    }
    changed
}

/// A text that is put into a message: the context of an event, or what a memory returned. `nonce` is new for each message: a
/// text that was written before cannot have it, so that none ends the tag or forges another.
#[must_use]
pub fn context_tag(
    origin: BlockOrigin,
    nonce: &str,
    attributes: &[(&str, &str)],
    text: &str,
) -> String {
    let name = match origin {
        BlockOrigin::Event => "event",
        BlockOrigin::Memory => "memory",
    };
    tag(name, nonce, attributes, text)
}

/// A text that somebody else wrote. `nonce` as for [`context_tag`].
#[must_use]
pub fn tag(of: &str, nonce: &str, attributes: &[(&str, &str)], text: &str) -> String {
    let mut tag = format!("<{of} nonce={}", attribute(nonce));
    for (name, value) in attributes {
        tag.push(' ');
        tag.push_str(name);
        tag.push('=');
        tag.push_str(&attribute(value));
    }
    tag.push('>');
    if !text.is_empty() {
        tag.push('\n');
        tag.push_str(text);
        tag.push('\n');
    }
    tag.push_str("</");
    tag.push_str(of);
    tag.push_str(" nonce=");
    tag.push_str(&attribute(nonce));
    tag.push('>');
    tag
}

/// A value as JSON text, without the characters that begin and end a tag.
fn attribute(value: &str) -> String {
    let json = Value::from(value).to_string();
    json.replace('<', "\\u003c").replace('>', "\\u003e")
}
