//! Reads the messages of a history that the host passes.
//!
//! It must never count an index from anywhere but the beginning of the whole history.

use serde_json::value::RawValue;

use crate::GivenHistory;
use crate::data::input::field::{InputError, Parsed, value};
use crate::data::input::message::{Defaults, message};
use crate::data::input::plain::plain_message;

/// The history that continues `before` with the messages of a JSON array.
pub(super) fn continue_history(
    raw: &RawValue,
    before: GivenHistory,
    defaults: &mut Defaults<'_>,
) -> Parsed<GivenHistory> {
    let items: Vec<&RawValue> = serde_json::from_str(raw.get())
        .map_err(|_| InputError::new("history", "is not an array of messages"))?;
    let mut messages = Vec::with_capacity(items.len());
    for (index, raw) in (before.len()..).zip(items) {
        let mut message = match plain_message(raw.get(), defaults) {
            Some(message) => message,
            None => {
                let path = format!("history[{index}]");
                message(&path, &value(&path, raw)?, defaults)?
            }
        };
        message.sequence = u32::try_from(index).unwrap_or(u32::MAX);
        messages.push(message);
    }
    let mut history = before;
    history.append(messages, raw.get().len());
    Ok(history)
}
