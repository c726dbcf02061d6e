//! The body of one request: system prompt, tools and messages first, the settings of this call last.
//!
//! In this order the bytes of call n up to its last message begin call n+1 too, except for the cache point, which moves
//! (docs/rules/compaction.md#prompt-cache-stability). It must never copy the conversation, nor write a field that the model
//! refuses.

use bytes::Bytes;
use memchr::memmem;

use super::encode::{ERROR_STATUS, TOOL_RESULT, TOOL_USE, USER_END};
use super::models::{self, Caching, Reasoning};
use crate::ModelRequest;
use crate::json::write_string;
use model::{CacheTtl, ResponseFormat, ThinkingConfig, ThinkingEffort, ThinkingMode, ToolChoice};

/// The smallest budget that Claude accepts.
const LEAST_BUDGET: u64 = 1_024;
/// The maximum number of entries of metadata, and of characters of a name or value.
const METADATA: (usize, usize) = (16, 256);

/// A placeholder tool for a history with calls in a request without tools: Converse refuses such a history without a tool.
const NO_TOOL: &str = concat!(
    r#"{"toolSpec":{"name":"no_tool_available","description":"Never call this.","#,
    r#""inputSchema":{"json":{"type":"object","properties":{}}}}}"#
);

/// The body in pieces.
pub(super) fn body(request: &ModelRequest) -> Vec<Bytes> {
    let point = cache_point(request);
    let mut pieces = Vec::with_capacity(request.messages.len() * 2 + 2);
    pieces.push(head(request, point.as_ref()));
    let takes_status = models::takes_status(&request.model);
    let point_at_end = point.as_ref().map(|point| [b",", point.json.as_bytes(), USER_END].concat());
    let point_at_end = point_at_end.map(Bytes::from);
    // The fourth, beside those of the system prompt, the tools and the open end.
    let earlier = request.earlier_position().filter(|_| takes_status);
    for (position, piece) in request.messages.iter().enumerate() {
        if position > 0 {
            pieces.push(Bytes::from_static(b","));
        }
        let cut = earlier.filter(|(at, _)| *at == position).and_then(|(_, end)| {
            let open = piece.get(..end)?.strip_suffix(USER_END)?;
            Some((open.len(), end))
        });
        if let (Some((open, end)), Some(point)) = (cut, &point_at_end) {
            pieces.push(piece.slice(..open));
            pieces.push(point.clone());
            if end < piece.len() {
                pieces.push(piece.slice(end..));
            }
            continue;
        }
        pieces.push(if takes_status { piece.clone() } else { without_status(piece) });
    }
    if let Some(point) = point_at_end
        && let Some(last) = pieces.pop()
    {
        match last.strip_suffix(USER_END) {
            Some(open) => {
                let open = open.len();
                pieces.push(last.slice(..open));
                pieces.push(point);
            }
            None => pieces.push(last),
        }
    }
    pieces.push(tail(request));
    pieces
}

/// A cache point in the form of this model.
struct CachePoint {
    json: &'static str,
    caching: Caching,
}

fn cache_point(request: &ModelRequest) -> Option<CachePoint> {
    let caching = models::caching(&request.model)?;
    let json = match request.options.prompt_cache.ttl.unwrap_or_default() {
        CacheTtl::Off => return None,
        CacheTtl::Hour if caching.hour => r#"{"cachePoint":{"type":"default","ttl":"1h"}}"#,
        CacheTtl::Hour | CacheTtl::Minutes => r#"{"cachePoint":{"type":"default"}}"#,
    };
    Some(CachePoint { json, caching })
}

/// A piece without the status of failed results. The text of such a result describes the failure.
fn without_status(piece: &Bytes) -> Bytes {
    let mut out: Vec<u8> = Vec::new();
    let mut copied = 0;
    for at in memmem::find_iter(piece, ERROR_STATUS) {
        out.extend_from_slice(piece.get(copied..at).unwrap_or_default());
        out.extend_from_slice(TOOL_RESULT);
        copied = at + ERROR_STATUS.len();
    }
    if copied == 0 {
        return piece.clone();
    }
    out.extend_from_slice(piece.get(copied..).unwrap_or_default());
    Bytes::from(out)
}

/// Writes the name of the next field of the open object.
fn field(out: &mut Vec<u8>, name: &str) {
    if out.last().is_some_and(|last| *last != b'{') {
        out.push(b',');
    }
    write_string(out, name);
    out.push(b':');
}

