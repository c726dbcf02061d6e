//! The options of the servers: `mcp` of the engine's options, checked field by field. Every error names the field.
//!
//! It must never start anything, and never print a variable or a header.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::answerer::ClientFunctions;
use super::patterns::Selection;
use super::redaction::Secrets;
use super::tool::ToolRules;
use base::config::Environment;
use model::{ExecutionMode, InputError, ToolPermission, typed};
use provider::EndpointSettings;
use workspace::ServerCommand;

/// The most servers of an engine.
const MAX_SERVERS: usize = 64;
/// The longest name of a server: its tools need some of the 64 characters of a name.
const MAX_NAME: usize = 32;
/// How long a server may take to start, where no option says so: some are downloaded first.
const START_TIMEOUT_MS: u64 = 30_000;
/// An hour: a longer limit is a mistake in units.
const MAX_TIMEOUT_MS: u64 = 3_600_000;
/// What a server gets of the environment.
const VARIABLES: [&str; 10] =
    ["PATH", "HOME", "LANG", "TERM", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL", "SYSTEMROOT"];

/// A checked server.
#[derive(Clone)]
pub struct ServerSettings {
    pub(crate) name: String,
    pub(crate) place: Place,
    pub(crate) protocol: Protocol,
    pub(crate) start_timeout: Duration,
    pub(crate) tools: Selection,
    pub(crate) rules: ToolRules,
    pub(crate) secrets: Secrets,
    pub(crate) functions: ClientFunctions,
}

/// Where a server is.
#[derive(Clone)]
pub(crate) enum Place {
    /// A process that is started.
    Process(ServerCommand),
    /// An address, with the number of the function that gives its token.
    Address(EndpointSettings, Option<u32>),
}

impl ServerSettings {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The host that is called; none for a process.
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        match &self.place {
            Place::Process(_) => None,
            Place::Address(settings, _) => Some(settings.host()),
        }
    }
}

