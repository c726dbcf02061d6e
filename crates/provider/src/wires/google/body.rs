//! The body of one request: system prompt, tools and contents first, the settings of this call last.
//!
//! In this order the bytes of call n up to its last message begin call n+1 too
//! (docs/rules/compaction.md#prompt-cache-stability). It must never copy the conversation.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::thinking;
use crate::ModelRequest;
use crate::json::{List, write_string};
use model::{ResponseFormat, ToolChoice};

/// The body in pieces.
pub(super) fn body(request: &ModelRequest, vertex: bool) -> Vec<Bytes> {
    request.framed(head(request), tail(request, vertex))
}

/// The body of a count: only the prompt. Vertex expects it at the top level, Gemini's API inside `generateContentRequest`.
pub(super) fn count(request: &ModelRequest, vertex: bool) -> Vec<Bytes> {
    if vertex {
        return request.framed(head(request), Bytes::from_static(b"]}"));
    }
    let mut out = b"{\"generateContentRequest\":{\"model\":".to_vec();
    let name = request.model.strip_prefix("models/").unwrap_or(&request.model);
    write_string(&mut out, &format!("models/{name}"));
    out.push(b',');
    out.extend_from_slice(head(request).strip_prefix(b"{").unwrap_or_default());
    request.framed(Bytes::from(out), Bytes::from_static(b"]}}"))
}

fn head(request: &ModelRequest) -> Bytes {
    let schemas: usize = request.tools.iter().map(|tool| tool.parameters.get().len() + 256).sum();
    let mut out = Vec::with_capacity(request.system.len() * 17 / 16 + schemas + 128);
    out.push(b'{');
    if !request.system.trim().is_empty() {
        out.extend_from_slice(b"\"systemInstruction\":{\"parts\":[{\"text\":");
        write_string(&mut out, &request.system);
        out.extend_from_slice(b"}]},");
    }
    let provider_tools = &request.options.provider_tools;
    if !request.tools.is_empty() || !provider_tools.is_empty() {
        out.extend_from_slice(b"\"tools\":[");
        let mut list = List { out: &mut out, any: false };
        if !request.tools.is_empty() {
            declarations(list.item(), request);
        }
        for tool in provider_tools {
            list.item().extend_from_slice(tool.get().as_bytes());
        }
        out.extend_from_slice(b"],");
    }
    out.extend_from_slice(b"\"contents\":[");
    Bytes::from(out)
}

fn declarations(out: &mut Vec<u8>, request: &ModelRequest) {
    out.extend_from_slice(b"{\"functionDeclarations\":[");
    let mut list = List { out, any: false };
    for tool in request.tools.iter() {
        let out = list.item();
        out.extend_from_slice(b"{\"name\":");
        write_string(out, &tool.name);
        if !tool.description.is_empty() {
            out.extend_from_slice(b",\"description\":");
            write_string(out, &tool.description);
        }
        // The whole schema: `parameters` supports only a subset of JSON Schema (docs/rules/wire/google.md#request).
        out.extend_from_slice(b",\"parametersJsonSchema\":");
        out.extend_from_slice(tool.parameters.get().as_bytes());
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
}

fn tail(request: &ModelRequest, vertex: bool) -> Bytes {
    let options = &request.options;
    let mut out = Vec::with_capacity(256);
    out.push(b']');
    tool_config(&mut out, request, vertex);
    out.extend_from_slice(b",\"generationConfig\":{\"maxOutputTokens\":");
    out.extend_from_slice(request.max_tokens.to_string().as_bytes());
    if let Some(temperature) = request.temperature.filter(|value| value.is_finite()) {
        out.extend_from_slice(b",\"temperature\":");
        out.extend_from_slice(temperature.to_string().as_bytes());
    }
    if !options.stop_sequences.is_empty() {
        out.extend_from_slice(b",\"stopSequences\":[");
        let mut list = List { out: &mut out, any: false };
        options.stop_sequences.iter().for_each(|text| write_string(list.item(), text));
        out.push(b']');
    }
    if let Some(requested) = &request.thinking {
        out.extend_from_slice(b",\"thinkingConfig\":");
        out.extend_from_slice(thinking::config(&request.model, requested).as_bytes());
    }
    if let Some(format) = &options.response_format {
        out.extend_from_slice(b",\"responseMimeType\":\"application/json\"");
        if let ResponseFormat::JsonSchema { schema, .. } = format {
            out.extend_from_slice(b",\"responseJsonSchema\":");
            out.extend_from_slice(schema.get().as_bytes());
        }
    }
    out.push(b'}');
    if vertex {
        labels(&mut out, request);
    }
    out.push(b'}');
    Bytes::from(out)
}

fn tool_config(out: &mut Vec<u8>, request: &ModelRequest, vertex: bool) {
    let choice = request.options.tool_choice.as_ref().filter(|_| !request.tools.is_empty());
    // With tools of both kinds the provider's own calls must be requested, or they could not be sent back.
    let shows_both =
        !vertex && !request.tools.is_empty() && has_builtin(&request.options.provider_tools);
    if choice.is_none() && !shows_both {
        return;
    }
    out.extend_from_slice(b",\"toolConfig\":{");
    if let Some(choice) = choice {
        let (mode, name) = match choice {
            ToolChoice::Auto => ("AUTO", None),
            ToolChoice::None => ("NONE", None),
            ToolChoice::Required => ("ANY", None),
            ToolChoice::Tool { name } => ("ANY", Some(name)),
        };
        out.extend_from_slice(b"\"functionCallingConfig\":{\"mode\":");
        write_string(out, mode);
        if let Some(name) = name {
            out.extend_from_slice(b",\"allowedFunctionNames\":[");
            write_string(out, name);
            out.push(b']');
        }
        out.push(b'}');
    }
    if shows_both {
        if choice.is_some() {
            out.push(b',');
        }
        out.extend_from_slice(b"\"includeServerSideToolInvocations\":true");
    }
    out.push(b'}');
}

/// Whether one of the host's provider tools is not just a list of declarations.
fn has_builtin(tools: &[Box<RawValue>]) -> bool {
    tools.iter().any(|tool| !tool.get().contains("\"functionDeclarations\""))
}

/// Metadata as labels. The API refuses a request with an invalid label, so invalid ones are left out.
fn labels(out: &mut Vec<u8>, request: &ModelRequest) {
    let mut any = false;
    for (key, value) in &request.options.metadata {
        if !is_label(key, value) {
            continue;
        }
        out.extend_from_slice(if any { b"," } else { b",\"labels\":{".as_slice() });
        any = true;
        write_string(out, key);
        out.push(b':');
        write_string(out, value);
    }
    if any {
        out.push(b'}');
    }
}

/// Whether an entry is a valid label of Vertex.
pub(super) fn is_label(key: &str, value: &str) -> bool {
    let fits = |text: &str| {
        text.len() <= 63
            && text
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-')
    };
    fits(key) && key.starts_with(|c: char| c.is_ascii_lowercase()) && fits(value)
}
