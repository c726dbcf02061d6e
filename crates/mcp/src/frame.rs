//! The messages of JSON-RPC as text: reads those of a server, writes ours.
//!
//! It must never refuse a connection because of one message: what is no message is noise.

use std::borrow::Cow;

use serde::Deserialize;
use serde::ser::{Serialize, SerializeMap as _, Serializer};
use serde_json::value::RawValue;

/// The longest id of a server's own request.
const MAX_ID: usize = 256;

/// A message of a server.
#[derive(Debug)]
pub(crate) enum Frame<'a> {
    /// The answer to request `id`.
    Answer { id: u64, outcome: Result<&'a RawValue, RemoteError> },
    /// A request of the server, which expects an answer.
    Request { id: &'a RawValue, method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// A message without an answer.
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// Anything else.
    Noise,
}

/// An error that a server answered.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct RemoteError {
    #[serde(default)]
    pub(crate) code: i64,
    #[serde(default)]
    pub(crate) message: String,
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

impl<'a> Frame<'a> {
    /// Reads one message.
    pub(crate) fn read(text: &'a [u8]) -> Self {
        // A list would be read as fields in order.
        if text.trim_ascii_start().first() != Some(&b'{') {
            return Self::Noise;
        }
        let Ok(Wire { id, method, params, result, error }) = serde_json::from_slice(text) else {
            return Self::Noise;
        };
        match (method, id) {
            (Some(method), Some(id)) if id.get().len() <= MAX_ID => {
                Self::Request { id, method, params }
            }
            (Some(_), Some(_)) => Self::Noise,
            (Some(method), None) => Self::Notification { method, params },
            (None, Some(id)) => {
                let Ok(id) = id.get().parse() else { return Self::Noise };
                let outcome = match (result, error) {
                    (_, Some(error)) => Err(remote_error(error)),
                    (Some(result), None) => Ok(result),
                    (None, None) => return Self::Noise,
                };
                Self::Answer { id, outcome }
            }
            (None, None) => Self::Noise,
        }
    }
}

fn remote_error(error: &RawValue) -> RemoteError {
    serde_json::from_str(error.get()).unwrap_or_else(|_| RemoteError {
        code: 0,
        message: "an error without a message".to_owned(),
    })
}

/// The parameters of a request of ours, in order; the values are JSON texts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Params(pub(crate) Vec<(&'static str, Box<RawValue>)>);

impl Params {
    /// Adds a parameter.
    pub(crate) fn with(mut self, name: &'static str, value: &(impl Serialize + ?Sized)) -> Self {
        // Texts, numbers and maps of them: serde_json cannot fail on them.
        if let Ok(value) = serde_json::value::to_raw_value(value) {
            self.0.push((name, value));
        }
        self
    }
}

impl Params {
    /// A parameter that is a text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let (_, value) = self.0.iter().find(|(known, _)| *known == name)?;
        serde_json::from_str(value.get()).ok()
    }
}

impl Serialize for Params {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// The text of a request.
pub(crate) fn request(id: u64, method: &str, params: &Params) -> Vec<u8> {
    #[derive(serde::Serialize)]
    struct Request<'a> {
        jsonrpc: &'a str,
        id: u64,
        method: &'a str,
        params: &'a Params,
    }
    serde_json::to_vec(&Request { jsonrpc: "2.0", id, method, params }).unwrap_or_default()
}

/// The text of a notification.
pub(crate) fn notification(method: &str, params: &Params) -> Vec<u8> {
    #[derive(serde::Serialize)]
    struct Notification<'a> {
        jsonrpc: &'a str,
        method: &'a str,
        params: &'a Params,
    }
    serde_json::to_vec(&Notification { jsonrpc: "2.0", method, params }).unwrap_or_default()
}

/// The answer to a request of a server: a result, or the code and the text of an error.
pub(crate) fn answer(id: &RawValue, outcome: Result<&RawValue, (i64, &str)>) -> Vec<u8> {
    let outcome = match outcome {
        Ok(result) => format!("\"result\":{}", result.get()),
        Err((code, message)) => {
            let error = serde_json::json!({ "code": code, "message": message });
            format!("\"error\":{error}")
        }
    };
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{outcome}}}", id.get()).into_bytes()
}

/// The answer to a request of a server for which the host has no function: politely, that there is none.
pub(crate) fn reply(id: &RawValue, method: &str) -> Vec<u8> {
    let outcome = match method {
        "ping" => "\"result\":{}",
        "elicitation/create" => "\"result\":{\"action\":\"decline\"}",
        _ => "\"error\":{\"code\":-32601,\"message\":\"this client does not offer it\"}",
    };
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{outcome}}}", id.get()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::{Frame, Params, notification, reply, request};

    fn shape(text: &str) -> String {
        match Frame::read(text.as_bytes()) {
            Frame::Answer { id, outcome: Ok(result) } => format!("answer {id} {}", result.get()),
            Frame::Answer { id, outcome: Err(error) } => {
                format!("error {id} {} {}", error.code, error.message)
            }
            Frame::Request { id, method, .. } => {
                String::from_utf8(reply(id, &method)).unwrap_or_default()
            }
            Frame::Notification { method, params } => {
                format!("notification {method} {:?}", params.map(ToString::to_string))
            }
            Frame::Noise => "noise".to_owned(),
        }
    }

    #[test]
    fn a_message_is_read_by_its_fields_and_anything_else_is_noise() {
        let read = [
            r#"{"jsonrpc":"2.0","id":7,"result":{"a":[1]}}"#,
            r#"{"id":7,"error":{"code":-32601,"message":"no"}}"#,
            r#"{"id":7,"error":"broken"}"#,
            r#"{"id":"x","method":"ping"}"#,
            r#"{"id":2,"method":"elicitation/create","params":{}}"#,
            r#"{"id":2,"method":"roots/list"}"#,
            r#"{"method":"notifications/progress","params":{"progress":1}}"#,
            r#"{"id":"7","result":{}}"#,
            r#"{"id":7}"#,
            r#"[7,"ping"]"#,
            "Server listening",
            "",
        ]
        .map(shape);
        assert_eq!(
            read,
            [
                r#"answer 7 {"a":[1]}"#,
                "error 7 -32601 no",
                "error 7 0 an error without a message",
                r#"{"jsonrpc":"2.0","id":"x","result":{}}"#,
                r#"{"jsonrpc":"2.0","id":2,"result":{"action":"decline"}}"#,
                r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"this client does not offer it"}}"#,
                r#"notification notifications/progress Some("{\"progress\":1}")"#,
                "noise",
                "noise",
                "noise",
                "noise",
                "noise",
            ]
        );
    }

    #[test]
    fn our_messages_are_one_line_each() {
        let params = Params::default().with("name", "a\nb").with("n", &1);
        let texts = [request(1, "tools/call", &params), notification("x", &Params::default())];
        assert_eq!(
            texts.map(|text| String::from_utf8(text).unwrap_or_default()),
            [
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a\nb","n":1}}"#,
                r#"{"jsonrpc":"2.0","method":"x","params":{}}"#,
            ]
        );
    }
}
