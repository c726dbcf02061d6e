//! One folder for each wire API, and the wire of an API.
//!
//! It must never hold a difference between servers: `services` has those as data.

pub(crate) mod anthropic;
pub(crate) mod bedrock;
pub(crate) mod chat;
pub(crate) mod google;
pub(crate) mod responses;

use google::GooglePath;

use crate::http::HttpSettings;
use crate::{AnthropicWire, Api, BedrockWire, ChatWire, GoogleWire, ResponsesWire, Wire};

/// The wire of an API at the server of `settings`; `None` for the scripted provider.
#[must_use]
pub fn wire_of(api: Api, settings: &HttpSettings) -> Option<Box<dyn Wire>> {
    match api {
        Api::AnthropicMessages => Some(Box::new(AnthropicWire::for_host(settings.host()))),
        Api::OpenaiChat => Some(Box::new(ChatWire::new(settings.chat))),
        Api::OpenaiResponses => Some(Box::new(ResponsesWire::new(settings.responses_cache_key))),
        Api::GoogleGenerativeAi => {
            let path = GooglePath::for_base(settings.host(), settings.path());
            Some(Box::new(GoogleWire::new(path)))
        }
        Api::BedrockConverse => Some(Box::new(BedrockWire)),
        Api::Scripted => None,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use serde_json::{Value, json};

    use crate::wires::google::{GooglePath, GoogleWire};
    use crate::wires::responses::ResponsesWire;
    use crate::{ModelRequest, Wire};

    fn requested(wire: &dyn Wire) -> (String, Value) {
        let request = ModelRequest {
            model: "m-1".to_owned(),
            system: "Be brief.".to_owned(),
            messages: vec![Bytes::from_static(b"{\"x\":1}"), Bytes::from_static(b"{\"x\":2}")],
            max_tokens: 9,
            temperature: Some(0.5),
            ..ModelRequest::default()
        };
        let call = wire.count(&request).unwrap();
        (call.path, serde_json::from_slice(&call.body.concat()).unwrap())
    }

    #[test]
    fn a_count_has_the_apis_own_form_and_only_the_prompt() {
        let google = GoogleWire::new(GooglePath::default());
        let (path, body) = requested(&google);
        assert!(path.ends_with("/models/m-1:countTokens"), "{path}");
        let system = json!({"parts": [{"text": "Be brief."}]});
        let messages = json!([{"x": 1}, {"x": 2}]);
        assert_eq!(
            body,
            json!({"generateContentRequest": {
                "model": "models/m-1", "systemInstruction": system, "contents": messages,
            }})
        );
        assert_eq!(google.counted(b"{\"totalTokens\":31,\"x\":1}"), Some(31));
        assert_eq!(
            requested(&ResponsesWire::default()),
            (
                "/responses/input_tokens".to_owned(),
                json!({"model": "m-1", "instructions": "Be brief.", "input": messages}),
            )
        );
        let answer = b"{\"object\":\"response.input_tokens\",\"input_tokens\":14}";
        assert_eq!(ResponsesWire::default().counted(answer), Some(14));
        assert_eq!(ResponsesWire::default().counted(b"{}"), None);
    }
}
