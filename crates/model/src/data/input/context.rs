//! Reading what the host hands in: contexts and messages as JSON text, checked field by field.
//!
//! Every refusal names the field's path. It must never guess: an unknown block or role is an error, because a dropped
//! part of a conversation is a silent loss.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

use crate::data::input::quote::quoted;
use crate::{
    AgentMessage, AgentRole, AssembledContext, Block, Message, PromptCache, Provenance,
    RequestOptions, ResponseFormat, Role, ThinkingConfig, TokenBudget, ToolChoice, ToolDefinition,
    is_base64,
};

/// What is wrong with an input, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{path}`: {message}")]
pub struct InputError {
    /// The field: `history[3].content[0].type`.
    pub path: String,
    /// What is wrong and what to pass instead.
    pub message: String,
}

impl InputError {
    /// An error at a path, with a message.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self { path: path.into(), message: message.into() }
    }
}

type Parsed<T> = Result<T, InputError>;

/// What fills the gaps of a message: its id and its time.
pub struct Defaults<'a> {
    /// Makes a ULID.
    pub new_id: &'a mut dyn FnMut() -> String,
    /// Unix milliseconds.
    pub now_ms: i64,
}

/// The longest session label in bytes (docs/rules/sessions-and-ledger.md#labels).
const MAX_LABEL_BYTES: usize = 512;
/// A day and a bit would be a mistake in units; this is 30 days.
const MAX_TIMEOUT_MS: u64 = 30 * 24 * 3_600_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawContext<'a> {
    #[serde(borrow, default)]
    system_prompt: Option<&'a RawValue>,
    #[serde(borrow, default)]
    history: Option<&'a RawValue>,
    #[serde(borrow, default)]
    current_message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Option<&'a RawValue>,
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    provider: Option<&'a RawValue>,
    #[serde(borrow, default)]
    fallbacks: Option<&'a RawValue>,
    #[serde(borrow, default)]
    auth_profile_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking_config: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_choice: Option<&'a RawValue>,
    #[serde(borrow, default)]
    parallel_tool_calls: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response_format: Option<&'a RawValue>,
    #[serde(borrow, default)]
    stop_sequences: Option<&'a RawValue>,
    #[serde(borrow, default)]
    prompt_cache: Option<&'a RawValue>,
    #[serde(borrow, default)]
    metadata: Option<&'a RawValue>,
    #[serde(borrow, default)]
    headers: Option<&'a RawValue>,
    #[serde(borrow, default)]
    provider_tools: Option<&'a RawValue>,
    #[serde(borrow, default)]
    max_response_tokens: Option<&'a RawValue>,
    #[serde(borrow, default)]
    temperature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    token_budget: Option<&'a RawValue>,
    #[serde(borrow, default)]
    timeout_ms: Option<&'a RawValue>,
    #[serde(borrow, default)]
    run_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    session_label: Option<&'a RawValue>,
    #[serde(borrow, default)]
    parent_turn_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    role: Option<&'a RawValue>,
    #[serde(borrow, default)]
    toolset_name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    permissions_granted: Option<&'a RawValue>,
    #[serde(borrow, default)]
    source_event_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    workspace_path: Option<&'a RawValue>,
    #[serde(borrow, default)]
    target: Option<&'a RawValue>,
    #[serde(borrow, default)]
    max_iterations: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_timeout_ms: Option<&'a RawValue>,
    #[serde(borrow, default)]
    coalesce: Option<&'a RawValue>,
    #[serde(borrow, default)]
    detached: Option<&'a RawValue>,
}

