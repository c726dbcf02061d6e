//! The environment: its one reader, for API keys, the proxy where asked for, and the log switch.
//!
//! It must never be read anywhere else, and it must never print a value.

use std::collections::BTreeMap;
use std::fmt;

/// Switches the log on: `error`, `warn`, `info`, `debug` or `trace`.
pub const LOG_VARIABLE: &str = "NEXUS_AGENT_ENGINE_LOG";

/// The bound of a ledger's log in bytes, for tests that cannot fill the usual one.
pub const LOG_BOUND_VARIABLE: &str = "NEXUS_AGENT_ENGINE_LEDGER_LOG_BOUND";

/// Where environment variables come from: the process, or a fixed set in tests.
#[derive(Clone)]
pub struct Environment {
    fixed: Option<BTreeMap<String, String>>,
}

/// A proxy as the environment names it. Its URL may hold a password.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EnvironmentProxy {
    /// The URL, which may hold a password.
    pub url: String,
    /// The hosts that are reached directly, as `NO_PROXY` lists them.
    pub except: Option<String>,
}

impl Environment {
    /// The process's own environment, read anew at each look.
    #[must_use]
    pub fn process() -> Self {
        Self { fixed: None }
    }

    /// A fixed set of variables.
    #[must_use]
    pub fn fixed<const N: usize>(variables: [(&str, &str); N]) -> Self {
        let fixed = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self { fixed: Some(fixed.into()) }
    }

    /// A variable without surrounding space; `None` where it is unset, empty or not Unicode.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the owner")]
    pub fn get(&self, name: &str) -> Option<String> {
        let value = match &self.fixed {
            Some(fixed) => fixed.get(name).cloned(),
            None => std::env::var(name).ok(),
        }?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// The proxy for a scheme (`https` or `http`), by the names every tool uses.
    pub fn proxy(&self, scheme: &str) -> Option<EnvironmentProxy> {
        let names: &[&str] = match scheme {
            "https" => &["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
            // Upper-case HTTP_PROXY can be set by a client of a CGI program, so no tool trusts it.
            _ => &["http_proxy", "ALL_PROXY", "all_proxy"],
        };
        let url = names.iter().find_map(|name| self.get(name))?;
        Some(EnvironmentProxy {
            url,
            except: self.get("NO_PROXY").or_else(|| self.get("no_proxy")),
        })
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Environment;

    #[test]
    fn a_value_is_trimmed_and_an_empty_one_is_unset() {
        let env = Environment::fixed([("A", " key\n"), ("B", " ")]);
        assert_eq!(
            (env.get("A"), env.get("B"), env.get("C")),
            (Some("key".to_owned()), None, None)
        );
    }

    #[test]
    fn debug_shows_no_value() {
        assert_eq!(format!("{:?}", Environment::fixed([("A", "key")])), "Environment { .. }");
    }

    #[test]
    fn the_proxy_follows_the_scheme_and_never_upper_case_http_proxy() {
        let env = Environment::fixed([
            ("HTTP_PROXY", "http://cgi"),
            ("https_proxy", "http://p:1"),
            ("NO_PROXY", "localhost"),
        ]);
        let proxy = env.proxy("https").map(|proxy| (proxy.url, proxy.except));
        assert_eq!(proxy, Some(("http://p:1".to_owned(), Some("localhost".to_owned()))));
        assert!(env.proxy("http").is_none());
    }
}
