//! The bytes of a request: the exact body, the key in its own header, and no header that the caller may not set.

use std::sync::{Arc, Mutex};

use tokio::io::AsyncWriteExt as _;

use super::server::{
    Captured, KEY, Server, WHOLE, completion, credential, provider, read_request, request,
    unbounded,
};
use crate::{Api, Credential, Provider as _};

/// Sends one request and returns what the server read, header lines sorted.
async fn sent(api: Api, more: &str, credential: Option<&Credential>) -> (Vec<String>, String) {
    let seen = Arc::new(Mutex::new(String::new()));
    let capture = Arc::clone(&seen);
    let server = Server::start(move |mut socket| {
        let capture = Arc::clone(&capture);
        async move {
            let request = read_request(&mut socket).await;
            *capture.lock().unwrap() = request;
            socket.write_all(unbounded(WHOLE).as_bytes()).await.unwrap();
        }
    })
    .await;
    let base = format!("{}/base/", server.url());
    let provider = provider(&base, api, more);
    let outcome = provider.stream(&request(), credential, &mut Captured::default()).await;
    assert_eq!(outcome, Ok(completion()));
    let text = seen.lock().unwrap().clone();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<String> = head
        .lines()
        .filter(|line| !line.starts_with("host: "))
        .map(|line| line.replace(env!("CARGO_PKG_VERSION"), "V"))
        .collect();
    lines.sort_unstable();
    (lines, body.to_owned())
}

#[tokio::test]
async fn a_chat_request_carries_its_key_as_bearer_and_an_exact_length() {
    let (lines, body) = sent(Api::OpenaiChat, "", Some(&credential())).await;
    assert_eq!(
        lines,
        [
            "POST /base/v1/lines HTTP/1.1",
            "accept-encoding: identity",
            "accept: text/event-stream, application/json",
            &format!("authorization: Bearer {KEY}"),
            "content-length: 9",
            "content-type: application/json",
            "user-agent: nexus-agent-engine/V",
        ]
    );
    assert_eq!(body, "m:one,two");
}

#[tokio::test]
async fn an_anthropic_request_carries_its_version_and_key_header_or_a_token_as_bearer() {
    let more = r#","headers":{"anthropic-beta":"x,y"}"#;
    let (lines, _) = sent(Api::AnthropicMessages, more, Some(&credential())).await;
    let own = |lines: Vec<String>| -> Vec<String> {
        let names = ["anthropic", "authorization", "x-api-key"];
        lines.into_iter().filter(|line| names.iter().any(|name| line.starts_with(name))).collect()
    };
    let key = format!("x-api-key: {KEY}");
    assert_eq!(own(lines), ["anthropic-beta: x,y", "anthropic-version: 2023-06-01", &key]);
    let token = Credential { bearer: true, ..credential() };
    let more = r#","anthropicVersion":"2026-10-21""#;
    let (lines, _) = sent(Api::AnthropicMessages, more, Some(&token)).await;
    let bearer = format!("authorization: Bearer {KEY}");
    assert_eq!(own(lines), ["anthropic-version: 2026-10-21", &bearer]);
}

#[tokio::test]
async fn without_a_credential_no_key_header_is_sent() {
    let (lines, _) = sent(Api::OpenaiChat, "", None).await;
    assert!(!lines.iter().any(|line| line.starts_with("authorization")), "{lines:?}");
}

#[test]
fn a_credential_and_its_header_show_no_key() {
    let (_, value) = super::super::credential::credential_header(None, &credential()).unwrap();
    let shown = format!("{:?} {value:?}", credential());
    assert_eq!(shown, r#"Credential { profile_id: "test:key", .. } Sensitive"#);
}
