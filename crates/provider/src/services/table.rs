//! The table of services. Only data: it must never hold a rule.
//!
//! What a service does differently in its Chat Completions is defined in `chat/quirks`.

use super::entry::{KeyHeader, Service};
use crate::{Api, ChatQuirks};

/// Only Chat Completions at the base URL.
const CHAT: &[Api] = &[Api::OpenaiChat];
/// Chat Completions by default, and Responses on request.
const CHAT_AND_RESPONSES: &[Api] = &[Api::OpenaiChat, Api::OpenaiResponses];

/// Gemini's own API; its compatible route has another base URL, which the user must set.
const GEMINI: &[Api] = &[Api::GoogleGenerativeAi];

/// The defaults of most lines.
const COMPATIBLE: Service = Service {
    name: "",
    apis: CHAT,
    gateway: None,
    base_url: None,
    own_hosts: &[],
    domains: &[],
    variables: &[],
    key: KeyHeader::OfApi,
    azure_paths: false,
    chat: ChatQuirks::COMPATIBLE,
    responses_cache_key: false,
};

pub(super) const SERVICES: &[Service] = &[
    Service {
        name: "anthropic",
        apis: &[Api::AnthropicMessages],
        gateway: Some(Api::AnthropicMessages),
        base_url: Some("https://api.anthropic.com"),
        own_hosts: &["api.anthropic.com"],
        variables: &["ANTHROPIC_API_KEY"],
        ..COMPATIBLE
    },
    Service {
        name: "openai",
        // The default API of OpenAI itself is the first one here.
        apis: &[Api::OpenaiResponses, Api::OpenaiChat],
        gateway: Some(Api::OpenaiChat),
        base_url: Some("https://api.openai.com/v1"),
        own_hosts: &["api.openai.com", "eu.api.openai.com", "us.api.openai.com"],
        variables: &["OPENAI_API_KEY"],
        // The endpoint of subscribers, with keys of their own.
        domains: &["chatgpt.com"],
        chat: ChatQuirks::OPENAI,
        responses_cache_key: true,
        ..COMPATIBLE
    },
    Service {
        name: "google",
        apis: GEMINI,
        base_url: Some("https://generativelanguage.googleapis.com"),
        own_hosts: &["generativelanguage.googleapis.com"],
        variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        ..COMPATIBLE
    },
    Service {
        name: "vertex",
        apis: GEMINI,
        own_hosts: VERTEX_HOSTS,
        domains: &["googleapis.com"],
        variables: VERTEX_TOKENS,
        key: KeyHeader::Bearer,
        ..COMPATIBLE
    },
    Service {
        name: "vertex-anthropic",
        apis: &[Api::AnthropicMessages],
        own_hosts: VERTEX_HOSTS,
        domains: &["googleapis.com"],
        variables: VERTEX_TOKENS,
        key: KeyHeader::Bearer,
        ..COMPATIBLE
    },
    // Its base URL and its keys are read elsewhere: they depend on a region, and an access key has several parts.
    Service { name: "bedrock", apis: &[Api::BedrockConverse], ..COMPATIBLE },
    Service {
        name: "azure",
        apis: CHAT_AND_RESPONSES,
        own_hosts: &[
            "*.openai.azure.com",
            "*.cognitiveservices.azure.com",
            "*.services.ai.azure.com",
            "*.openai.azure.us",
            "*.openai.azure.cn",
        ],
        variables: &["AZURE_OPENAI_API_KEY", "AZURE_API_KEY"],
        key: KeyHeader::ApiKey,
        azure_paths: true,
        chat: ChatQuirks::STANDARD,
        responses_cache_key: true,
        ..COMPATIBLE
    },
    Service {
        name: "openrouter",
        apis: CHAT_AND_RESPONSES,
        base_url: Some("https://openrouter.ai/api/v1"),
        own_hosts: &["openrouter.ai"],
        domains: &["openrouter.ai"],
        variables: &["OPENROUTER_API_KEY"],
        chat: ChatQuirks::OPENROUTER,
        responses_cache_key: true,
        ..COMPATIBLE
    },
    Service {
        name: "groq",
        apis: CHAT_AND_RESPONSES,
        base_url: Some("https://api.groq.com/openai/v1"),
        own_hosts: &["api.groq.com"],
        domains: &["groq.com"],
        variables: &["GROQ_API_KEY"],
        ..COMPATIBLE
    },
    Service {
        name: "mistral",
        base_url: Some("https://api.mistral.ai/v1"),
        own_hosts: &["api.mistral.ai"],
        domains: &["mistral.ai"],
        variables: &["MISTRAL_API_KEY"],
        chat: ChatQuirks::MISTRAL,
        ..COMPATIBLE
    },
    Service {
        name: "deepseek",
        base_url: Some("https://api.deepseek.com"),
        own_hosts: &["api.deepseek.com"],
        domains: &["deepseek.com"],
        variables: &["DEEPSEEK_API_KEY"],
        chat: ChatQuirks::DEEPSEEK,
        ..COMPATIBLE
    },
    Service {
        name: "xai",
        apis: CHAT_AND_RESPONSES,
        base_url: Some("https://api.x.ai/v1"),
        own_hosts: &["api.x.ai"],
        domains: &["x.ai"],
        variables: &["XAI_API_KEY"],
        responses_cache_key: true,
        ..COMPATIBLE
    },
    Service {
        name: "ollama",
        apis: CHAT_AND_RESPONSES,
        base_url: Some("http://localhost:11434/v1"),
        // Its cloud, which requires a key; a local server does not.
        own_hosts: &["ollama.com"],
        variables: &["OLLAMA_API_KEY"],
        chat: ChatQuirks::OLLAMA,
        ..COMPATIBLE
    },
    Service {
        name: "vllm",
        apis: CHAT_AND_RESPONSES,
        base_url: Some("http://localhost:8000/v1"),
        ..COMPATIBLE
    },
    Service { name: "llamacpp", base_url: Some("http://localhost:8080/v1"), ..COMPATIBLE },
    Service {
        name: "lmstudio",
        apis: CHAT_AND_RESPONSES,
        base_url: Some("http://localhost:1234/v1"),
        ..COMPATIBLE
    },
    Service {
        name: "together",
        base_url: Some("https://api.together.xyz/v1"),
        own_hosts: &["api.together.xyz", "api.together.ai"],
        domains: &["together.xyz", "together.ai"],
        variables: &["TOGETHER_API_KEY"],
        ..COMPATIBLE
    },
    Service {
        name: "fireworks",
        apis: CHAT_AND_RESPONSES,
        base_url: Some("https://api.fireworks.ai/inference/v1"),
        own_hosts: &["api.fireworks.ai"],
        domains: &["fireworks.ai"],
        variables: &["FIREWORKS_API_KEY"],
        ..COMPATIBLE
    },
    Service {
        name: "cerebras",
        base_url: Some("https://api.cerebras.ai/v1"),
        own_hosts: &["api.cerebras.ai"],
        domains: &["cerebras.ai"],
        variables: &["CEREBRAS_API_KEY"],
        ..COMPATIBLE
    },
    Service {
        name: "moonshot",
        base_url: Some("https://api.moonshot.ai/v1"),
        own_hosts: &["api.moonshot.ai", "api.moonshot.cn"],
        domains: &["moonshot.ai", "moonshot.cn"],
        variables: &["MOONSHOT_API_KEY"],
        chat: ChatQuirks::DEEPSEEK,
        ..COMPATIBLE
    },
    Service {
        name: "zai",
        base_url: Some("https://api.z.ai/api/paas/v4"),
        own_hosts: &["api.z.ai", "open.bigmodel.cn"],
        domains: &["z.ai", "bigmodel.cn"],
        variables: &["ZAI_API_KEY", "ZHIPUAI_API_KEY"],
        chat: ChatQuirks::ZAI,
        ..COMPATIBLE
    },
    Service {
        name: "perplexity",
        base_url: Some("https://api.perplexity.ai"),
        own_hosts: &["api.perplexity.ai"],
        domains: &["perplexity.ai"],
        variables: &["PERPLEXITY_API_KEY"],
        ..COMPATIBLE
    },
    Service {
        name: "huggingface",
        apis: CHAT_AND_RESPONSES,
        base_url: Some("https://router.huggingface.co/v1"),
        own_hosts: &["router.huggingface.co"],
        domains: &["huggingface.co", "endpoints.huggingface.cloud"],
        variables: &["HF_TOKEN"],
        ..COMPATIBLE
    },
];

/// The hosts of one region, of all regions, and of a jurisdiction.
const VERTEX_HOSTS: &[&str] = &[
    "*-aiplatform.googleapis.com",
    "aiplatform.googleapis.com",
    "aiplatform.*.rep.googleapis.com",
];
/// An access token that `gcloud` accepts too.
const VERTEX_TOKENS: &[&str] = &["CLOUDSDK_AUTH_ACCESS_TOKEN"];
