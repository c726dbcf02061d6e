//! Reads a context from JSON text and checks it field by field.
//!
//! Every refusal names the field's path. It must never guess: an unknown field value is an error, because a dropped part of
//! a conversation is a silent loss.

use std::sync::Arc;

use serde_json::value::RawValue;

use crate::data::input::field::{
    InputError, Parsed, missing, non_empty, one_line, optional, optional_id, positive, required,
    value,
};
use crate::data::input::history::continue_history;
use crate::data::input::message::{Defaults, message};
use crate::data::input::raw_context::RawContext;
use crate::data::input::request::{parse_tools, request_options};
use crate::{
    AgentRole, AssembledContext, Block, GivenHistory, Message, Metadata, PlannerSettings,
    RecordedLayer, Role, RunPolicy, ThinkingConfig, TokenBudget, is_base64,
};

/// How many parallel tools run at once, unless the host sets it (docs/rules/turns-and-streams.md#tool-execution).
const MAX_PARALLEL_TOOLS: u32 = 8;
/// The longest session label in bytes (docs/rules/sessions-and-ledger.md#labels).
const MAX_LABEL_BYTES: usize = 512;

/// 30 days: a longer timeout is a mistake in units.
const MAX_TIMEOUT_MS: u64 = 30 * 24 * 3_600_000;

/// Parses and checks a context.
///
/// # Errors
/// The first field that is missing or wrong, by its path.
pub fn parse_context(json: &str, defaults: &mut Defaults<'_>) -> Parsed<AssembledContext> {
    continue_context(json, GivenHistory::default(), defaults)
}

/// As [`parse_context`], for a context whose `history` continues `before`. Paths count from the beginning of both.
///
/// # Errors
/// The first field that is missing or wrong, by its path.
pub fn continue_context(
    json: &str,
    before: GivenHistory,
    defaults: &mut Defaults<'_>,
) -> Parsed<AssembledContext> {
    let raw: RawContext<'_> = serde_json::from_str(json)
        .map_err(|error| InputError::new("context", format!("not a context object: {error}")))?;
    let timeout_ms: u64 = required("timeoutMs", raw.timeout_ms)?;
    if timeout_ms == 0 || timeout_ms > MAX_TIMEOUT_MS {
        return Err(InputError::new(
            "timeoutMs",
            format!("`{timeout_ms}` is not a limit; pass 1 to {MAX_TIMEOUT_MS} milliseconds"),
        ));
    }
    let history = raw.history.map(|raw| continue_history(raw, before, defaults)).transpose()?;
    let current = raw.current_message.ok_or_else(|| missing("currentMessage"))?;
    let mut current_message =
        message("currentMessage", &value("currentMessage", current)?, defaults)?;
    let current_turn = current_turn(raw.current_turn, defaults)?;
    let may_come = match current_message.role {
        Role::User => true,
        // Its call is in the turn.
        Role::Tool => !current_turn.is_empty(),
        Role::Assistant | Role::System => false,
    };
    if !may_come {
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
    Ok(AssembledContext {
        system_prompt: required("systemPrompt", raw.system_prompt)?,
        history,
        current_turn,
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
        metadata: metadata(raw.metadata)?,
        layers: layers(raw.layers)?,
        target: raw.target.map(|raw| value("target", raw).map(|_| raw.to_owned())).transpose()?,
        max_iterations,
        tool_timeout_ms: positive("toolTimeoutMs", raw.tool_timeout_ms)?,
        max_parallel_tools: positive("maxParallelTools", raw.max_parallel_tools)?
            .map_or(MAX_PARALLEL_TOOLS, |most| u32::try_from(most).unwrap_or(u32::MAX)),
        coalesce: optional("coalesce", raw.coalesce)?.unwrap_or(true),
        detached: optional("detached", raw.detached)?.unwrap_or(false),
        on_approval: optional("onApproval", raw.on_approval)?.unwrap_or_default(),
        approval_expires_ms: positive("approvalExpiresMs", raw.approval_expires_ms)?,
        policies: RunPolicy::parse("policy", raw.policy)?,
        mcp: selected_tools(raw.mcp)?,
        planner: PlannerSettings::parse("planner", raw.planner)?,
    })
}

/// Which tools of MCP servers: `None` for all, a list of names and patterns otherwise.
fn selected_tools(raw: Option<&RawValue>) -> Parsed<Option<Vec<String>>> {
    match raw.map(RawValue::get) {
        None | Some("true" | "null") => Ok(None),
        Some("false") => Ok(Some(Vec::new())),
        Some(text) if text.starts_with('[') => optional("mcp", raw),
        Some(_) => Err(InputError::new(
            "mcp",
            "is neither true, false nor a list of names like `github`, `github.create_issue` and `github.*`",
        )),
    }
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

/// Checks the current message only: the caller can correct it. A bad image in an old history is left out of the request.
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

/// The messages of a turn whose tools the host runs: an answer of the model, results of its calls, and user messages.
fn current_turn(raw: Option<&RawValue>, defaults: &mut Defaults<'_>) -> Parsed<Vec<Message>> {
    let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Ok(Vec::new()) };
    let items: Vec<&RawValue> = serde_json::from_str(raw.get())
        .map_err(|_| InputError::new("currentTurn", "is not an array of messages"))?;
    let mut messages = Vec::with_capacity(items.len());
    for (index, raw) in items.into_iter().enumerate() {
        let path = format!("currentTurn[{index}]");
        messages.push(message(&path, &value(&path, raw)?, defaults)?);
    }
    match messages.first() {
        Some(first) if first.role != Role::Assistant => Err(InputError::new(
            "currentTurn[0].role",
            format!("`{}` is no answer of the model; begin with one", first.role.as_str()),
        )),
        _ => Ok(messages),
    }
}

fn parent(path: &str, raw: Option<&RawValue>) -> Parsed<Option<String>> {
    match optional::<String>(path, raw)? {
        Some(id) if id.is_empty() => {
            Err(InputError::new(path, "is an empty string; pass a turn id, null, or leave it out"))
        }
        other => Ok(other),
    }
}

fn metadata(raw: Option<&RawValue>) -> Parsed<Option<Metadata>> {
    let given = raw.filter(|raw| raw.get() != "null");
    given.map(|raw| Metadata::parse("metadata", raw.get())).transpose()
}

fn layers(raw: Option<&RawValue>) -> Parsed<Option<String>> {
    let layers: Option<Vec<RecordedLayer>> = optional("layers", raw)?;
    let json = layers.filter(|it| !it.is_empty()).map(|it| serde_json::to_string(&it)).transpose();
    json.map_err(|error| InputError::new("layers", format!("have no JSON: {error}")))
}

fn permissions(raw: Option<&RawValue>) -> Parsed<Box<RawValue>> {
    let raw = raw.ok_or_else(|| missing("permissionsGranted"))?;
    if raw.get().starts_with('[') {
        // Parsed to check its depth: a stored value must be readable again (docs/rules/faults.md#input-bounds).
        value("permissionsGranted", raw)?;
        Ok(raw.to_owned())
    } else {
        Err(InputError::new("permissionsGranted", "is not an array; pass the permissions snapshot"))
    }
}
