//! What the validators share: looking into JSON, and saying what is wrong with it.

use serde_json::{Map, Value};

use model::{Block, Message};
use turn::transcript::Target;

/// The first rule that a body breaks.
pub(super) type Verdict = Result<(), String>;

/// What a body does not tell of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    /// Whom the body is for, by its place among the writers.
    pub(super) writer: usize,
    /// Whether it may end with an answer: one of the target's own that paused.
    pub(super) may_continue: bool,
    /// The ids of calls that the target made itself: it takes them back whatever they look like.
    pub(super) own_ids: &'a [String],
}

impl Facts<'_> {
    /// Whether a call may have this id: one of the alphabet, one of the target's own, or that with a number where it came
    /// more than once.
    pub(super) fn takes(&self, id: &str, longest: usize, allowed: impl Fn(char) -> bool) -> bool {
        let is_own = |own: &String| {
            id.strip_prefix(own.as_str())
                .map(|rest| rest.strip_prefix('_').unwrap_or(rest))
                .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()))
        };
        matches(id, longest, allowed) || (!id.is_empty() && self.own_ids.iter().any(is_own))
    }
}

/// The ids of calls in messages that the target wrote.
pub(super) fn own_ids<'a>(
    target: &Target,
    messages: impl Iterator<Item = &'a Message>,
) -> Vec<String> {
    let own = messages.filter(|message| {
        message.provenance.as_ref().is_some_and(|from| {
            (from.provider.as_str(), from.api.as_str(), from.model.as_str())
                == (target.provider.as_str(), target.api.as_str(), target.model.as_str())
        })
    });
    let ids = own.flat_map(|message| &message.blocks).filter_map(|block| match block {
        Block::ToolCall { id, .. } if !id.is_empty() => Some(id.clone()),
        _ => None,
    });
    ids.collect()
}

pub(super) fn rule(holds: bool, rule: &str, at: &Value) -> Verdict {
    if holds { Ok(()) } else { Err(format!("{rule}: {at}")) }
}

/// The fields of an object that has these and no others.
pub(super) fn fields<'a>(
    value: &'a Value,
    required: &[&str],
    optional: &[&str],
) -> Result<&'a Map<String, Value>, String> {
    let object = value.as_object().ok_or_else(|| format!("no object: {value}"))?;
    for name in required {
        rule(object.contains_key(*name), &format!("`{name}` is missing"), value)?;
    }
    for name in object.keys() {
        let known = required.contains(&name.as_str()) || optional.contains(&name.as_str());
        rule(known, &format!("`{name}` is unknown"), value)?;
    }
    Ok(object)
}

pub(super) fn text<'a>(value: &'a Value, name: &str) -> Result<&'a str, String> {
    value.get(name).and_then(Value::as_str).ok_or_else(|| format!("`{name}` is no text: {value}"))
}

pub(super) fn list<'a>(value: &'a Value, name: &str) -> Result<&'a Vec<Value>, String> {
    value.get(name).and_then(Value::as_array).ok_or_else(|| format!("`{name}` is no list: {value}"))
}

/// Text that is there and not blank.
pub(super) fn spoken<'a>(value: &'a Value, name: &str) -> Result<&'a str, String> {
    let text = text(value, name)?;
    rule(!text.trim().is_empty(), "blank text", value)?;
    Ok(text)
}

pub(super) fn matches(text: &str, longest: usize, allowed: impl Fn(char) -> bool) -> bool {
    !text.is_empty() && text.chars().count() <= longest && text.chars().all(allowed)
}

pub(super) fn word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

/// Base64 of something.
pub(super) fn base64(text: &str) -> bool {
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+/=".contains(c))
}

/// Who made a call, where its arguments say so.
pub(super) fn by(input: &Value) -> Option<usize> {
    usize::try_from(input.get("by")?.as_u64()?).ok()
}
