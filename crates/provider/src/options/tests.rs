//! Options: defaults, every refusal with its path, and no key or header value in any of them.

mod aws;

use secrecy::ExposeSecret as _;
use serde_json::value::RawValue;

use std::sync::Arc;

use super::{ProviderSet, ProviderSettings, parse_providers};
use crate::{Api, ChatQuirks, Credential, Failure};
use base::config::Environment;
use model::InputError;

const SECRET: &str = "sk-very-secret-0123456789";

fn parse(
    providers: Option<&str>,
    profiles: Option<&str>,
    environment: &Environment,
) -> Result<ProviderSet, InputError> {
    let raw = |text: Option<&str>| text.map(|text| RawValue::from_string(text.to_owned()).unwrap());
    let (providers, profiles) = (raw(providers), raw(profiles));
    parse_providers(providers.as_deref(), profiles.as_deref(), environment)
}

/// The error of these options, as `path: message`.
fn refused(providers: &str, profiles: Option<&str>) -> String {
    match parse(Some(providers), profiles, &Environment::fixed([])) {
        Ok(_) => format!("accepted: {providers}"),
        Err(error) => {
            let text = error.to_string();
            assert!(!text.contains(SECRET), "{text}");
            text
        }
    }
}

/// A provider as read: API, origin, version header, connect limit.
fn shape(set: &ProviderSet, name: &str) -> (Api, String, String, u128) {
    match &set.providers[name] {
        ProviderSettings::Scripted(_) => (Api::Scripted, String::new(), String::new(), 0),
        ProviderSettings::Http { api, settings } => (
            *api,
            settings.base.join("/p").to_string(),
            settings.anthropic_version.to_str().unwrap().to_owned(),
            settings.timeouts.connect.as_millis(),
        ),
    }
}

impl ProviderSet {
    /// The first key of a provider.
    fn credential(&self, name: &str) -> Result<Option<Arc<Credential>>, Failure> {
        let keys = self.keys(name);
        match (keys.profiles.first(), keys.missing) {
            (Some(profile), _) => Ok(Some(profile.known().expect("the host has it"))),
            (None, Some(missing)) => Err(missing),
            (None, None) => Ok(None),
        }
    }
}

fn key(set: &ProviderSet, name: &str) -> Result<Option<(String, String, bool)>, Failure> {
    let credential = set.credential(name)?;
    Ok(credential.map(|credential| {
        let secret = credential.secret.expose_secret().to_owned();
        (credential.profile_id.clone(), secret, credential.bearer)
    }))
}

#[test]
fn without_options_the_two_usual_providers_use_the_usual_keys() {
    let environment = Environment::fixed([("ANTHROPIC_API_KEY", "sk-ant")]);
    let set = parse(None, None, &environment).unwrap();
    assert_eq!(set.providers.keys().collect::<Vec<_>>(), ["anthropic", "openai"]);
    let anthropic = "https://api.anthropic.com/p".to_owned();
    let openai = "https://api.openai.com/v1/p".to_owned();
    let newest = "2026-10-21".to_owned();
    let expected = (Api::AnthropicMessages, anthropic, newest, 10_000);
    assert_eq!(shape(&set, "anthropic"), expected);
    let oldest = "2023-06-01".to_owned();
    assert_eq!(shape(&set, "openai"), (Api::OpenaiResponses, openai, oldest, 10_000));
    let expected = ("anthropic:env".to_owned(), "sk-ant".to_owned(), false);
    assert_eq!(key(&set, "anthropic"), Ok(Some(expected)));
    let failure = key(&set, "openai").unwrap_err();
    assert_eq!(
        (failure.code.as_deref(), failure.message.as_str()),
        (
            Some("missing_key"),
            "`openai` has no key; pass one in `authProfiles`, or set `OPENAI_API_KEY`"
        )
    );
}

#[test]
fn another_server_under_a_usual_name_never_gets_the_usual_key() {
    let environment = Environment::fixed([("ANTHROPIC_API_KEY", SECRET)]);
    let providers =
        r#"{"anthropic":{"baseUrl":"https://gateway.example/x/","connectTimeoutMs":5}}"#;
    let set = parse(Some(providers), None, &environment).unwrap();
    let url = "https://gateway.example/x/p".to_owned();
    let expected = (Api::AnthropicMessages, url, "2023-06-01".to_owned(), 5);
    assert_eq!(shape(&set, "anthropic"), expected);
    assert_eq!(key(&set, "anthropic"), Ok(None));
}