/// Parses and checks a context.
///
/// # Errors
/// The first field that is missing or wrong, by its path.
pub fn parse_context(json: &str, defaults: &mut Defaults<'_>) -> Parsed<AssembledContext> {
    let raw: RawContext<'_> = serde_json::from_str(json)
        .map_err(|error| InputError::new("context", format!("not a context object: {error}")))?;
    let timeout_ms: u64 = required("timeoutMs", raw.timeout_ms)?;
    if timeout_ms == 0 || timeout_ms > MAX_TIMEOUT_MS {
        return Err(InputError::new(
            "timeoutMs",
            format!("`{timeout_ms}` is not a limit; pass 1 to {MAX_TIMEOUT_MS} milliseconds"),
        ));
    }
    let history = raw.history.map(|raw| parse_history(raw, defaults)).transpose()?;
    let current = raw.current_message.ok_or_else(|| missing("currentMessage"))?;
    let mut current_message =
        message("currentMessage", &value("currentMessage", current)?, defaults)?;
    if current_message.role != Role::User {
        return Err(InputError::new(
            "currentMessage.role",
            format!("`{}` cannot open a turn; pass `user`", current_message.role.as_str()),
        ));
    }
    refuse_unreadable_images(&current_message)?;
    current_message.sequence = 0;
    let max_iterations = optional("maxIterations", raw.max_iterations)?.unwrap_or(25);
    if max_iterations == 0 {
        return Err(InputError::new(
            "maxIterations",
            "`0` allows no call of the model; pass at least 1",
        ));
    }
    let temperature: Option<f64> = optional("temperature", raw.temperature)?;
    if let Some(value) = temperature
        && !(0.0..=2.0).contains(&value)
    {
        return Err(InputError::new("temperature", format!("`{value}` is outside 0 to 2")));
    }
    let request = Arc::new(request_options(&raw)?);
    let tools = parse_tools(raw.tools)?;
    if let Some(ToolChoice::Tool { name }) = &request.tool_choice
        && !tools.iter().any(|tool| tool.name == *name)
    {
        return Err(InputError::new(
            "toolChoice.name",
            format!("{} is not one of `tools`", quoted(name)),
        ));
    }
    Ok(AssembledContext {
        system_prompt: required("systemPrompt", raw.system_prompt)?,
        history,
        current_message,
        tools,
        request,
        tools_json: raw.tools.map(|raw| raw.get().to_owned()).unwrap_or_default(),
        model: non_empty("model", raw.model)?,
        provider: non_empty("provider", raw.provider)?,
        fallbacks: optional("fallbacks", raw.fallbacks)?,
        auth_profile_id: optional_id("authProfileId", raw.auth_profile_id)?,
        thinking_config: optional::<ThinkingConfig>("thinkingConfig", raw.thinking_config)?,
        max_response_tokens: positive("maxResponseTokens", raw.max_response_tokens)?,
        temperature,
        token_budget: optional::<TokenBudget>("tokenBudget", raw.token_budget)?.unwrap_or_default(),
        timeout_ms,
        run_id: non_empty("runId", raw.run_id)?,
        session_label: session_label(
            "sessionLabel",
            &required::<String>("sessionLabel", raw.session_label)?,
        )?,
        parent_turn_id: parent("parentTurnId", raw.parent_turn_id)?,
        role: required::<AgentRole>("role", raw.role)?,
        toolset_name: one_line("toolsetName", required("toolsetName", raw.toolset_name)?)?,
        permissions_granted: permissions(raw.permissions_granted)?,
        source_event_id: optional_id("sourceEventId", raw.source_event_id)?,
        workspace_path: required("workspacePath", raw.workspace_path)?,
        target: raw.target.map(|raw| value("target", raw).map(|_| raw.to_owned())).transpose()?,
        max_iterations,
        tool_timeout_ms: positive("toolTimeoutMs", raw.tool_timeout_ms)?,
        coalesce: optional("coalesce", raw.coalesce)?.unwrap_or(true),
        detached: optional("detached", raw.detached)?.unwrap_or(false),
    })
}