fn head(request: &ModelRequest, point: Option<&CachePoint>) -> Bytes {
    let schemas: usize = request.tools.iter().map(|tool| tool.parameters.get().len() + 256).sum();
    let mut out = Vec::with_capacity(request.system.len() * 17 / 16 + schemas + 256);
    out.push(b'{');
    if !request.system.trim().is_empty() {
        field(&mut out, "system");
        out.extend_from_slice(b"[{\"text\":");
        write_string(&mut out, &request.system);
        out.push(b'}');
        if let Some(point) = point {
            out.push(b',');
            out.extend_from_slice(point.json.as_bytes());
        }
        out.push(b']');
    }
    write_tools(&mut out, request, point.filter(|point| point.caching.tools));
    field(&mut out, "messages");
    out.push(b'[');
    Bytes::from(out)
}

/// Writes `toolConfig`. Converse has no `none`: then the tools are left out.
fn write_tools(out: &mut Vec<u8>, request: &ModelRequest, point: Option<&CachePoint>) {
    let choice = request.options.tool_choice.as_ref();
    let own = &request.options.provider_tools;
    if choice == Some(&ToolChoice::None) || (request.tools.is_empty() && own.is_empty()) {
        if request.messages.iter().any(has_tool_blocks) {
            field(out, "toolConfig");
            out.extend_from_slice(b"{\"tools\":[");
            out.extend_from_slice(NO_TOOL.as_bytes());
            out.extend_from_slice(b"]}");
        }
        return;
    }
    field(out, "toolConfig");
    out.extend_from_slice(b"{\"tools\":[");
    for tool in request.tools.iter() {
        out.extend_from_slice(b"{\"toolSpec\":{\"name\":");
        write_string(out, &tool.name);
        // An empty description is refused.
        if !tool.description.trim().is_empty() {
            out.extend_from_slice(b",\"description\":");
            write_string(out, &tool.description);
        }
        out.extend_from_slice(b",\"inputSchema\":{\"json\":");
        out.extend_from_slice(tool.parameters.get().as_bytes());
        out.extend_from_slice(b"}}},");
    }
    for tool in own {
        out.extend_from_slice(tool.get().as_bytes());
        out.push(b',');
    }
    match point {
        Some(point) => out.extend_from_slice(point.json.as_bytes()),
        None => {
            out.pop();
        }
    }
    out.push(b']');
    match choice {
        None | Some(ToolChoice::None) => {}
        Some(ToolChoice::Auto) => out.extend_from_slice(b",\"toolChoice\":{\"auto\":{}}"),
        Some(ToolChoice::Required) => out.extend_from_slice(b",\"toolChoice\":{\"any\":{}}"),
        Some(ToolChoice::Tool { name }) => {
            out.extend_from_slice(b",\"toolChoice\":{\"tool\":{\"name\":");
            write_string(out, name);
            out.extend_from_slice(b"}}");
        }
    }
    out.push(b'}');
}

/// Inside a JSON text these quotes would be escaped, so only blocks are found.
fn has_tool_blocks(piece: &Bytes) -> bool {
    memmem::find(piece, TOOL_USE).is_some() || memmem::find(piece, TOOL_RESULT).is_some()
}

fn tail(request: &ModelRequest) -> Bytes {
    let mut out = b"]".to_vec();
    let reasons = reasoning(request);
    field(&mut out, "inferenceConfig");
    out.push(b'{');
    if !reasons.unbounded {
        field(&mut out, "maxTokens");
        write_value(&mut out, request.max_tokens);
    }
    // With thinking on, Claude accepts only its default temperature.
    if let Some(temperature) = request.temperature.filter(|it| it.is_finite() && !reasons.on) {
        field(&mut out, "temperature");
        write_value(&mut out, temperature);
    }
    if !request.options.stop_sequences.is_empty() {
        field(&mut out, "stopSequences");
        write_value(&mut out, &request.options.stop_sequences);
    }
    out.push(b'}');
    if !reasons.fields.is_empty() {
        field(&mut out, "additionalModelRequestFields");
        out.extend_from_slice(reasons.fields.as_bytes());
    }
    write_output_config(&mut out, request, reasons.effort);
    write_metadata(&mut out, request);
    out.push(b'}');
    Bytes::from(out)
}

fn write_output_config(out: &mut Vec<u8>, request: &ModelRequest, effort: Option<&str>) {
    let schema = match &request.options.response_format {
        Some(ResponseFormat::JsonSchema { name, schema, .. }) => Some((name, schema)),
        // Converse can enforce only a schema.
        Some(ResponseFormat::JsonObject) | None => None,
    };
    if schema.is_none() && effort.is_none() {
        return;
    }
    field(out, "outputConfig");
    out.push(b'{');
    if let Some((name, schema)) = schema {
        field(out, "textFormat");
        out.extend_from_slice(
            b"{\"type\":\"json_schema\",\"structure\":{\"jsonSchema\":{\"schema\":",
        );
        // The schema as a text.
        write_string(out, schema.get());
        out.extend_from_slice(b",\"name\":");
        write_string(out, name.as_deref().unwrap_or("answer"));
        out.extend_from_slice(b"}}}");
    }
    if let Some(effort) = effort {
        field(out, "effort");
        write_string(out, effort);
    }
    out.push(b'}');
}

