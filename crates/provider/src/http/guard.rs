//! Which addresses may be called and with which headers: checked once, when the options are read.
//!
//! It must never allow a request to a metadata address, in plain text to another machine, or with a header that the engine
//! or the connection owns.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use url::Host;

use model::InputError;

/// A checked base URL, ready for a path.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BaseUrl {
    url: Url,
    /// Scheme, host and port: the only part that an error may show.
    origin: String,
}

impl BaseUrl {
    /// Checks a base URL.
    pub(crate) fn parse(path: &str, text: &str, allow_insecure: bool) -> Result<Self, InputError> {
        let wrong = |what: &str| Err(InputError::new(path, what));
        // The parser ignores a line break, and so would call another host than the visible one.
        if text.chars().any(char::is_control) {
            return wrong("has a control character; remove it");
        }
        let url = match Url::parse(text) {
            Ok(url) => url,
            Err(url::ParseError::IdnaError) => {
                return wrong("has a host that is no ASCII name; pass it in its `xn--` form");
            }
            Err(_) => return wrong("is not a URL; pass one like `https://api.example.com/v1`"),
        };
        let Some(host) = url.host() else {
            return wrong("names no host; pass one like `https://api.example.com/v1`");
        };
        if !url.username().is_empty() || url.password().is_some() {
            return wrong("holds a user or password; pass the key in `authProfiles`");
        }
        if url.fragment().is_some() {
            return wrong("has a fragment; remove what follows `#`");
        }
        let address = match host {
            Host::Ipv4(address) => Some(IpAddr::V4(address)),
            Host::Ipv6(address) => Some(IpAddr::V6(address)),
            Host::Domain(_) => None,
        };
        if address.is_some_and(is_refused) {
            return wrong("is a link-local or metadata address, which is never called");
        }
        let local = match host {
            Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
        };
        match url.scheme() {
            "https" => {}
            "http" if local || allow_insecure => {}
            "http" => return wrong("is not https; use https, or set `allowInsecure: true`"),
            _ => return wrong("is neither http nor https"),
        }
        let origin = url.origin().ascii_serialization();
        Ok(Self { url, origin })
    }

    /// The URL as it is.
    pub(super) fn whole(&self) -> Url {
        self.url.clone()
    }

    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    pub(crate) fn scheme(&self) -> &str {
        self.url.scheme()
    }

    pub(crate) fn host(&self) -> &str {
        self.url.host_str().unwrap_or_default()
    }

    pub(crate) fn path(&self) -> &str {
        self.url.path()
    }

    /// The value of a parameter in its query.
    pub(crate) fn query(&self, name: &str) -> Option<String> {
        self.url.query_pairs().find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
    }

    /// The URL of a path below the base; a query of the base stays, and the query of the path follows it.
    pub(crate) fn join(&self, path: &str) -> Url {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, q)| (path, Some(q)));
        let mut url = self.url.clone();
        url.set_path(&format!("{}{path}", self.url.path().trim_end_matches('/')));
        match (self.url.query(), query) {
            (Some(base), Some(query)) => url.set_query(Some(&format!("{base}&{query}"))),
            (None, Some(query)) => url.set_query(Some(query)),
            (_, None) => {}
        }
        url
    }
}

impl fmt::Debug for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BaseUrl").field(&self.origin).finish()
    }
}

/// Headers of the connection, of the body, of the credential, or with an option of their own.
const OWNED: [&str; 21] = [
    "accept",
    "accept-encoding",
    "anthropic-version",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "x-api-key",
];

/// Checks a header of the options and adds it. Its value is marked as sensitive: it may be a second key.
pub(crate) fn add_header(
    headers: &mut HeaderMap,
    path: &str,
    name: &str,
    value: &str,
) -> Result<(), InputError> {
    checked_header(headers, path, name, value, |name| OWNED.contains(&name))
}

/// The same for an address with its own protocol: credentials are the host's to give.
pub(super) fn add_own_header(
    headers: &mut HeaderMap,
    path: &str,
    name: &str,
    value: &str,
) -> Result<(), InputError> {
    let is_free = |name: &str| ["authorization", "cookie", "x-api-key"].contains(&name);
    let is_owned = |name: &str| OWNED.contains(&name) || name.starts_with("mcp-");
    checked_header(headers, path, name, value, |name| is_owned(name) && !is_free(name))
}

fn checked_header(
    headers: &mut HeaderMap,
    path: &str,
    name: &str,
    value: &str,
    is_owned: impl Fn(&str) -> bool,
) -> Result<(), InputError> {
    let at = format!("{path}.{name}");
    let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
        return Err(InputError::new(at, "is not a header name"));
    };
    if is_owned(header.as_str()) {
        return Err(InputError::new(at, "is set by the engine and cannot be overridden"));
    }
    let Some(mut value) = header_value(value) else {
        return Err(InputError::new(at, "has a character that no header may have"));
    };
    value.set_sensitive(true);
    if headers.insert(header, value).is_some() {
        return Err(InputError::new(at, "is there twice"));
    }
    Ok(())
}

/// A text as a header's value; `None` where it has a control character other than a tab.
pub(crate) fn header_value(text: &str) -> Option<HeaderValue> {
    let is_refused = |character: char| character.is_control() && character != '\t';
    if text.chars().any(is_refused) { None } else { HeaderValue::from_str(text).ok() }
}

/// A name that resolved only to addresses that are never called.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` resolves to a link-local or metadata address, which is never called")]
pub(crate) struct RefusedAddress(String);

/// The system's resolver, with every address checked, so that a name cannot lead to a forbidden address.
pub(crate) struct GuardedResolver;

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> =
                tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let some = !found.is_empty();
            let usable: Vec<SocketAddr> =
                found.into_iter().filter(|address| !is_refused(address.ip())).collect();
            if some && usable.is_empty() {
                return Err(RefusedAddress(name.as_str().to_owned()).into());
            }
            Ok(Box::new(usable.into_iter()) as Addrs)
        })
    }
}

/// Whether an address is link-local, or another one at which clouds serve the machine's credentials.
fn is_refused(address: IpAddr) -> bool {
    const METADATA_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    const METADATA_V4: Ipv4Addr = Ipv4Addr::new(100, 100, 100, 200);
    match address.to_canonical() {
        IpAddr::V4(address) => address.is_link_local() || address == METADATA_V4,
        IpAddr::V6(address) => address.is_unicast_link_local() || address == METADATA_V6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_name_that_resolves_to_a_metadata_address_is_refused_when_it_is_called() {
        let resolve = async |name: &str| GuardedResolver.resolve(name.parse().unwrap()).await;
        // The system's resolver reads one number as an address.
        for name in ["2852039166", "169.254.169.254", "100.100.100.200"] {
            let Err(error) = resolve(name).await else { panic!("{name} was resolved") };
            assert_eq!(
                error.to_string(),
                format!(
                    "`{name}` resolves to a link-local or metadata address, which is never called"
                )
            );
        }
        let addresses = resolve("localhost").await.unwrap();
        assert!(addresses.map(|address| address.ip()).all(|address| address.is_loopback()));
    }
}