fn request_options(raw: &RawContext<'_>) -> Parsed<RequestOptions> {
    let response_format = optional("responseFormat", raw.response_format)?;
    if let Some(ResponseFormat::JsonSchema { name, schema, .. }) = &response_format {
        if name.as_deref().is_some_and(|name| !usable_name(name)) {
            let message = "is not a name; use 1 to 64 of A-Z a-z 0-9 _ -";
            return Err(InputError::new("responseFormat.name", message));
        }
        if !schema.get().starts_with('{') {
            return Err(InputError::new("responseFormat.schema", "is not a JSON Schema object"));
        }
    }
    let provider_tools: Vec<Box<RawValue>> =
        optional("providerTools", raw.provider_tools)?.unwrap_or_default();
    for (index, tool) in provider_tools.iter().enumerate() {
        let path = format!("providerTools[{index}]");
        if !tool.get().starts_with('{') {
            return Err(InputError::new(path, "is not an object as the provider's API has it"));
        }
        value(&path, tool)?;
    }
    let metadata: BTreeMap<String, String> =
        optional("metadata", raw.metadata)?.unwrap_or_default();
    for (name, text) in &metadata {
        one_line("metadata", name.clone())?;
        one_line(&format!("metadata.{name}"), text.clone())?;
    }
    let prompt_cache: PromptCache = optional("promptCache", raw.prompt_cache)?.unwrap_or_default();
    if let Some(key) = &prompt_cache.key {
        one_line("promptCache.key", key.clone())?;
    }
    let stop_sequences: Vec<String> =
        optional("stopSequences", raw.stop_sequences)?.unwrap_or_default();
    if let Some(index) = stop_sequences.iter().position(String::is_empty) {
        return Err(InputError::new(format!("stopSequences[{index}]"), "is empty; leave it out"));
    }
    Ok(RequestOptions {
        tool_choice: optional("toolChoice", raw.tool_choice)?,
        parallel_tool_calls: optional("parallelToolCalls", raw.parallel_tool_calls)?,
        response_format,
        stop_sequences,
        prompt_cache,
        metadata,
        headers: optional("headers", raw.headers)?.unwrap_or_default(),
        provider_tools,
    })
}

/// Whether all APIs take a text as a name.
fn usable_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// Checks a session label: an opaque key of at most 512 bytes without control characters (docs/rules/sessions-and-ledger.md#labels).
///
/// # Errors
/// When it is empty, too long or has a control character.
pub fn session_label(path: &str, label: &str) -> Parsed<String> {
    if label.is_empty() {
        return Err(InputError::new(path, "is empty; pass a session label"));
    }
    if label.len() > MAX_LABEL_BYTES {
        return Err(InputError::new(
            path,
            format!("is {} bytes long; at most {MAX_LABEL_BYTES} are allowed", label.len()),
        ));
    }
    if label.chars().any(char::is_control) {
        return Err(InputError::new(path, "has a control character; remove it"));
    }
    Ok(label.to_owned())
}

fn missing(path: &str) -> InputError {
    InputError::new(path, "is missing")
}

fn value(path: &str, raw: &RawValue) -> Parsed<Value> {
    serde_json::from_str(raw.get())
        .map_err(|error| InputError::new(path, format!("is not usable JSON: {error}")))
}

/// The value at `path` as a `T`, or where in it the input is wrong.
pub fn typed<T: DeserializeOwned>(path: &str, raw: &RawValue) -> Parsed<T> {
    let mut reader = serde_json::Deserializer::from_str(raw.get());
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let inner = error.path().to_string();
        let path = match inner.as_str() {
            "." => path.to_owned(),
            inner if inner.starts_with('[') => format!("{path}{inner}"),
            inner => format!("{path}.{inner}"),
        };
        input_error(path, &error.into_inner())
    })
}

/// The error of serde for the value at `path`, with the name of a missing field in the path.
pub fn input_error(path: String, error: &serde_json::Error) -> InputError {
    let text = plain(error);
    match text.strip_prefix("missing field `").and_then(|rest| rest.strip_suffix('`')) {
        Some(field) => missing(&format!("{path}.{field}")),
        None => InputError::new(path, text),
    }
}

/// The longest value of a closed set that an error repeats, with its backticks.
const LONGEST_WORD: usize = 22;