/// The metadata within Converse's alphabet; other entries are left out, because metadata must not fail the request.
pub(super) fn metadata(request: &ModelRequest) -> Vec<(&String, &String)> {
    let (most, longest) = METADATA;
    let fits = |text: &str| {
        text.len() <= longest
            && text.bytes().all(|byte| {
                byte.is_ascii_alphanumeric()
                    || byte.is_ascii_whitespace()
                    || b":_@$#=/+,-.".contains(&byte)
            })
    };
    let given = request.options.metadata.iter();
    given.filter(|(name, value)| !name.is_empty() && fits(name) && fits(value)).take(most).collect()
}

fn write_metadata(out: &mut Vec<u8>, request: &ModelRequest) {
    let notes = metadata(request);
    if notes.is_empty() {
        return;
    }
    field(out, "requestMetadata");
    out.push(b'{');
    for (name, value) in notes {
        field(out, name);
        write_string(out, value);
    }
    out.push(b'}');
}

/// The reasoning fields of a request.
#[derive(Default)]
struct Reasons {
    /// `additionalModelRequestFields`; empty for none.
    fields: String,
    /// `outputConfig.effort`.
    effort: Option<&'static str>,
    /// Whether the model reasons, and so refuses a temperature.
    on: bool,
    /// Whether it refuses a cap.
    unbounded: bool,
}

fn reasoning(request: &ModelRequest) -> Reasons {
    let Some(config) = &request.thinking else { return Reasons::default() };
    match models::reasoning(&request.model) {
        Reasoning::Thinking => thinking(config),
        Reasoning::Config if is_off(config) => Reasons::default(),
        Reasoning::Config => {
            let effort = effort_of_three(config);
            let fields = format!(
                r#"{{"reasoningConfig":{{"type":"enabled","maxReasoningEffort":"{effort}"}}}}"#
            );
            // At its highest effort Nova refuses both a cap and a temperature.
            let high = effort == "high";
            Reasons { fields, on: high, unbounded: high, effort: None }
        }
        Reasoning::Effort if is_off(config) => Reasons::default(),
        Reasoning::Effort => {
            let fields = format!(r#"{{"reasoning_effort":"{}"}}"#, effort_of_three(config));
            Reasons { fields, ..Reasons::default() }
        }
        Reasoning::Nothing => Reasons::default(),
    }
}

/// The fields of Claude: a budget, adaptive, or off; and an effort beside each.
fn thinking(config: &ThinkingConfig) -> Reasons {
    let by_budget = config.budget_tokens.map(|_| ThinkingMode::Enabled);
    let by_effort = (config.effort == Some(ThinkingEffort::None)).then_some(ThinkingMode::Disabled);
    let mode = config.mode.or(by_budget).or(by_effort);
    let (fields, on) = match mode {
        Some(ThinkingMode::Enabled) => {
            let budget = config.budget_tokens.unwrap_or(LEAST_BUDGET);
            (format!(r#"{{"thinking":{{"type":"enabled","budget_tokens":{budget}}}}}"#), true)
        }
        Some(ThinkingMode::Adaptive) => (r#"{"thinking":{"type":"adaptive"}}"#.to_owned(), true),
        Some(ThinkingMode::Disabled) => (r#"{"thinking":{"type":"disabled"}}"#.to_owned(), false),
        None => (String::new(), false),
    };
    let effort = match config.effort {
        None | Some(ThinkingEffort::None) => None,
        Some(ThinkingEffort::Minimal | ThinkingEffort::Low) => Some("low"),
        Some(ThinkingEffort::Medium) => Some("medium"),
        Some(ThinkingEffort::High) => Some("high"),
        // Without thinking `high` is the maximum.
        Some(ThinkingEffort::Xhigh | ThinkingEffort::Max)
            if mode == Some(ThinkingMode::Disabled) =>
        {
            Some("high")
        }
        Some(ThinkingEffort::Xhigh) => Some("xhigh"),
        Some(ThinkingEffort::Max) => Some("max"),
    };
    Reasons { fields, effort, on, unbounded: false }
}

fn is_off(config: &ThinkingConfig) -> bool {
    config.mode == Some(ThinkingMode::Disabled) || config.effort == Some(ThinkingEffort::None)
}

/// One of the three efforts, for models without others; a budget in tokens by its size.
fn effort_of_three(config: &ThinkingConfig) -> &'static str {
    let requested = config.effort.or(config.budget_tokens.map(ThinkingEffort::of_budget));
    requested.unwrap_or(ThinkingEffort::Medium).of_three().as_str()
}

fn write_value(out: &mut Vec<u8>, value: impl serde::Serialize) {
    // Writing to a vector cannot fail, nor can these values.
    let _ = serde_json::to_writer(out, &value);
}
