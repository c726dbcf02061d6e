//! Reads the error payload of any provider: its type, code and message.
//!
//! It knows the shapes, not their meaning. It must never read anything but an error: a body without one gives `None`.

use serde_json::{Map, Value};

/// The content of an error body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ErrorPayload {
    /// The provider's error type or status name.
    pub(crate) error_type: Option<String>,
    /// The provider's code; of several the most precise.
    pub(crate) code: Option<String>,
    /// The message.
    pub(crate) message: String,
    /// The HTTP status in the body (OpenRouter reports an upstream's inside a 200).
    pub(crate) status: Option<u16>,
    /// `google.rpc.RetryInfo`, verbatim (`"34.4s"`), or seconds of another provider (`"34"`).
    pub(crate) retry_delay: Option<String>,
    /// The reset time of the limit, in the form of a reset header: OpenRouter's is in the body.
    pub(crate) reset: Option<String>,
    /// Whether a quota of the day is used up, whatever wait is reported beside it (Google).
    pub(crate) daily_quota: bool,
}

/// Reads a body that may be an error: `None` where it is JSON of another kind, or no JSON at all.
pub(crate) fn parse_error(body: &[u8]) -> Option<ErrorPayload> {
    let value: Value = serde_json::from_slice(body)
        .or_else(|_| serde_json::from_str(&String::from_utf8_lossy(body)))
        .ok()?;
    from_value(&value)
}

fn from_value(value: &Value) -> Option<ErrorPayload> {
    match value {
        Value::Array(items) => items.first().and_then(from_value),
        Value::Object(body) => from_object(body),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

fn from_object(body: &Map<String, Value>) -> Option<ErrorPayload> {
    match body.get("error") {
        Some(Value::Object(error)) => return Some(from_error(error, body)),
        // xAI: `{"code": "…", "error": "…"}`; llama.cpp and Ollama: `{"error": "…"}`.
        Some(Value::String(message)) => {
            return Some(ErrorPayload { message: message.clone(), ..labels(body) });
        }
        _ => {}
    }
    // Responses: `{"type": "response.failed", "response": {"error": {…}}}`.
    if let Some(Value::Object(response)) = body.get("response")
        && let Some(Value::Object(error)) = response.get("error")
    {
        return Some(from_error(error, response));
    }
    let is_error = |key: &str| body.get(key).and_then(Value::as_str) == Some("error");
    let message = ["message", "Message", "detail", "errors", "error_description", "error_msg"]
        .iter()
        .find_map(|key| body.get(*key).and_then(text));
    // The last is an answer of Ollama's own API: the model's text is never the text of an error.
    let is_response = body.contains_key("choices")
        || body.contains_key("content")
        || body.get("message").is_some_and(|message| message.get("role").is_some());
    match message {
        Some(message) if !is_response || is_error("object") || is_error("type") => {
            Some(ErrorPayload { message, ..labels(body) })
        }
        None if is_error("object") || is_error("type") => Some(labels(body)),
        Some(_) | None => None,
    }
}

fn from_error(error: &Map<String, Value>, around: &Map<String, Value>) -> ErrorPayload {
    let mut payload = labels(error);
    payload.message = ["message", "msg", "detail"]
        .iter()
        .find_map(|key| error.get(*key).and_then(text))
        .unwrap_or_default();
    if payload.error_type.is_none() {
        payload.error_type = word(around.get("type")).filter(|name| name != "error");
    }
    match error.get("details") {
        // Anthropic: the stable cause.
        Some(Value::Object(details)) => {
            if let Some(code) = word(details.get("error_code")) {
                payload.code = Some(code);
            }
        }
        // Google.
        Some(Value::Array(details)) => {
            let delay = details.iter().find_map(|detail| word(detail.get("retryDelay")));
            payload.retry_delay = delay.or(payload.retry_delay);
            payload.daily_quota = details.iter().any(is_daily);
        }
        _ => {}
    }
    // Azure.
    if payload.code.is_none() {
        payload.code = word(error.get("innererror").and_then(|inner| inner.get("code")));
    }
    // OpenRouter: the upstream's class, and the upstream's own text, which is more precise than "Provider returned error".
    if let Some(Value::Object(metadata)) = error.get("metadata") {
        for key in ["errorType", "error_type"] {
            if let Some(kind) = word(metadata.get(key)) {
                payload.error_type = Some(kind);
            }
        }
        let header = metadata.get("headers").and_then(|headers| headers.get("X-RateLimit-Reset"));
        payload.reset = word(header);
        payload.retry_delay = payload.retry_delay.or_else(|| seconds(metadata));
        if let Some(raw) = metadata.get("raw").and_then(text) {
            payload.message = format!("{}: {raw}", payload.message);
        }
    }
    payload
}

/// Type, code and status of one object, without the message.
fn labels(object: &Map<String, Value>) -> ErrorPayload {
    let code = word(object.get("code")).or_else(|| word(object.get("__type")));
    let error_type = word(object.get("type"))
        .filter(|name| name != "error")
        .or_else(|| word(object.get("status")).filter(|status| status.parse::<u16>().is_err()));
    let status = ["code", "status", "status_code", "statusCode"]
        .iter()
        .find_map(|key| word(object.get(*key))?.parse::<u16>().ok())
        .filter(|status| (400..600).contains(status));
    let retry_delay = seconds(object);
    ErrorPayload { error_type, code, status, retry_delay, ..ErrorPayload::default() }
}

/// A wait in seconds, in any of its fields.
fn seconds(object: &Map<String, Value>) -> Option<String> {
    ["resets_in_seconds", "retry_after_seconds", "retry_after"]
        .iter()
        .find_map(|key| word(object.get(*key)))
}

/// A `QuotaFailure` that names a quota of the day.
fn is_daily(detail: &Value) -> bool {
    let violations = detail.get("violations").and_then(Value::as_array);
    violations.into_iter().flatten().any(|violation| {
        word(violation.get("quotaId")).is_some_and(|quota| quota.contains("PerDay"))
    })
}

fn word(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(word) if !word.is_empty() => Some(word.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// A message as one text; it may be a text, a list of texts or findings, or an object.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => {
            let parts: Vec<String> = items.iter().filter_map(text).collect();
            (!parts.is_empty()).then(|| parts.join("; "))
        }
        Value::Object(object) => ["message", "msg", "detail"]
            .iter()
            .find_map(|key| object.get(*key).and_then(text))
            .or_else(|| Some(value.to_string())),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}
