//! The helpers of the validators: they read JSON and report violations. They must never depend on the projection.

use serde_json::{Map, Value};

use model::{Block, Message};
use turn::transcript::Target;

/// The first violation of a body.
pub(super) type Verdict = Result<(), String>;

/// The facts that a body does not contain.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    /// The index of the body's target among the writers.
    pub(super) writer: usize,
    /// Whether the body may end with an answer, which must be a paused one of the target.
    pub(super) may_continue: bool,
    /// The ids of the target's own calls, which it accepts in any form.
    pub(super) own_ids: &'a [String],
}

impl Facts<'_> {
    /// Whether a call may have this id: one in the alphabet, one of the target's own, or such an id with a number, if it
    /// occurred more than once.
    pub(super) fn takes(&self, id: &str, longest: usize, allowed: impl Fn(char) -> bool) -> bool {
        let is_own = |own: &String| {
            id.strip_prefix(own.as_str())
                .map(|rest| rest.strip_prefix('_').unwrap_or(rest))
                .is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()))
        };
        matches(id, longest, allowed) || (!id.is_empty() && self.own_ids.iter().any(is_own))
    }
}

/// The ids of calls in the target's messages.
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

/// A text that exists and is not blank.
pub(super) fn non_blank<'a>(value: &'a Value, name: &str) -> Result<&'a str, String> {
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

/// Base64 of at least one byte.
pub(super) fn base64(text: &str) -> bool {
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "+/=".contains(c))
}

/// The writer of a call, if its arguments name one.
pub(super) fn by(input: &Value) -> Option<usize> {
    usize::try_from(input.get("by")?.as_u64()?).ok()
}
