//! Where Claude is served, and what the requests of each server differ in.
//!
//! It must never do I/O or hold a key.

/// The API's version to name where the options name none: the newest at Anthropic itself, the one every compatible
/// server knows elsewhere. Both are parsed alike (docs/rules/wire/anthropic.md#versions-and-headers).
#[must_use]
pub(crate) fn default_version(host: &str) -> &'static str {
    if host.eq_ignore_ascii_case("api.anthropic.com") { "2026-10-21" } else { "2023-06-01" }
}

/// Where Claude is served, as far as the requests differ.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AnthropicServer {
    /// `api.anthropic.com`: one `cache_control` for the whole request marks its last block.
    Anthropic,
    /// Vertex AI, below `…/projects/{p}/locations/{l}`: the model is in the path, the version in the body.
    Vertex,
    /// Any other server that speaks the API: the last block is marked itself, which all of them know or ignore.
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

/// Whether a host is Vertex AI's: of a region, of all of them, or of a jurisdiction.
#[must_use]
pub(crate) fn is_vertex(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    host == "aiplatform.googleapis.com"
        || host.ends_with("-aiplatform.googleapis.com")
        || (host.starts_with("aiplatform.") && host.ends_with(".rep.googleapis.com"))
}