#[test]
fn the_first_profile_of_a_provider_is_used_and_a_key_is_literal_or_a_variable() {
    let environment = Environment::fixed([("MY_KEY", "sk-mine\n"), ("OPENAI_API_KEY", "sk-no")]);
    let profiles = r#"[
        {"id":"a","provider":"anthropic","type":"token","key":" tok "},
        {"id":"b","provider":"openai","key":{"env":"MY_KEY"}},
        {"id":"c","provider":"openai","type":"api_key","key":"sk-second"}
    ]"#;
    let set = parse(None, Some(profiles), &environment).unwrap();
    let owned = |id: &str, key: &str, bearer| Ok(Some((id.to_owned(), key.to_owned(), bearer)));
    assert_eq!(key(&set, "anthropic"), owned("a", "tok", true));
    assert_eq!(key(&set, "openai"), owned("b", "sk-mine", false));
}

#[test]
fn a_local_server_needs_neither_https_nor_a_key() {
    for host in ["localhost:8080", "127.0.0.1", "[::1]:1"] {
        let providers =
            format!(r#"{{"local":{{"api":"openai-chat","baseUrl":"http://{host}/v1"}}}}"#);
        let set = parse(Some(&providers), None, &Environment::fixed([])).unwrap();
        assert_eq!(key(&set, "local"), Ok(None));
    }
}

#[test]
fn every_wrong_provider_is_refused_with_its_path() {
    let base = |url: &str| format!(r#"{{"x":{{"api":"openai-chat","baseUrl":"{url}"}}}}"#);
    let header =
        |name: &str, value: &str| format!(r#"{{"openai":{{"headers":{{"{name}":"{value}"}}}}}}"#);
    let more = |field: &str| format!(r#"{{"openai":{{{field}}}}}"#);
    let metadata =
        "`providers.x.baseUrl`: is a link-local or metadata address, which is never called";
    let owned = "is set by the engine and cannot be overridden";
    let cases = [
        (
            r#"{"x":{}}"#.to_owned(),
            "`providers.x.api`: is missing; pass `anthropic-messages`, `openai-chat` or `scripted`, or name a service as `flavor`",
        ),
        (
            r#"{"x":{"api":"openai-chat"}}"#.to_owned(),
            "`providers.x.baseUrl`: is missing; pass one like `https://api.example.com/v1`",
        ),
        (
            base("api.example.com"),
            "`providers.x.baseUrl`: is not a URL; pass one like `https://api.example.com/v1`",
        ),
        (
            base("https://münchen.example/"),
            "`providers.x.baseUrl`: has a host that is no ASCII name; pass it in its `xn--` form",
        ),
        (
            base("http://api.example.com"),
            "`providers.x.baseUrl`: is not https; use https, or set `allowInsecure: true`",
        ),
        (
            base("file:///etc"),
            "`providers.x.baseUrl`: names no host; pass one like `https://api.example.com/v1`",
        ),
        (base("ftp://h"), "`providers.x.baseUrl`: is neither http nor https"),
        (
            base("https://u:sk-very-secret-0123456789@h"),
            "`providers.x.baseUrl`: holds a user or password; pass the key in `authProfiles`",
        ),
        (base("https://h/#x"), "`providers.x.baseUrl`: has a fragment; remove what follows `#`"),
        (base("http://169.254.169.254/latest"), metadata),
        (base("https://[fd00:ec2::254]/"), metadata),
        (base("https://[::ffff:169.254.1.1]/"), metadata),
        (base("https://0xa9fea9fe/"), metadata),
        (
            header("Authorization", SECRET),
            &format!("`providers.openai.headers.Authorization`: {owned}"),
        ),
        (header("x-api-key", SECRET), &format!("`providers.openai.headers.x-api-key`: {owned}")),
        (
            header("Transfer-Encoding", "chunked"),
            &format!("`providers.openai.headers.Transfer-Encoding`: {owned}"),
        ),
        (header("a b", "x"), "`providers.openai.headers.a b`: is not a header name"),
        (
            header("x-a", r"sk-very-secret-0123456789\r\nx-b: 1"),
            "`providers.openai.headers.x-a`: has a character that no header may have",
        ),
        (
            more(r#""idleTimeoutMs":0"#),
            "`providers.openai.idleTimeoutMs`: `0` is not a limit; pass 1 to 86400000 milliseconds",
        ),
        (
            more(r#""anthropicVersion":"x""#),
            "`providers.openai.anthropicVersion`: is for `api: 'anthropic-messages'` only",
        ),
        (more(r#""script":[]"#), "`providers.openai.script`: is for `api: 'scripted'` only"),
        (
            more(r#""caCertificates":"none""#),
            "`providers.openai.caCertificates`: is not PEM with the certificate of an authority",
        ),
        (
            more(r#""proxy":"socks5://p""#),
            "`providers.openai.proxy`: is not an http or https proxy; pass `env`, or one like `http://proxy:3128`",
        ),
        (
            more(r#""apiVersion":"2024-10-21""#),
            "`providers.openai.apiVersion`: is for `flavor: 'azure'` only",
        ),
        (
            more(r#""deployment":"d""#),
            "`providers.openai.deployment`: is for `flavor: 'azure'` only",
        ),
        (
            r#"{"google":{"api":"openai-chat"}}"#.to_owned(),
            "`providers.google.baseUrl`: is missing; pass one like `https://api.example.com/v1`",
        ),
        (
            r#"{"azure":{}}"#.to_owned(),
            "`providers.azure.baseUrl`: is missing; pass one like `https://api.example.com/v1`",
        ),
        (
            r#"{"azure":{"baseUrl":"https://r.example","deployment":"d"}}"#.to_owned(),
            "`providers.azure.deployment`: is for a dated `apiVersion` with a `baseUrl` that names none; \
             elsewhere the model is the deployment",
        ),
        (
            r#"{"s":{"api":"scripted","script":[],"flavor":"groq"}}"#.to_owned(),
            "`providers.s.flavor`: has no meaning for a scripted provider; remove it",
        ),
        (
            r#"{"s":{"api":"scripted"}}"#.to_owned(),
            "`providers.s.script`: is missing; pass a list of replies",
        ),
        (
            r#"{"s":{"api":"scripted","script":[],"proxy":"env"}}"#.to_owned(),
            "`providers.s.proxy`: has no meaning for a scripted provider; remove it",
        ),
    ];
    for (providers, expected) in cases {
        assert_eq!(refused(&providers, None), expected);
    }
}

#[test]
fn a_known_service_needs_nothing_but_its_name() {
    let environment = Environment::fixed([("GROQ_API_KEY", "gsk"), ("GOOGLE_API_KEY", "AIza")]);
    let providers =
        r#"{"groq":{},"openrouter":{},"ollama":{},"google":{},"fast":{"flavor":"groq"}}"#;
    let set = parse(Some(providers), None, &environment).unwrap();
    let at = |name: &str| {
        let (api, url, _, _) = shape(&set, name);
        (api, url)
    };
    let groq = (Api::OpenaiChat, "https://api.groq.com/openai/v1/p".to_owned());
    assert_eq!(at("groq"), groq);
    assert_eq!(at("fast"), groq);
    assert_eq!(at("openrouter"), (Api::OpenaiChat, "https://openrouter.ai/api/v1/p".to_owned()));
    assert_eq!(at("ollama"), (Api::OpenaiChat, "http://localhost:11434/v1/p".to_owned()));
    let google = "https://generativelanguage.googleapis.com/p".to_owned();
    assert_eq!(at("google"), (Api::GoogleGenerativeAi, google));
    let own = |id: &str, key: &str| Ok(Some((id.to_owned(), key.to_owned(), false)));
    assert_eq!(key(&set, "groq"), own("groq:env", "gsk"));
    assert_eq!(key(&set, "fast"), own("fast:env", "gsk"));
    assert_eq!(key(&set, "google"), own("google:env", "AIza"));
    assert_eq!(key(&set, "ollama"), Ok(None));
    let failure = key(&set, "openrouter").unwrap_err();
    assert_eq!(
        failure.message,
        "`openrouter` has no key; pass one in `authProfiles`, or set `OPENROUTER_API_KEY`"
    );
}

#[test]
fn a_usual_key_is_chosen_by_host_and_never_by_name_or_flavour() {
    let environment = Environment::fixed([("GROQ_API_KEY", SECRET), ("AZURE_API_KEY", SECRET)]);
    let providers = r#"{
        "groq": {"baseUrl": "https://gateway.example/v1"},
        "fast": {"flavor": "groq", "baseUrl": "https://gateway.example/v1"},
        "plain": {"flavor": "groq", "baseUrl": "http://api.groq.com/v1", "allowInsecure": true},
        "azure": {"baseUrl": "https://gateway.example"},
        "other": {"flavor": "vllm", "baseUrl": "https://api.groq.com/openai/v1"}
    }"#;
    let set = parse(Some(providers), None, &environment).unwrap();
    for name in ["groq", "fast", "plain", "azure"] {
        assert_eq!(key(&set, name), Ok(None), "{name}");
    }
    let expected = Ok(Some(("other:env".to_owned(), SECRET.to_owned(), false)));
    assert_eq!(key(&set, "other"), expected);
}

#[test]
fn a_service_is_found_by_flavour_then_host_then_name() {
    let providers = r#"{
        "a": {"flavor": "mistral", "baseUrl": "https://api.deepseek.com"},
        "mistral": {"baseUrl": "https://api.deepseek.com"},
        "deepseek": {"baseUrl": "https://gateway.example"},
        "openai": {"baseUrl": "https://gateway.example"},
        "b": {"baseUrl": "https://openrouter.ai/api/v1"},
        "c": {"api": "openai-chat", "baseUrl": "http://localhost:1/v1"}
    }"#;
    let set = parse(Some(providers), None, &Environment::fixed([])).unwrap();
    let chat = |name: &str| match &set.providers[name] {
        ProviderSettings::Http { api: Api::OpenaiChat, settings } => settings.chat,
        _ => panic!("{name}"),
    };
    assert_eq!(chat("a"), ChatQuirks::MISTRAL);
    assert_eq!(chat("mistral"), ChatQuirks::DEEPSEEK);
    assert_eq!(chat("deepseek"), ChatQuirks::DEEPSEEK);
    assert_eq!(chat("openai"), ChatQuirks::STANDARD);
    assert_eq!(chat("b"), ChatQuirks::OPENROUTER);
    assert_eq!(chat("c"), ChatQuirks::COMPATIBLE);
    let text = refused(r#"{"x":{"flavor":"grok","baseUrl":"https://h"}}"#, None);
    assert!(
        text.starts_with(
            "`providers.x.flavor`: `grok` is not known; pass one of anthropic, openai, "
        ),
        "{text}"
    );
}

#[test]
fn a_typo_is_refused_with_its_path() {
    let text = refused(r#"{"openai":{"baseURL":"https://h"}}"#, None);
    assert!(text.starts_with("`providers.openai.baseURL`: unknown field `baseURL`"), "{text}");
    let text = refused("{}", Some(r#"[{"id":"a","provider":"p","keyy":"k"}]"#));
    assert!(text.starts_with("`authProfiles[0].keyy`: unknown field `keyy`"), "{text}");
    let text = refused(r#"{"x":{"api":"openai"}}"#, None);
    assert!(text.starts_with("`providers.x.api`: `openai` is not known"), "{text}");
}

#[test]
fn every_wrong_profile_is_refused_with_its_path() {
    let profile = |more: &str| format!(r#"[{{"id":"a","provider":"openai",{more}}}]"#);
    let cases = [
        (profile(r#""key":{"env":"NOT_SET"}"#), "`authProfiles[0].key.env`: is not the name of an environment variable that is set; set the variable, or pass the key itself as `key`"),
        (profile(r#""key":"""#), "`authProfiles[0].key`: is empty; pass the key"),
        (profile(r#""key":"sk-very-secret-0123456789 x""#), "`authProfiles[0].key`: is no key: it has a space, or a character that no header may have"),
        (profile(r#""key":{"file":"sk-very-secret-0123456789"}"#), "`authProfiles[0].key`: is not `{ env: 'NAME' }`"),
        (profile(r#""type":"api_key""#), "`authProfiles[0].key`: is missing"),
        (r#"[{"id":"a","provider":"nobody","key":"k"}]"#.to_owned(), "`authProfiles[0].provider`: `nobody` is not one of `providers`"),
        (r#"[{"id":"","provider":"openai","key":"k"}]"#.to_owned(), "`authProfiles[0].id`: is empty"),
        (
            r#"[{"id":"a","provider":"openai","key":"k"},{"id":"a","provider":"openai","key":"k"}]"#.to_owned(),
            "`authProfiles[1].id`: `a` is there twice",
        ),
    ];
    for (profiles, expected) in cases {
        assert_eq!(refused(r#"{"openai":{}}"#, Some(&profiles)), expected);
    }
}

#[test]
fn a_proxy_of_the_environment_is_used_only_on_request() {
    let environment = Environment::fixed([("HTTPS_PROXY", "http://u:p@proxy:3128")]);
    let named = |providers: &str| {
        let set = parse(Some(providers), None, &environment).unwrap();
        match &set.providers["openai"] {
            ProviderSettings::Http { settings, .. } => {
                settings.connection.proxy.as_ref().map(|proxy| proxy.url.clone())
            }
            ProviderSettings::Scripted(_) => None,
        }
    };
    assert_eq!(named(r#"{"openai":{}}"#), None);
    let from_environment = named(r#"{"openai":{"proxy":"env"}}"#);
    assert_eq!(from_environment.as_deref(), Some("http://u:p@proxy:3128"));
    assert_eq!(named(r#"{"openai":{"proxy":"http://q:1"}}"#).as_deref(), Some("http://q:1"));
}

#[test]
fn claude_at_vertex_gets_its_key_as_a_bearer_token() {
    let at = |host: &str| {
        let providers = format!(
            r#"{{ "p": {{ "api": "anthropic-messages", "baseUrl": "https://{host}/v1" }} }}"#
        );
        let set = parse(Some(&providers), None, &Environment::fixed([])).unwrap();
        match &set.providers["p"] {
            ProviderSettings::Http { settings, .. } => settings.key_header.clone(),
            ProviderSettings::Scripted(_) => None,
        }
    };
    assert_eq!(at("us-east5-aiplatform.googleapis.com"), None);
    assert_eq!(at("gateway.example.com").unwrap(), "x-api-key");
}
