//! Reads the environment: API keys, the proxy on request, and the switch of the log.
//!
//! No other file may read it, and it must never print a value.

use std::collections::BTreeMap;
use std::fmt;

/// Switches the log on: `error`, `warn`, `info`, `debug` or `trace`.
pub const LOG_VARIABLE: &str = "NEXUS_AGENT_ENGINE_LOG";

/// The limit of a ledger's log in bytes, for tests that cannot fill the default.
pub const LOG_BOUND_VARIABLE: &str = "NEXUS_AGENT_ENGINE_LEDGER_LOG_BOUND";

/// The source of environment variables: the process, or a fixed set in tests.
#[derive(Clone)]
pub struct Environment {
    fixed: Option<BTreeMap<String, String>>,
}

/// A proxy of the environment. Its URL may contain a password.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EnvironmentProxy {
    /// The URL, which may contain a password.
    pub url: String,
    /// The hosts that are called directly, in the form of `NO_PROXY`.
    pub except: Option<String>,
}

impl Environment {
    /// The environment of the process, read again at each access.
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

    /// The proxy for a scheme (`https` or `http`), by the usual names.
    pub fn proxy(&self, scheme: &str) -> Option<EnvironmentProxy> {
        let names: &[&str] = match scheme {
            "https" => &["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
            // A client of a CGI program can set upper-case HTTP_PROXY, so it is not trusted.
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