/// serde's sentence without the position, and without the value it quotes (it may be a secret).
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    // The position comes last; the quoted text may itself contain " at line ".
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    let expected = text.rfind(", expected ").and_then(|at| text.get(at..)).unwrap_or_default();
    let names = |what: &str| text.strip_prefix(what).filter(|_| !expected.is_empty());
    if text.contains("surrogate in hex escape") || text == "unexpected end of hex escape" {
        return "has half of a surrogate pair, as a cut through a character leaves it; pass whole text"
            .to_owned();
    }
    if let Some((given, expected)) =
        text.strip_prefix("unknown field `").and_then(|rest| rest.rsplit_once("`, expected "))
    {
        return format!("unknown field {}, expected {expected}", quoted(given));
    }
    if let Some(kind) = names("invalid type: ") {
        let kind = kind.split([' ', ',']).next().unwrap_or_default();
        format!("is a {kind}{expected}")
    } else if names("invalid value: ").is_some() {
        format!("has a value that cannot be used{expected}")
    } else if let Some(given) = names("unknown variant ") {
        // A short word helps who mistyped it; what is longer than any of ours may be a key in the wrong place.
        let given = given.split(", expected ").next().unwrap_or_default();
        let word = given.len() <= LONGEST_WORD
            && given.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"`-_".contains(&byte));
        format!("{} is not known{expected}", if word { given } else { "this value" })
    } else {
        text.to_owned()
    }
}

/// As [`typed`], for a field that has to be there.
pub fn required<T: DeserializeOwned>(path: &str, raw: Option<&RawValue>) -> Parsed<T> {
    typed(path, raw.ok_or_else(|| missing(path))?)
}

/// As [`typed`], for a field that may be missing.
pub fn optional<T: DeserializeOwned>(path: &str, raw: Option<&RawValue>) -> Parsed<Option<T>> {
    raw.filter(|raw| raw.get() != "null").map(|raw| typed(path, raw)).transpose()
}

fn positive(path: &str, raw: Option<&RawValue>) -> Parsed<Option<u64>> {
    match optional(path, raw)? {
        Some(0) => Err(InputError::new(path, "`0` is not usable; pass at least 1 or leave it out")),
        other => Ok(other),
    }
}

fn non_empty(path: &str, raw: Option<&RawValue>) -> Parsed<String> {
    let text: String = required(path, raw)?;
    if text.is_empty() { Err(InputError::new(path, "is empty")) } else { one_line(path, text) }
}

/// A name or an id. A line break or a NUL in one would end a header, a URL or a line of a log early.
pub fn one_line(path: &str, text: String) -> Parsed<String> {
    if text.chars().any(char::is_control) {
        return Err(InputError::new(path, "has a control character; remove it"));
    }
    Ok(text)
}

fn optional_id(path: &str, raw: Option<&RawValue>) -> Parsed<Option<String>> {
    optional::<String>(path, raw)?.map(|id| one_line(path, id)).transpose()
}

/// The caller can mend what it sends now; what an old history holds is left out of the request.
fn refuse_unreadable_images(message: &Message) -> Parsed<()> {
    let refused = |path: String| {
        let message =
            "is not base64; pass the bytes in padded standard base64, without a `data:` prefix";
        InputError::new(format!("{path}.data"), message)
    };
    for (index, block) in message.blocks.iter().enumerate() {
        let path = format!("currentMessage.content[{index}]");
        let parts = match block {
            Block::Image { data, .. } if !is_base64(data) => return Err(refused(path)),
            Block::ToolResult { content, .. } => content.as_slice(),
            _ => &[],
        };
        for (inner, part) in parts.iter().enumerate() {
            if let Block::Image { data, .. } = part
                && !is_base64(data)
            {
                return Err(refused(format!("{path}.content[{inner}]")));
            }
        }
    }
    Ok(())
}

fn parent(path: &str, raw: Option<&RawValue>) -> Parsed<Option<String>> {
    match optional::<String>(path, raw)? {
        Some(id) if id.is_empty() => {
            Err(InputError::new(path, "is an empty string; pass a turn id, null, or leave it out"))
        }
        other => Ok(other),
    }
}

