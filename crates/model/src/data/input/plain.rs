//! The fast way to read a message: one of the usual forms, of usual values only.
//!
//! It must never accept what [`super::message`] refuses, or read it otherwise: whatever is unusual is `None`, and is read there.

use std::fmt;

use serde::de::{Deserializer, Error, SeqAccess, Visitor, value::SeqAccessDeserializer};
use serde::{Deserialize, de::DeserializeOwned};

use super::message::{Defaults, allowed_in};
use crate::{Block, BlockOrigin, Message, Provenance, Role};

/// A message as the broker interface and our own results have it. Any other field makes it unusual.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PlainMessage {
    role: Role,
    #[serde(default)]
    content: Option<Content>,
    #[serde(default, deserialize_with = "present")]
    blocks: Option<Vec<PlainBlock>>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default, rename = "sequence")]
    _sequence: Option<u32>,
    #[serde(default, deserialize_with = "present")]
    created_at: Option<i64>,
    #[serde(default)]
    timestamp: Option<i64>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    tool_name: Option<String>,
    #[serde(default)]
    is_error: Option<bool>,
    #[serde(default)]
    provenance: Option<PlainProvenance>,
    #[serde(default)]
    provider_stop_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PlainProvenance {
    provider: String,
    api: String,
    model: String,
    #[serde(default)]
    response_id: Option<String>,
}

/// The fields of all usual blocks.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PlainBlock {
    r#type: Kind,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    provider_data: Option<String>,
    #[serde(default)]
    origin: Option<BlockOrigin>,
    #[serde(default)]
    mime_type: Option<String>,
    #[serde(default)]
    data: Option<String>,
    #[serde(default)]
    thinking: Option<String>,
    #[serde(default)]
    signature: Option<String>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments_json: Option<String>,
    #[serde(default)]
    incomplete: Option<bool>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    tool_name: Option<String>,
    #[serde(default)]
    content: Option<Content>,
    #[serde(default)]
    is_error: Option<bool>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Text,
    Image,
    Thinking,
    RedactedThinking,
    ToolCall,
    ToolResult,
}

