//! The conversion between the content of pi's messages and blocks.
//!
//! A signature stays on its part if its wire API has it there; everything else goes into the message's metadata. It must
//! never change an opaque value.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use model::Block;

/// The engine's name of pi's wire API.
pub(super) fn api_of(pi: &str) -> &str {
    match pi {
        "openai-completions" => "openai-chat",
        "azure-openai-responses" | "openai-codex-responses" => "openai-responses",
        "google-vertex" | "google-gemini-cli" => "google-generative-ai",
        "bedrock-converse-stream" => "bedrock-converse",
        other => other,
    }
}

/// Pi's name of a wire API.
pub(super) fn pi_api_of(api: &str) -> &str {
    match api {
        "openai-chat" => "openai-completions",
        "bedrock-converse" => "bedrock-converse-stream",
        other => other,
    }
}

/// The blocks of a content: a text, or a list of parts. A part of an unknown kind is left out.
pub(super) fn blocks(content: &Value, api: &str) -> Option<Vec<Block>> {
    match content {
        Value::String(text) => Some(vec![Block::text(text.as_str())]),
        Value::Array(parts) => Some(parts.iter().filter_map(|part| block(part, api)).collect()),
        _ => None,
    }
}

fn block(part: &Value, api: &str) -> Option<Block> {
    let text = |name: &str| part.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    let google = api == "google-generative-ai";
    let attached = |name| {
        let signature = text(name).filter(|_| google)?;
        Some(json!({ "thoughtSignature": signature }).to_string())
    };
    match part.get("type")?.as_str()? {
        "text" => Some(Block::Text {
            text: text("text")?,
            provider_data: attached("textSignature"),
            origin: None,
        }),
        "image" => Some(Block::Image { mime_type: text("mimeType")?, data: text("data")? }),
        "thinking" => {
            let signature = text("thinkingSignature");
            if part.get("redacted") == Some(&Value::Bool(true)) {
                return Some(Block::RedactedThinking { data: signature?, provider_data: None });
            }
            let (signature, provider_data) = match api {
                // The whole item, as JSON.
                "openai-responses" => (None, signature.filter(|json| json.starts_with('{'))),
                // Pi stores the name of the field in the signature.
                "openai-chat" => (None, None),
                _ => (signature, None),
            };
            Some(Block::Thinking { thinking: text("thinking")?, signature, provider_data })
        }
        "toolCall" => Some(Block::ToolCall {
            id: text("id")?,
            name: text("name")?,
            arguments_json: part.get("arguments").filter(|it| it.is_object())?.to_string(),
            incomplete: false,
            provider_data: attached("thoughtSignature"),
        }),
        _ => None,
    }
}

/// The parts of blocks. A block without a corresponding part in pi is counted.
pub(super) fn parts(blocks: &[Block], api: &str, left: &mut BTreeMap<String, u64>) -> Vec<Value> {
    blocks.iter().filter_map(|block| part(block, api, left)).collect()
}

fn part(block: &Block, api: &str, left: &mut BTreeMap<String, u64>) -> Option<Value> {
    let mut part = Map::new();
    let mut put = |name: &str, value: &str| part.insert(name.to_owned(), Value::from(value));
    let attached = |data: &Option<String>| {
        let data: Value = serde_json::from_str(data.as_deref()?).ok()?;
        data.get("thoughtSignature")?.as_str().map(ToOwned::to_owned)
    };
    match block {
        // pi has no mark for a text that the host put there.
        Block::Text { text, provider_data, origin: _ } => {
            put("type", "text");
            put("text", text);
            if let Some(signature) = attached(provider_data) {
                put("textSignature", &signature);
            }
        }
        Block::Image { mime_type, data } => {
            put("type", "image");
            put("data", data);
            put("mimeType", mime_type);
        }
        Block::Thinking { thinking, signature, provider_data } => {
            put("type", "thinking");
            put("thinking", thinking);
            match (api, signature, provider_data) {
                ("openai-responses", _, Some(item)) => put("thinkingSignature", item),
                (_, Some(signature), _) => put("thinkingSignature", signature),
                _ => None,
            };
        }
        Block::RedactedThinking { data, .. } => {
            put("type", "thinking");
            put("thinking", "");
            put("thinkingSignature", data);
            part.insert("redacted".to_owned(), Value::Bool(true));
        }
        Block::ToolCall { incomplete: true, .. } => {
            *left.entry("incomplete_tool_call".to_owned()).or_default() += 1;
            return None;
        }
        Block::ToolCall { id, name, arguments_json, provider_data, .. } => {
            put("type", "toolCall");
            put("id", id);
            put("name", name);
            if let Some(signature) = attached(provider_data) {
                put("thoughtSignature", &signature);
            }
            let arguments = serde_json::from_str(arguments_json).unwrap_or_else(|_| json!({}));
            part.insert("arguments".to_owned(), arguments);
        }
        Block::ToolResult { .. } | Block::Opaque { .. } => {
            *left.entry("provider_block".to_owned()).or_default() += 1;
            return None;
        }
    }
    Some(Value::Object(part))
}