fn permissions(raw: Option<&RawValue>) -> Parsed<Box<RawValue>> {
    let raw = raw.ok_or_else(|| missing("permissionsGranted"))?;
    if raw.get().starts_with('[') {
        // Read for its depth only: what is stored and passed on must be readable again (docs/rules/faults.md#input-bounds).
        value("permissionsGranted", raw)?;
        Ok(raw.to_owned())
    } else {
        Err(InputError::new("permissionsGranted", "is not an array; pass the permissions snapshot"))
    }
}

fn parse_tools(raw: Option<&RawValue>) -> Parsed<Vec<ToolDefinition>> {
    let raw = raw.ok_or_else(|| missing("tools"))?;
    let tools: Vec<ToolDefinition> = typed("tools", raw)?;
    let mut names = HashSet::with_capacity(tools.len());
    for (index, tool) in tools.iter().enumerate() {
        let path = format!("tools[{index}].name");
        if !usable_name(&tool.name) {
            return Err(InputError::new(
                path,
                format!("`{}` is not a tool name; use 1 to 64 of A-Z a-z 0-9 _ -", tool.name),
            ));
        }
        if !names.insert(tool.name.as_str()) {
            return Err(InputError::new(path, format!("`{}` is there twice", tool.name)));
        }
        if !tool.parameters.get().starts_with('{') {
            return Err(InputError::new(
                format!("tools[{index}].parameters"),
                "is not a JSON Schema object",
            ));
        }
        if tool.timeout_ms == Some(0) {
            return Err(InputError::new(format!("tools[{index}].timeoutMs"), "`0` leaves no time"));
        }
        if tool.retries > 0
            && matches!(tool.replay, crate::ReplayClass::Unsafe | crate::ReplayClass::Reconcilable)
        {
            return Err(InputError::new(
                format!("tools[{index}].retries"),
                "needs `replay: 'pure'` or `'idempotent'`, because a retry repeats the side effect",
            ));
        }
    }
    Ok(tools)
}

fn parse_history(raw: &RawValue, defaults: &mut Defaults<'_>) -> Parsed<Vec<Message>> {
    let items: Vec<&RawValue> = serde_json::from_str(raw.get())
        .map_err(|_| InputError::new("history", "is not an array of messages"))?;
    items
        .into_iter()
        .enumerate()
        .map(|(index, raw)| {
            let path = format!("history[{index}]");
            let mut message = message(&path, &value(&path, raw)?, defaults)?;
            message.sequence = u32::try_from(index).unwrap_or(u32::MAX);
            Ok(message)
        })
        .collect()
}

/// Parses one message: ours, the broker interface's flat form, or pi's (`toolResult`, `toolCall`, `thinkingSignature`, …).
///
/// # Errors
/// The first field that is missing or wrong, by its path below `path`.
pub fn parse_message(path: &str, json: &str, defaults: &mut Defaults<'_>) -> Parsed<Message> {
    let parsed: Value = serde_json::from_str(json)
        .map_err(|error| InputError::new(path, format!("is not usable JSON: {error}")))?;
    message(path, &parsed, defaults)
}

