//! The reasoning of one response: its field, and the details that must be sent back
//! (docs/rules/wire/openai-chat.md#compatible-servers).
//!
//! Signatures and encrypted parts are stored unchanged. It must never show them.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::wire::Text;

/// Collects `reasoning_details` over the chunks of a stream.
#[derive(Debug, Default)]
pub(super) struct Reasoning {
    /// The field with the shown text.
    pub(super) field: Option<&'static str>,
    details: Vec<Detail>,
}

/// One entry of `reasoning_details`: verbatim, or a text that grows over chunks.
#[derive(Debug)]
enum Detail {
    Verbatim(String),
    Growing { key: String, head: serde_json::Map<String, serde_json::Value>, text: String },
}

#[derive(Debug, Deserialize)]
struct Shown<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    summary: Text<'a>,
}

impl Reasoning {
    /// Adds one chunk's details, and returns their shown text.
    pub(super) fn details(&mut self, raw: &str) -> String {
        let mut shown = String::new();
        let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(raw) else { return shown };
        for entry in entries {
            let Ok(detail) = serde_json::from_str::<Shown<'_>>(entry.get()) else { continue };
            let grows = match detail.kind.0.as_ref() {
                "reasoning.text" => Some(("text", detail.text.0)),
                "reasoning.summary" => Some(("summary", detail.summary.0)),
                _ => None,
            };
            let Some((field, text)) = grows else {
                self.details.push(Detail::Verbatim(entry.get().to_owned()));
                continue;
            };
            shown.push_str(&text);
            self.grow(entry.get(), field, &text);
        }
        shown
    }

    fn grow(&mut self, raw: &str, field: &str, text: &str) {
        let Ok(mut fields) = serde_json::from_str::<serde_json::Map<_, _>>(raw) else { return };
        fields.remove(field);
        let index = fields.get("index").map(ToString::to_string).unwrap_or_default();
        let key = format!("{field} {index}");
        if let Some(Detail::Growing { key: last, head, text: so_far }) = self.details.last_mut()
            && *last == key
        {
            so_far.push_str(text);
            for (name, value) in fields {
                // A later chunk fills a field that was empty; it never empties one.
                if !value.is_null() && value.as_str() != Some("") {
                    head.insert(name, value);
                }
            }
        } else {
            self.details.push(Detail::Growing { key, head: fields, text: text.to_owned() });
        }
    }

    /// The provider data to store with the block: the field, and the details as one array, spliced to stay unchanged.
    pub(super) fn provider_data(&self) -> String {
        let mut out = String::from("{");
        if let Some(field) = self.field {
            out.push_str("\"field\":\"");
            out.push_str(field);
            out.push('"');
        }
        if !self.details.is_empty() {
            if self.field.is_some() {
                out.push(',');
            }
            out.push_str("\"reasoning_details\":[");
            for (position, detail) in self.details.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                match detail {
                    Detail::Verbatim(raw) => out.push_str(raw),
                    Detail::Growing { key, head, text } => {
                        let field = key.split(' ').next().unwrap_or("text");
                        let mut entry = head.clone();
                        entry.insert(field.to_owned(), text.as_str().into());
                        out.push_str(&serde_json::Value::Object(entry).to_string());
                    }
                }
            }
            out.push(']');
        }
        out.push('}');
        out
    }
}
