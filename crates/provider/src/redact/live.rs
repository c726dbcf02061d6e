//! Removes the live keys of one attempt from what a server sends beside the model's own text.
//!
//! It must never change a text without a key: ids and signatures are sent back to the server byte for byte.

use std::borrow::Cow;

use memchr::memmem;
use secrecy::zeroize::Zeroizing;
use serde_json::Value;

use super::forms::{MARK, SHORTEST_KEY, forms, replace_all};

/// The maximum characters of a server's word, such as a stop reason.
const MAX_WORD: usize = 200;

/// The keys of one attempt, in every form. A prepared search would have a copy of its own, which is not overwritten.
pub(crate) struct LiveKeys {
    forms: Vec<Zeroizing<String>>,
}

impl LiveKeys {
    pub(crate) fn new(keys: &[&str]) -> Self {
        let mut all: Vec<Zeroizing<String>> = keys
            .iter()
            .map(|key| key.trim())
            .filter(|key| key.len() >= SHORTEST_KEY)
            .flat_map(forms)
            .collect();
        all.sort_by_key(|form| std::cmp::Reverse(form.len()));
        all.dedup();
        Self { forms: all }
    }

    fn is_in(&self, text: &str) -> bool {
        self.forms.iter().any(|form| memmem::find(text.as_bytes(), form.as_bytes()).is_some())
    }

    /// `text` without the keys.
    pub(crate) fn clean<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.is_in(text) {
            return Cow::Borrowed(text);
        }
        let mut out = text.to_owned();
        for form in &self.forms {
            out = replace_all(&out, form);
        }
        // A replacement can join the text before and after it into a key.
        Cow::Owned(if self.is_in(&out) { MARK.to_owned() } else { out })
    }

    /// A word of the server, without the keys and with a bounded length.
    pub(crate) fn clean_word(&self, word: &str) -> String {
        let word = self.clean(word);
        match word.char_indices().nth(MAX_WORD) {
            Some((at, _)) => format!("{}…", word.get(..at).unwrap_or_default()),
            None => word.into_owned(),
        }
    }

    /// JSON text without the keys, also where their characters are written as escapes.
    pub(crate) fn clean_json<'a>(&self, json: &'a str) -> Cow<'a, str> {
        if json.contains('\\')
            && let Ok(mut value) = serde_json::from_str::<Value>(json)
            && self.clean_value(&mut value)
        {
            return Cow::Owned(value.to_string());
        }
        self.clean(json)
    }

    /// Cleans every text in a value; true where one held a key.
    fn clean_value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => match self.clean(text) {
                Cow::Borrowed(_) => false,
                Cow::Owned(clean) => {
                    *text = clean;
                    true
                }
            },
            Value::Array(items) => {
                // All of them, not only the first with a key.
                items.iter_mut().filter_map(|item| self.clean_value(item).then_some(())).count() > 0
            }
            Value::Object(fields) => {
                let mut any = false;
                let cleaned = std::mem::take(fields).into_iter().map(|(name, mut value)| {
                    any |= self.clean_value(&mut value);
                    match self.clean(&name) {
                        Cow::Borrowed(_) => (name, value),
                        Cow::Owned(clean) => {
                            any = true;
                            (clean, value)
                        }
                    }
                });
                *fields = cleaned.collect();
                any
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LiveKeys;

    const KEY: &str = "canary-7Hq2\"&Zx";

    #[test]
    fn a_key_is_found_in_every_json_spelling_and_other_text_is_unchanged() {
        let keys = LiveKeys::new(&[KEY, "none"]);
        let spelled: String = KEY.chars().map(|c| format!("\\u{:04x}", u32::from(c))).collect();
        assert_eq!(keys.clean_json(&format!("{{\"a\":[\"x{spelled}\"]}}")), r#"{"a":["x[***]"]}"#);
        let named = format!("{{\"{spelled}\":1}}");
        assert_eq!(keys.clean_json(&named), r#"{"[***]":1}"#);
        for same in [r#"{ "b" : 1.0, "a":"none\u0041" }"#, "not json \\", "sk-abcdefghijkl"] {
            assert_eq!(keys.clean_json(same), same);
            assert_eq!(keys.clean(same), same);
        }
        assert_eq!(keys.clean(&format!("call_{KEY}")), "call_[***]");
        let hex: String = KEY.bytes().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(keys.clean(&hex), "[***]");
        assert_eq!(keys.clean_word(&"x".repeat(1_000)).chars().count(), 201);
    }
}