fn message(path: &str, value: &Value, defaults: &mut Defaults<'_>) -> Parsed<Message> {
    let Value::Object(fields) = value else {
        return Err(InputError::new(path, "is not a message object"));
    };
    let at = |field: &str| format!("{path}.{field}");
    let role_name = text(fields.get("role"), &at("role"))?;
    let role = match role_name.as_str() {
        "user" => Role::User,
        "assistant" => Role::Assistant,
        "system" => Role::System,
        "tool" | "toolResult" => Role::Tool,
        other => {
            return Err(InputError::new(
                at("role"),
                format!(
                    "{} is unknown; use `user`, `assistant`, `system` or `tool`",
                    quoted(other)
                ),
            ));
        }
    };
    let parts = match fields.get("blocks") {
        Some(Value::Array(_)) => ("blocks", fields.get("blocks")),
        _ => ("content", fields.get("content")),
    };
    let mut blocks = match parts {
        (_, Some(Value::String(text))) => vec![Block::text(text.clone())],
        (name, Some(Value::Array(items))) => items
            .iter()
            .enumerate()
            .map(|(index, item)| {
                let path = format!("{}[{index}]", at(name));
                block(&path, item).and_then(|block| placed(&path, role, block))
            })
            .collect::<Parsed<Vec<_>>>()?,
        (_, Some(Value::Null) | None) => return Err(missing(&at("content"))),
        (name, Some(_)) => {
            return Err(InputError::new(at(name), "is neither a string nor an array of blocks"));
        }
    };
    if role == Role::Assistant
        && fields.get("blocks").is_none()
        && let Some(thinking) = checked_text(fields.get("thinking"), &at("thinking"))?
    {
        blocks.insert(0, Block::Thinking { thinking, signature: None, provider_data: None });
    }
    let already = matches!(blocks.as_slice(), [Block::ToolResult { .. }]);
    if role == Role::Tool && !already {
        blocks = vec![Block::ToolResult {
            tool_call_id: text(fields.get("toolCallId"), &at("toolCallId"))?,
            tool_name: checked_text(fields.get("toolName"), &at("toolName"))?.unwrap_or_default(),
            content: blocks,
            is_error: flag(fields.get("isError"), &at("isError"))?,
        }];
    }
    let time = if fields.contains_key("createdAt") { "createdAt" } else { "timestamp" };
    let created_at = unix_ms(fields.get(time), &at(time))?.unwrap_or(defaults.now_ms);
    Ok(Message {
        id: checked_text(fields.get("id"), &at("id"))?
            .filter(|id| !id.is_empty())
            .unwrap_or_else(|| (defaults.new_id)()),
        role,
        blocks,
        sequence: 0,
        created_at,
        provenance: provenance(fields),
        provider_stop_reason: optional_text(fields.get("providerStopReason")),
    })
}

fn provenance(fields: &serde_json::Map<String, Value>) -> Option<Provenance> {
    if let Some(given) = fields.get("provenance") {
        return serde_json::from_value(given.clone()).ok();
    }
    Some(Provenance {
        provider: optional_text(fields.get("provider"))?,
        api: match optional_text(fields.get("api"))?.as_str() {
            "openai-completions" => "openai-chat".to_owned(),
            other => other.to_owned(),
        },
        model: optional_text(fields.get("model"))?,
        response_id: optional_text(fields.get("responseId")),
    })
}

fn text(value: Option<&Value>, path: &str) -> Parsed<String> {
    match value {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(InputError::new(path, "is not a string")),
        None => Err(missing(path)),
    }
}

/// A block where a message of this role may have it. Elsewhere no provider takes it, and it would be lost.
fn placed(path: &str, role: Role, block: Block) -> Parsed<Block> {
    let refused = match (&block, role) {
        (
            Block::ToolCall { .. } | Block::Thinking { .. } | Block::RedactedThinking { .. },
            Role::User | Role::System | Role::Tool,
        ) => Some("assistant"),
        (Block::ToolResult { .. }, Role::Assistant | Role::System) => Some("tool"),
        _ => None,
    };
    match refused {
        None => Ok(block),
        Some(owner) => Err(InputError::new(
            format!("{path}.type"),
            format!("belongs into a message of role `{owner}`, not of `{}`", role.as_str()),
        )),
    }
}

/// A text that may be left out.
fn checked_text(value: Option<&Value>, path: &str) -> Parsed<Option<String>> {
    match value {
        Some(Value::Null) | None => Ok(None),
        some => text(some, path).map(Some),
    }
}

/// Unix milliseconds; a fraction, as `performance` gives it, is cut off.
fn unix_ms(value: Option<&Value>, path: &str) -> Parsed<Option<i64>> {
    match value {
        Some(Value::Null) | None => Ok(None),
        Some(Value::Number(number)) => number
            .as_i64()
            .or_else(|| number.to_string().split('.').next()?.parse().ok())
            .map(Some)
            .ok_or_else(|| InputError::new(path, "is not a time in Unix milliseconds")),
        Some(_) => Err(InputError::new(path, "is not a number of Unix milliseconds")),
    }
}

