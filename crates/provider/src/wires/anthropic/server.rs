//! The servers of Claude, and the differences of their requests.
//!
//! It must never do I/O or hold a key.

/// The default of the API's version: the newest at Anthropic itself, elsewhere the one that every compatible server knows.
/// Both are parsed in the same way (docs/rules/wire/anthropic.md#versions-and-headers).
#[must_use]
pub(crate) fn default_version(host: &str) -> &'static str {
    if host.eq_ignore_ascii_case("api.anthropic.com") { "2026-10-21" } else { "2023-06-01" }
}

/// The kind of a server of Claude.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AnthropicServer {
    /// `api.anthropic.com`: one `cache_control` for the whole request marks its last block.
    Anthropic,
    /// Vertex AI, below `…/projects/{p}/locations/{l}`: the model is in the path, the version in the body.
    Vertex,
    /// Any other server with this API: the last block itself is marked, which all of them support or ignore.
    #[default]
    Compatible,
}

impl AnthropicServer {
    /// The server of a base URL's host.
    #[must_use]
    pub fn at(host: &str) -> Self {
        let host = host.to_ascii_lowercase();
        if host == "api.anthropic.com" {
            Self::Anthropic
        } else if is_vertex(&host) {
            Self::Vertex
        } else {
            Self::Compatible
        }
    }
}

/// Whether a host is Vertex AI's: of a region, of all regions, or of a jurisdiction.
#[must_use]
pub(crate) fn is_vertex(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    host == "aiplatform.googleapis.com"
        || host.ends_with("-aiplatform.googleapis.com")
        || (host.starts_with("aiplatform.") && host.ends_with(".rep.googleapis.com"))
}