impl fmt::Debug for ServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerSettings").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Which revisions of the protocol a server is spoken to in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(crate) enum Protocol {
    /// With a handshake, else without one. In this order: some older servers are not healthy any more after they were asked for what
    /// they do not know.
    #[default]
    #[serde(rename = "auto")]
    Auto,
    /// With a handshake, up to 2025-11-25.
    #[serde(rename = "2025-11-25")]
    Handshake,
    /// Without one.
    #[serde(rename = "2026-07-28")]
    Stateless,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Fields {
    #[serde(default)]
    command: Option<String>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    headers: Option<BTreeMap<String, String>>,
    /// The number of a function.
    #[serde(default)]
    auth: Option<u32>,
    #[serde(default)]
    allow_insecure: Option<bool>,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    protocol: Option<Protocol>,
    #[serde(default)]
    start_timeout_ms: Option<u64>,
    #[serde(default)]
    timeout_ms: Option<u64>,
    #[serde(default)]
    tools: Option<ToolLists>,
    #[serde(default)]
    permission: Option<ToolPermission>,
    #[serde(default)]
    execution_mode: Option<ExecutionMode>,
    #[serde(default)]
    trust_annotations: Option<bool>,
    /// The numbers of functions.
    #[serde(default)]
    on_elicitation: Option<u32>,
    #[serde(default)]
    on_sampling: Option<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ToolLists {
    #[serde(default)]
    allow: Option<Vec<String>>,
    #[serde(default)]
    deny: Vec<String>,
}

/// Reads the option: an object of servers by name, in the order of their names.
///
/// # Errors
/// The first field that is wrong, by its path.
pub fn parse_servers(
    raw: Option<&RawValue>,
    environment: &Environment,
) -> Result<Vec<ServerSettings>, InputError> {
    let Some(raw) = raw.filter(|raw| raw.get() != "null") else { return Ok(Vec::new()) };
    let servers: BTreeMap<String, Box<RawValue>> = typed("mcp", raw)?;
    if servers.len() > MAX_SERVERS {
        let message = format!("has {} servers; at most {MAX_SERVERS} are possible", servers.len());
        return Err(InputError::new("mcp", message));
    }
    servers.iter().map(|(name, raw)| server(name, raw, environment)).collect()
}

fn server(
    name: &str,
    raw: &RawValue,
    environment: &Environment,
) -> Result<ServerSettings, InputError> {
    let path = format!("mcp.{name}");
    check_name(&path, name)?;
    let mut fields: Fields = typed(&path, raw)?;
    let at = |field: &str| format!("{path}.{field}");
    let secrets = Secrets::of(fields.env.iter().flatten().map(|(_, value)| value.clone()));
    let place = place(&path, &mut fields, environment)?;
    let lists = fields.tools.map(|ToolLists { allow, deny }| Selection::of(allow, deny));
    Ok(ServerSettings {
        name: name.to_owned(),
        place,
        protocol: fields.protocol.unwrap_or_default(),
        start_timeout: Duration::from_millis(
            limit(&at("startTimeoutMs"), fields.start_timeout_ms)?.unwrap_or(START_TIMEOUT_MS),
        ),
        tools: lists.unwrap_or_default(),
        rules: ToolRules {
            permission: fields.permission,
            execution_mode: fields.execution_mode.unwrap_or_default(),
            timeout_ms: limit(&at("timeoutMs"), fields.timeout_ms)?,
            trust_annotations: fields.trust_annotations.unwrap_or(false),
        },
        secrets,
        functions: ClientFunctions {
            elicitation: fields.on_elicitation,
            sampling: fields.on_sampling,
        },
    })
}

/// Where a server is: a program or an address, with the fields of it and no other.
fn place(path: &str, fields: &mut Fields, environment: &Environment) -> Result<Place, InputError> {
    let at = |field: &str| format!("{path}.{field}");
    let (command, url) = (fields.command.take().filter(|it| !it.is_empty()), fields.url.take());
    let of_process = [
        ("args", fields.args.is_some()),
        ("env", fields.env.is_some()),
        ("cwd", fields.cwd.is_some()),
    ];
    let of_address = [
        ("headers", fields.headers.is_some()),
        ("auth", fields.auth.is_some()),
        ("allowInsecure", fields.allow_insecure.is_some()),
    ];
    let (others, own) = match (&command, &url) {
        (Some(_), None) => (of_address, "url"),
        (None, Some(_)) => (of_process, "command"),
        (Some(_), Some(_)) => {
            return Err(InputError::new(at("url"), "is there beside `command`; pass one of them"));
        }
        (None, None) => {
            let message = "is missing; pass the program of the server, or its `url`";
            return Err(InputError::new(at("command"), message));
        }
    };
    if let Some((field, _)) = others.into_iter().find(|(_, is_there)| *is_there) {
        return Err(InputError::new(at(field), format!("is for a server with `{own}` only")));
    }
    if let Some(url) = url {
        let headers = fields.headers.take().unwrap_or_default();
        let insecure = fields.allow_insecure.unwrap_or(false);
        let settings = EndpointSettings::check(path, &url, &headers, insecure)?;
        return Ok(Place::Address(settings, fields.auth));
    }
    Ok(Place::Process(ServerCommand {
        command: without_nul(&at("command"), command.unwrap_or_default())?,
        args: fields
            .args
            .take()
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(index, arg)| without_nul(&at(&format!("args[{index}]")), arg))
            .collect::<Result<_, _>>()?,
        environment: variables(&at("env"), fields.env.take().unwrap_or_default(), environment)?,
        directory: fields.cwd.take().map(|cwd| without_nul(&at("cwd"), cwd)).transpose()?,
    }))
}

/// Names of tools begin with it: letters, digits and `-`, and single `_`.
fn check_name(path: &str, name: &str) -> Result<(), InputError> {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
    let is_whole =
        begins && name.chars().all(valid) && !name.contains("__") && !name.ends_with('_');
    if is_whole && name.len() <= MAX_NAME {
        return Ok(());
    }
    let message = format!(
        "is not a server's name: a letter, then letters, digits, `-` and single `_`, at most {MAX_NAME} characters"
    );
    Err(InputError::new(path, message))
}