fn flag(value: Option<&Value>, path: &str) -> Parsed<bool> {
    match value {
        Some(Value::Bool(flag)) => Ok(*flag),
        Some(Value::Null) | None => Ok(false),
        Some(_) => Err(InputError::new(path, "is not true or false")),
    }
}

fn optional_text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).map(ToOwned::to_owned)
}

fn block(path: &str, value: &Value) -> Parsed<Block> {
    let at = |field: &str| format!("{path}.{field}");
    let field = |name: &str| text(value.get(name), &at(name));
    let provider_data = optional_text(value.get("providerData"));
    Ok(match field("type")?.as_str() {
        "text" => Block::Text { text: field("text")?, provider_data },
        "image" => Block::Image { mime_type: field("mimeType")?, data: field("data")? },
        "thinking" if value.get("redacted").and_then(Value::as_bool) == Some(true) => {
            Block::RedactedThinking { data: field("thinkingSignature")?, provider_data }
        }
        "thinking" => Block::Thinking {
            thinking: field("thinking")?,
            signature: optional_text(value.get("signature"))
                .or_else(|| optional_text(value.get("thinkingSignature"))),
            provider_data,
        },
        "redacted_thinking" => Block::RedactedThinking { data: field("data")?, provider_data },
        "tool_call" => Block::ToolCall {
            id: field("id")?,
            name: field("name")?,
            arguments_json: field("argumentsJson")?,
            incomplete: value.get("incomplete").and_then(Value::as_bool).unwrap_or(false),
            provider_data,
        },
        "toolCall" => Block::ToolCall {
            id: field("id")?,
            name: field("name")?,
            arguments_json: match value.get("arguments") {
                Some(Value::Null) | None => "{}".to_owned(),
                Some(arguments @ Value::Object(_)) => arguments.to_string(),
                Some(_) => {
                    let message = "is not an object; pass parsed arguments, or `argumentsJson`";
                    return Err(InputError::new(at("arguments"), message));
                }
            },
            incomplete: false,
            provider_data: optional_text(value.get("thoughtSignature")),
        },
        "tool_result" => Block::ToolResult {
            tool_call_id: field("toolCallId")?,
            tool_name: optional_text(value.get("toolName")).unwrap_or_default(),
            content: match value.get("content") {
                Some(Value::Array(items)) => items
                    .iter()
                    .enumerate()
                    .map(|(index, item)| {
                        let path = format!("{}[{index}]", at("content"));
                        match block(&path, item)? {
                            part @ (Block::Text { .. } | Block::Image { .. }) => Ok(part),
                            _ => Err(InputError::new(
                                format!("{path}.type"),
                                "has no place in a result; use `text` and `image`",
                            )),
                        }
                    })
                    .collect::<Parsed<Vec<_>>>()?,
                Some(Value::String(text)) => vec![Block::text(text.clone())],
                _ => return Err(missing(&at("content"))),
            },
            is_error: flag(value.get("isError"), &at("isError"))?,
        },
        "opaque" => {
            let raw_json = field("rawJson")?;
            // It goes into a request as it is.
            if serde_json::from_str::<Value>(&raw_json).is_err() {
                return Err(InputError::new(at("rawJson"), "is not JSON"));
            }
            Block::Opaque { raw_json }
        }
        other => {
            return Err(InputError::new(
                at("type"),
                format!(
                    "{} is unknown; use `text`, `image`, `thinking`, `redacted_thinking`, `tool_call`, \
                     `tool_result` or `opaque`",
                    quoted(other)
                ),
            ));
        }
    })
}

/// Parses the messages of a result that a broker writes itself.
///
/// # Errors
/// The first message that is wrong, by its path.
pub fn parse_agent_message(path: &str, json: &RawValue) -> Parsed<AgentMessage> {
    typed(path, json)
}