enum Content {
    Text(String),
    Blocks(Vec<PlainBlock>),
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Content;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string or blocks")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Content, E> {
                Ok(Content::Text(text.to_owned()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Content, E> {
                Ok(Content::Text(text))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Content, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(items)).map(Content::Blocks)
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// A field that is unusual where it is null.
fn present<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// The message that the JSON text is, where it is a usual one.
pub(super) fn plain_message(json: &str, defaults: &mut Defaults<'_>) -> Option<Message> {
    let plain: PlainMessage = serde_json::from_str(json).ok()?;
    let role = plain.role;
    let has_blocks = plain.blocks.is_some();
    let content = plain.blocks.map(Content::Blocks).or(plain.content)?;
    let mut blocks = match content {
        Content::Text(text) => vec![Block::text(text)],
        Content::Blocks(blocks) => blocks
            .into_iter()
            .map(|plain| allowed_in("", role, block(plain)?).ok())
            .collect::<Option<Vec<_>>>()?,
    };
    if let (Role::Assistant, false, Some(thinking)) = (role, has_blocks, plain.thinking) {
        blocks.insert(0, Block::Thinking { thinking, signature: None, provider_data: None });
    }
    if role == Role::Tool && !matches!(blocks.as_slice(), [Block::ToolResult { .. }]) {
        blocks = vec![Block::ToolResult {
            tool_call_id: plain.tool_call_id?,
            tool_name: plain.tool_name.unwrap_or_default(),
            content: blocks,
            is_error: plain.is_error.unwrap_or_default(),
        }];
    }
    let provenance = plain.provenance.map(|from| {
        let PlainProvenance { provider, api, model, response_id } = from;
        Provenance { provider, api, model, response_id }
    });
    Some(Message {
        id: plain.id.filter(|id| !id.is_empty()).unwrap_or_else(|| (defaults.new_id)()),
        role,
        blocks,
        sequence: 0,
        created_at: plain.created_at.or(plain.timestamp).unwrap_or(defaults.now_ms),
        provenance,
        provider_stop_reason: plain.provider_stop_reason,
    })
}

fn block(plain: PlainBlock) -> Option<Block> {
    let provider_data = plain.provider_data;
    Some(match plain.r#type {
        Kind::Text => Block::Text { text: plain.text?, provider_data, origin: plain.origin },
        Kind::Image => Block::Image { mime_type: plain.mime_type?, data: plain.data? },
        Kind::Thinking => {
            Block::Thinking { thinking: plain.thinking?, signature: plain.signature, provider_data }
        }
        Kind::RedactedThinking => Block::RedactedThinking { data: plain.data?, provider_data },
        Kind::ToolCall => Block::ToolCall {
            id: plain.id?,
            name: plain.name?,
            arguments_json: plain.arguments_json?,
            incomplete: plain.incomplete.unwrap_or_default(),
            provider_data,
        },
        Kind::ToolResult => Block::ToolResult {
            tool_call_id: plain.tool_call_id?,
            tool_name: plain.tool_name.unwrap_or_default(),
            content: match plain.content? {
                Content::Text(text) => vec![Block::text(text)],
                Content::Blocks(parts) => parts.into_iter().map(part).collect::<Option<_>>()?,
            },
            is_error: plain.is_error.unwrap_or_default(),
        },
    })
}

/// A part of a result.
fn part(plain: PlainBlock) -> Option<Block> {
    block(plain)
        .filter(|part| matches!(part, Block::Text { origin: None, .. } | Block::Image { .. }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::plain_message;
    use crate::data::input::message::parse_message;
    use crate::{Defaults, Message};

    fn read(read: impl FnOnce(&mut Defaults<'_>) -> Option<Message>) -> Option<Message> {
        let mut new_id = || "new".to_owned();
        read(&mut Defaults { new_id: &mut new_id, now_ms: 7 })
    }

    /// What each field of a message or a block may hold: usual and unusual values.
    fn value(depth: u32) -> BoxedStrategy<Value> {
        let leaf = prop_oneof![
            Just(json!(null)),
            any::<bool>().prop_map(Value::from),
            (-3i64..2_000_000_000_000).prop_map(Value::from),
            Just(json!(1.5)),
            Just(json!(u64::MAX)),
            prop_oneof![
                "[a-z]{0,3}",
                Just("event".to_owned()),
                Just("{\"a\":1}".to_owned()),
                Just("\u{fffd}\"\\".to_owned())
            ]
            .prop_map(Value::from),
        ];
        if depth == 0 {
            return leaf.boxed();
        }
        let blocks = prop::collection::vec(prop_oneof![4 => block(depth - 1), 1 => value(0)], 0..3);
        let from = json!({ "provider": "p", "api": "openai-completions", "model": "m" });
        prop_oneof![
            6 => leaf,
            4 => blocks.prop_map(Value::Array),
            1 => Just(json!({ "a": [1] })),
            1 => Just(from),
        ]
        .boxed()
    }

    fn block(depth: u32) -> BoxedStrategy<Value> {
        let kinds = [
            "text",
            "image",
            "thinking",
            "redacted_thinking",
            "tool_call",
            "toolCall",
            "tool_result",
            "opaque",
            "other",
        ];
        let fields = [
            "text",
            "providerData",
            "mimeType",
            "data",
            "thinking",
            "signature",
            "id",
            "name",
            "argumentsJson",
            "arguments",
            "incomplete",
            "toolCallId",
            "toolName",
            "content",
            "isError",
            "rawJson",
            "origin",
            "redacted",
            "thinkingSignature",
        ];
        object(("type", &kinds), &fields, depth)
    }

    fn message() -> BoxedStrategy<Value> {
        let roles = ["user", "assistant", "system", "tool", "toolResult", "other"];
        let fields = [
            "content",
            "blocks",
            "thinking",
            "id",
            "sequence",
            "createdAt",
            "timestamp",
            "toolCallId",
            "toolName",
            "isError",
            "provenance",
            "providerStopReason",
            "provider",
            "api",
            "model",
            "extra",
        ];
        object(("role", &roles), &fields, 2)
    }

    fn object(
        (kind, kinds): (&'static str, &[&'static str]),
        fields: &[&'static str],
        depth: u32,
    ) -> BoxedStrategy<Value> {
        let kinds = prop::sample::select(kinds.to_vec());
        let given = prop::sample::subsequence(fields.to_vec(), 0..=fields.len().min(9));
        // The fields that make a value whole are there more often than chance has them.
        let texts = ["content", "text", "data", "mimeType", "thinking", "id", "name", "toolCallId"];
        (kinds, given, any::<bool>())
            .prop_flat_map(move |(name, given, whole)| {
                let fields: Vec<_> =
                    given.into_iter().map(|field| (Just(field.to_owned()), value(depth))).collect();
                let texts = if whole { texts.to_vec() } else { Vec::new() };
                (Just((name, texts)), fields)
            })
            .prop_map(move |((name, texts), fields)| {
                let mut object = json!({ kind: name });
                for text in texts {
                    object[text] = json!("t");
                }
                if let Value::Object(object) = &mut object {
                    object.extend(fields);
                }
                object
            })
            .boxed()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]
        #[test]
        fn what_is_read_the_fast_way_is_what_the_slow_way_reads(given in message()) {
            let json = given.to_string();
            if let Some(message) = read(|defaults| plain_message(&json, defaults)) {
                let slow = read(|defaults| parse_message("m", &json, defaults).ok());
                prop_assert_eq!(Some(message), slow);
            }
        }
    }

    #[test]
    fn the_usual_forms_are_read_the_fast_way() {
        for usual in [
            json!({ "role": "user", "content": "hi" }),
            json!({ "role": "assistant", "content": "hi", "thinking": "hm" }),
            json!({ "role": "tool", "toolCallId": "c", "toolName": "t", "content": "r", "isError": true }),
            json!({ "role": "user", "content": [
                { "type": "text", "text": "<event>", "origin": "event" },
                { "type": "text", "text": "hi" },
                { "type": "image", "mimeType": "image/png", "data": "AAAA" },
            ] }),
            json!({
                "id": "m", "role": "assistant", "content": "hi", "sequence": 1, "createdAt": 5,
                "blocks": [
                    { "type": "thinking", "thinking": "hm", "signature": "s" },
                    { "type": "redacted_thinking", "data": "x" },
                    { "type": "text", "text": "hi", "providerData": "{}" },
                    { "type": "tool_call", "id": "c", "name": "t", "argumentsJson": "{}" },
                ],
                "provenance": { "provider": "p", "api": "a", "model": "m", "responseId": "r" },
                "providerStopReason": "tool_use",
            }),
            json!({ "role": "tool", "content": "r", "blocks": [{
                "type": "tool_result", "toolCallId": "c", "toolName": "t", "isError": false,
                "content": [{ "type": "text", "text": "r" }],
            }] }),
        ] {
            let json = usual.to_string();
            let fast = read(|defaults| plain_message(&json, defaults));
            assert!(fast.is_some(), "{json}");
            assert_eq!(fast, read(|defaults| parse_message("m", &json, defaults).ok()));
        }
    }
}
