//! The table: names without further options, hosts, and which of them get a usual key.

use std::collections::BTreeSet;

use super::entry::Service;
use super::lookup::is_host;
use super::table::SERVICES;
use crate::http::BaseUrl;
use crate::{Api, ChatQuirks};

fn base(url: &str) -> BaseUrl {
    BaseUrl::parse("baseUrl", url, true).unwrap()
}

#[test]
fn every_name_is_unique_and_every_line_is_complete() {
    let names: BTreeSet<&str> = SERVICES.iter().map(|service| service.name).collect();
    let expected = [
        "anthropic",
        "azure",
        "bedrock",
        "cerebras",
        "deepseek",
        "fireworks",
        "google",
        "groq",
        "huggingface",
        "llamacpp",
        "lmstudio",
        "mistral",
        "moonshot",
        "ollama",
        "openai",
        "openrouter",
        "perplexity",
        "together",
        "vertex",
        "vertex-anthropic",
        "vllm",
        "xai",
        "zai",
    ];
    assert_eq!(names, BTreeSet::from(expected));
    assert_eq!(SERVICES.len(), expected.len());
    for service in SERVICES {
        assert!(!service.apis.is_empty(), "{}", service.name);
        assert_eq!(service.own_hosts.is_empty(), service.variables.is_empty(), "{}", service.name);
        // A base URL of the table is the service itself, or this machine.
        if let Some(url) = service.base_url {
            let base = base(url);
            let found = Service::at(base.host(), None).map(|found| found.name);
            let expected = (base.scheme() == "https").then_some(service.name);
            assert_eq!(found, expected, "{url}");
            let own = Service::of_origin(&base, service.apis[0]).map(|found| found.name);
            assert_eq!(own, expected, "{url}");
        }
    }
}

#[test]
fn a_usual_key_is_sent_only_to_the_services_own_host_over_https() {
    let own = |url: &str| Service::of_origin(&base(url), Api::OpenaiChat).map(|found| found.name);
    let cases = [
        ("https://api.groq.com/openai/v1", Some("groq")),
        ("https://API.GROQ.COM/openai/v1", Some("groq")),
        ("http://api.groq.com/openai/v1", None),
        ("https://console.groq.com", None),
        ("https://api.groq.com.evil.example", None),
        ("https://evil-api.groq.com", None),
        ("https://space.z.ai/v4", None),
        ("https://open.bigmodel.cn/api/paas/v4", Some("zai")),
        ("https://mine.openai.azure.com", Some("azure")),
        ("https://openai.azure.com", None),
        ("https://a.b.openai.azure.com", None),
        ("https://europe-west4-aiplatform.googleapis.com/v1", Some("vertex")),
        ("https://aiplatform.eu.rep.googleapis.com/v1", Some("vertex")),
        ("https://-aiplatform.googleapis.com/v1", None),
        ("https://storage.googleapis.com", None),
        ("http://localhost:11434/v1", None),
        ("https://localhost:11434/v1", None),
        ("https://ollama.com/v1", Some("ollama")),
    ];
    for (url, expected) in cases {
        assert_eq!(own(url), expected, "{url}");
    }
    let vertex = base("https://us-east5-aiplatform.googleapis.com/v1");
    let claude = Service::of_origin(&vertex, Api::AnthropicMessages).map(|found| found.name);
    assert_eq!(claude, Some("vertex-anthropic"));
}

#[test]
fn a_star_never_matches_a_dot_and_is_never_empty() {
    let cases = [
        ("a.example", "*.example", true),
        ("a.b.example", "*.example", false),
        (".example", "*.example", false),
        ("example", "*.example", false),
        ("eu-x.example", "*-x.example", true),
        ("-x.example", "*-x.example", false),
        ("a.example.com", "*.example", false),
    ];
    for (host, pattern, expected) in cases {
        assert_eq!(is_host(host, pattern), expected, "{host} {pattern}");
    }
}

#[test]
fn keys_are_sent_in_the_header_of_the_service() {
    let header = |name: &str, api| {
        Service::key_header(Service::named(name), api).map(|header| header.to_string())
    };
    let own = |text: &str| Some(text.to_owned());
    assert_eq!(header("azure", Api::OpenaiChat), own("api-key"));
    assert_eq!(header("azure", Api::OpenaiResponses), own("api-key"));
    assert_eq!(header("azure", Api::AnthropicMessages), own("x-api-key"));
    assert_eq!(header("google", Api::GoogleGenerativeAi), own("x-goog-api-key"));
    assert_eq!(header("google", Api::OpenaiChat), None);
    assert_eq!(header("vertex", Api::GoogleGenerativeAi), None);
    assert_eq!(header("vertex-anthropic", Api::AnthropicMessages), None);
    assert_eq!(header("anthropic", Api::AnthropicMessages), own("x-api-key"));
    assert_eq!(header("deepseek", Api::AnthropicMessages), own("x-api-key"));
    assert_eq!(header("nobody", Api::AnthropicMessages), own("x-api-key"));
    assert_eq!(header("groq", Api::OpenaiChat), None);
}

#[test]
fn a_host_decides_the_quirks_of_its_chat_completions() {
    let cases = [
        ("api.openai.com", ChatQuirks::OPENAI),
        ("gateway.example", ChatQuirks::STANDARD),
        ("mine.openai.azure.com", ChatQuirks::STANDARD),
        ("localhost", ChatQuirks::COMPATIBLE),
        ("127.0.0.1", ChatQuirks::COMPATIBLE),
        ("codestral.mistral.ai", ChatQuirks::MISTRAL),
        ("API.DeepSeek.com", ChatQuirks::DEEPSEEK),
        ("api.moonshot.cn", ChatQuirks::DEEPSEEK),
        ("open.bigmodel.cn", ChatQuirks::ZAI),
        ("notmistral.ai", ChatQuirks::STANDARD),
        ("generativelanguage.googleapis.com", ChatQuirks::COMPATIBLE),
    ];
    for (host, expected) in cases {
        assert_eq!(Service::chat_at(host), expected, "{host}");
    }
    let newest: Vec<&str> = SERVICES
        .iter()
        .filter(|service| service.chat.prompt_cache_key)
        .map(|service| service.name)
        .collect();
    assert_eq!(newest, ["openai"]);
}

#[test]
fn the_documented_table_equals_the_table() {
    let page = include_str!("../../../../docs/services.md");
    for service in SERVICES {
        let start = format!("| `{}` | `{}` | ", service.name, service.apis[0].as_str());
        let row = page.lines().find(|line| line.starts_with(&start)).unwrap_or_default();
        assert!(row.starts_with(&start), "docs/services.md has no row `{start}`");
        for word in service.base_url.iter().chain(service.variables) {
            assert!(row.contains(&format!("`{word}`")), "`{word}` is not in: {row}");
        }
    }
    assert_eq!(page.lines().filter(|line| line.starts_with("| `")).count(), SERVICES.len());
}