fn limit(path: &str, ms: Option<u64>) -> Result<Option<u64>, InputError> {
    match ms {
        Some(ms) if ms == 0 || ms > MAX_TIMEOUT_MS => Err(InputError::new(
            path,
            format!("`{ms}` is not a limit; pass 1 to {MAX_TIMEOUT_MS} milliseconds"),
        )),
        _ => Ok(ms),
    }
}

fn without_nul(path: &str, text: String) -> Result<String, InputError> {
    if text.contains('\0') {
        return Err(InputError::new(path, "has a NUL character"));
    }
    Ok(text)
}

/// The environment of a server: a few variables of this process, and those of its options.
fn variables(
    path: &str,
    own: BTreeMap<String, String>,
    environment: &Environment,
) -> Result<Vec<(String, String)>, InputError> {
    let mut variables: BTreeMap<String, String> = VARIABLES
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), environment.get(name)?)))
        .collect();
    for (name, value) in own {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(InputError::new(path, "has a name that no variable may have"));
        }
        let value = without_nul(&format!("{path}.{name}"), value)?;
        variables.insert(name, value);
    }
    Ok(variables.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    use super::{Place, parse_servers};
    use base::config::Environment;

    fn refusal(json: &str) -> (String, String) {
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        let error = parse_servers(Some(&raw), &Environment::fixed([])).unwrap_err();
        (error.path, error.message)
    }

    #[test]
    fn a_server_has_a_clean_environment_and_its_own_variables() {
        let json = r#"{"b":{"command":"b"},"a":{"command":"a","args":["x"],"env":{"TOKEN":"secret"},"cwd":"/tmp"}}"#;
        let raw = RawValue::from_string(json.to_owned()).unwrap();
        let environment = Environment::fixed([("PATH", "/bin"), ("OTHER_KEY", "k")]);
        let servers = parse_servers(Some(&raw), &environment).unwrap();
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let Place::Process(command) = &servers[0].place else { panic!() };
        let variables: Vec<String> =
            command.environment.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(variables, ["PATH=/bin", "TOKEN=secret"]);
        assert!(parse_servers(None, &environment).unwrap().is_empty());
    }

    #[test]
    fn a_wrong_field_is_refused_by_its_path() {
        let at = |json: &str| refusal(json).0;
        assert_eq!(at(r#"{"a":{}}"#), "mcp.a.command");
        assert_eq!(at(r#"{"a__b":{"command":"x"}}"#), "mcp.a__b");
        assert_eq!(at(r#"{"1a":{"command":"x"}}"#), "mcp.1a");
        assert_eq!(at(r#"{"a":{"command":"x","startTimeoutMs":0}}"#), "mcp.a.startTimeoutMs");
        assert_eq!(at(r#"{"a":{"command":"x","timeoutMs":9999999999}}"#), "mcp.a.timeoutMs");
        assert_eq!(at(r#"{"a":{"command":"x","args":[1]}}"#), "mcp.a.args[0]");
        assert_eq!(at(r#"{"a":{"command":"x","args":["a\u0000"]}}"#), "mcp.a.args[0]");
        assert_eq!(at(r#"{"a":{"command":"x","env":{"A=B":"1"}}}"#), "mcp.a.env");
        assert_eq!(at(r#"{"a":{"command":"x","url":"https://x"}}"#), "mcp.a.url");
        assert_eq!(at(r#"{"a":{"command":"x","headers":{}}}"#), "mcp.a.headers");
        assert_eq!(at(r#"{"a":{"url":"https://x","env":{}}}"#), "mcp.a.env");
        assert_eq!(at(r#"{"a":{"url":"http://example.com"}}"#), "mcp.a.url");
        assert_eq!(at(r#"{"a":{"url":"https://u:p@example.com"}}"#), "mcp.a.url");
        let owned = r#"{"a":{"url":"https://x","headers":{"Mcp-Session-Id":"1"}}}"#;
        assert_eq!(at(owned), "mcp.a.headers.Mcp-Session-Id");
        assert_eq!(at("[]"), "mcp");
        let (path, message) = refusal(r#"{"a":{"command":"x","protocol":"1999"}}"#);
        assert_eq!(path, "mcp.a.protocol");
        assert!(message.contains("2026-07-28"), "{message}");
    }
}
