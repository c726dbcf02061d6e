//! The hosts that an engine may call: those of its providers and MCP servers are compared with the option `allowedHosts`, whoever wrote
//! their addresses. It must never look a name up: what it resolves to is checked when it is called.

use mcp::ServerSettings;
use model::InputError;
use provider::ProviderSet;

/// Refuses the first address whose host is not allowed.
pub(super) fn check(
    allowed: Option<&[String]>,
    set: &ProviderSet,
    servers: &[ServerSettings],
) -> Result<(), InputError> {
    let Some(allowed) = allowed else { return Ok(()) };
    let of_providers = set.providers.iter().filter_map(|(name, settings)| {
        Some((format!("providers.{name}.baseUrl"), settings.host()?))
    });
    let of_servers = servers
        .iter()
        .filter_map(|server| Some((format!("mcp.{}.url", server.name()), server.host()?)));
    for (path, host) in of_providers.chain(of_servers) {
        if !allowed.iter().any(|pattern| matches(pattern, host)) {
            let message = format!("`{host}` is not among `allowedHosts` ({})", allowed.join(", "));
            return Err(InputError::new(path, message));
        }
    }
    Ok(())
}

/// `*.example.com` is every host beneath it.
fn matches(pattern: &str, host: &str) -> bool {
    let pattern = pattern.to_ascii_lowercase();
    match pattern.strip_prefix('*') {
        Some(end) if end.starts_with('.') => host.len() > end.len() && host.ends_with(end),
        Some(_) | None => host == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_pattern_is_a_host_or_all_beneath_one() {
        for (pattern, host) in [
            ("api.example.com", "api.example.com"),
            ("API.example.com", "api.example.com"),
            ("*.example.com", "a.b.example.com"),
            ("127.0.0.1", "127.0.0.1"),
            ("[::1]", "[::1]"),
        ] {
            assert!(matches(pattern, host), "{pattern} {host}");
        }
        for (pattern, host) in [
            ("example.com", "api.example.com"),
            ("*.example.com", "example.com"),
            ("*.example.com", "evilexample.com"),
            ("*example.com", "evilexample.com"),
            ("*", "example.com"),
            ("*.example.com", ".example.com"),
        ] {
            assert!(!matches(pattern, host), "{pattern} {host}");
        }
    }
}
