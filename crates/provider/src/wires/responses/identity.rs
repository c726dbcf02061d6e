//! The provider data of an item beside its text, so that the item can be sent back unchanged: its id, phase, status,
//! annotations and other members, each field verbatim.
//!
//! Both directions are here, because they must agree. It must never store content that the block itself has.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json::{Text, fields_of, write_raw, write_string};

/// The longest `id` that the API accepts in an input item; its own ids may be longer
/// (docs/rules/wire/openai-responses.md#ids).
const MAX_ID: usize = 64;

/// The provider data of a text: the fields of its message item, and those of its content part.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
pub(super) struct StoredText<'a> {
    #[serde(borrow)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) part: Option<&'a RawValue>,
}

/// Reads the provider data of a text. Data of other APIs has neither field.
pub(super) fn stored_text_of(provider_data: Option<&str>) -> StoredText<'_> {
    provider_data.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default()
}

/// Whether a text was a refusal of the model.
pub(super) fn is_refusal(stored: StoredText<'_>) -> bool {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(borrow, default, rename = "type")]
        kind: Text<'a>,
    }
    let part = stored.part.and_then(|part| serde_json::from_str::<Typed<'_>>(part.get()).ok());
    part.is_some_and(|part| part.kind.as_str() == "refusal")
}

/// The provider data of a text: the item without its content, the part without its text.
pub(super) fn stored_text(item: &str, part: &str) -> String {
    let mut out = b"{\"item\":{".to_vec();
    write_fields(&mut out, item, false, |name| !matches!(name, "type" | "role" | "content"));
    out.extend_from_slice(b"},\"part\":{");
    // Log probabilities are large, and not accepted back.
    write_fields(&mut out, part, false, |name| !matches!(name, "text" | "refusal" | "logprobs"));
    out.extend_from_slice(b"}}");
    text(out)
}

/// The provider data of a call beside its id, name and arguments (`namespace`, `caller`); `None` for none.
pub(super) fn stored_call(item: &str) -> Option<String> {
    let mut out = b"{".to_vec();
    let any = write_fields(&mut out, item, false, is_extra_of_call);
    out.push(b'}');
    any.then(|| text(out))
}

/// Writes the provider data of a call, each field after a comma.
pub(super) fn write_call(out: &mut Vec<u8>, provider_data: &str) {
    write_fields(out, provider_data, true, is_extra_of_call);
}

fn is_extra_of_call(name: &str) -> bool {
    !matches!(name, "type" | "id" | "call_id" | "name" | "arguments" | "input" | "status")
}

/// Writes the stored fields of a message, each after a comma. `with_id` if the reasoning before it is sent too: with an id
/// alone the API requires its reasoning.
pub(super) fn write_message_fields(out: &mut Vec<u8>, item: &RawValue, with_id: bool) {
    let with_id = with_id && has_short_id(item.get());
    write_fields(out, item.get(), true, |name| name != "id" || with_id);
}

/// Writes the stored fields of a content part, each after a comma; the caller writes its type.
pub(super) fn write_part_fields(out: &mut Vec<u8>, part: &RawValue) {
    write_fields(out, part.get(), true, |name| name != "type");
}

/// Writes a reasoning item. Encrypted content identifies its own item, and with `store: false` the API refuses the id of an
/// item that it has not stored (docs/rules/wire/openai-responses.md#ids); reasoning in plain text has its id. True if there
/// was anything to write: a summary alone is useless to the model.
pub(super) fn write_reasoning(out: &mut Vec<u8>, provider_data: &str) -> bool {
    #[derive(Deserialize)]
    struct Reasoning<'a> {
        #[serde(borrow, default, rename = "type")]
        kind: Text<'a>,
        #[serde(borrow, default)]
        encrypted_content: Text<'a>,
        #[serde(borrow)]
        content: Option<Vec<&'a RawValue>>,
    }
    let Ok(item) = serde_json::from_str::<Reasoning<'_>>(provider_data) else { return false };
    let is_encrypted = !item.encrypted_content.as_str().is_empty();
    let is_plain = item.content.is_some_and(|parts| !parts.is_empty());
    if item.kind.as_str() != "reasoning" || !(is_encrypted || is_plain) {
        return false;
    }
    let with_id = !is_encrypted && has_short_id(provider_data);
    out.push(b'{');
    write_fields(out, provider_data, false, |name| name != "id" || with_id);
    out.push(b'}');
    true
}

/// Writes an opaque item byte for byte, except an id that the API does not accept back.
pub(super) fn write_opaque(out: &mut Vec<u8>, raw_json: &str) {
    if has_short_id(raw_json) {
        write_raw(out, raw_json);
        return;
    }
    out.push(b'{');
    let fields = fields_of(raw_json).unwrap_or_default();
    let mut first = true;
    for (name, value) in fields.iter().filter(|(name, _)| name.as_str() != "id") {
        write_field(out, name.as_str(), value, std::mem::take(&mut first));
    }
    out.push(b'}');
}

/// Whether an item has no id, or one that may be sent.
fn has_short_id(item: &str) -> bool {
    #[derive(Deserialize)]
    struct Identified<'a> {
        #[serde(borrow, default)]
        id: Text<'a>,
    }
    serde_json::from_str::<Identified<'_>>(item)
        .map_or(true, |item| item.id.as_str().chars().count() <= MAX_ID)
}

/// Writes the selected fields of an object; null means "absent", and some servers refuse it.
fn write_fields(
    out: &mut Vec<u8>,
    object: &str,
    after_comma: bool,
    wanted: impl Fn(&str) -> bool,
) -> bool {
    let mut first = !after_comma;
    let mut any = false;
    for (name, value) in fields_of(object).unwrap_or_default() {
        if wanted(name.as_str()) && value.get() != "null" {
            write_field(out, name.as_str(), value, std::mem::take(&mut first));
            any = true;
        }
    }
    any
}

fn write_field(out: &mut Vec<u8>, name: &str, value: &RawValue, first: bool) {
    if !first {
        out.push(b',');
    }
    write_string(out, name);
    out.push(b':');
    // The API refuses a body with lone surrogates, even those it sent.
    write_raw(out, value.get());
}

fn text(bytes: Vec<u8>) -> String {
    // Only texts were written.
    String::from_utf8(bytes).unwrap_or_default()
}
