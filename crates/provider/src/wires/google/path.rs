//! The path of a model's methods below a base URL: the Gemini API, Vertex with or without a project, or a gateway.
//!
//! Only the base URL decides, and it may end at any segment of the path. It must never hold a default address.

use crate::paths::segment;

/// The path of models below one base URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GooglePath {
    models: &'static str,
    vertex: bool,
}

impl Default for GooglePath {
    /// Below the bare host of the Gemini API.
    fn default() -> Self {
        Self { models: "/v1beta/models", vertex: false }
    }
}

impl GooglePath {
    /// The path after a base URL with this host and path.
    #[must_use]
    pub fn for_base(host: &str, path: &str) -> Self {
        let host = host.to_ascii_lowercase();
        let at_vertex = host.ends_with(".googleapis.com") && host.contains("aiplatform");
        let steps: Vec<&str> = path.split('/').filter(|step| !step.is_empty()).collect();
        let vertex = at_vertex || steps.contains(&"publishers") || steps.contains(&"locations");
        let models = match steps.as_slice() {
            [.., "models"] => "",
            [.., "publishers", _] => "/models",
            [.., "locations", _] => "/publishers/google/models",
            [.., version] if is_version(version) => {
                if at_vertex {
                    "/publishers/google/models"
                } else {
                    "/models"
                }
            }
            // Vertex without a project uses an API key.
            _ if at_vertex => "/v1/publishers/google/models",
            _ => "/v1beta/models",
        };
        Self { models, vertex }
    }

    /// Whether the base URL is Vertex's, which supports labels.
    #[must_use]
    pub fn is_vertex(&self) -> bool {
        self.vertex
    }

    /// The path of a method of a model.
    pub(super) fn of_model(&self, model: &str, method: &str) -> String {
        let name = ["publishers/google/models/", "models/"]
            .iter()
            .find_map(|prefix| model.strip_prefix(prefix))
            .unwrap_or(model);
        let mut out = String::with_capacity(self.models.len() + name.len() + method.len() + 2);
        out.push_str(self.models);
        out.push('/');
        out.push_str(&segment(name));
        out.push(':');
        out.push_str(method);
        out
    }
}

/// `v1`, `v1beta`, `v1alpha`, `v1beta1`.
fn is_version(step: &str) -> bool {
    let mut letters = step.chars();
    letters.next() == Some('v') && letters.next().is_some_and(|letter| letter.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::GooglePath;

    fn path(host: &str, base: &str, model: &str) -> String {
        format!("{base}{}", GooglePath::for_base(host, base).of_model(model, "m"))
    }

    #[test]
    fn a_base_url_may_end_at_any_segment_of_the_path() {
        let gemini = "generativelanguage.googleapis.com";
        let whole = "/v1beta/models/gemini-x:m";
        assert_eq!(path(gemini, "", "gemini-x"), whole);
        assert_eq!(path(gemini, "/v1beta", "gemini-x"), whole);
        assert_eq!(path(gemini, "/v1beta/models", "gemini-x"), whole);
        assert_eq!(path(gemini, "/v1alpha", "models/gemini-x"), "/v1alpha/models/gemini-x:m");
        let vertex = "europe-west4-aiplatform.googleapis.com";
        let project = "/v1/projects/p/locations/europe-west4";
        let whole = format!("{project}/publishers/google/models/gemini-x:m");
        for end in ["", "/publishers/google", "/publishers/google/models"] {
            assert_eq!(path(vertex, &format!("{project}{end}"), "gemini-x"), whole);
        }
        let express = "/v1/publishers/google/models/gemini-x:m";
        assert_eq!(path("aiplatform.googleapis.com", "", "gemini-x"), express);
        assert_eq!(path("aiplatform.googleapis.com", "/v1", "gemini-x"), express);
    }

    #[test]
    fn a_gateway_has_its_own_path_and_a_model_cannot_change_it() {
        assert_eq!(path("gate.example", "/g", "gemini-x"), "/g/v1beta/models/gemini-x:m");
        assert_eq!(path("127.0.0.1", "", "a/../b?key=x"), "/v1beta/models/a%2F..%2Fb%3Fkey%3Dx:m");
    }

    #[test]
    fn vertex_is_known_by_its_host_or_its_path() {
        let is_vertex = |host, base| GooglePath::for_base(host, base).is_vertex();
        assert!(is_vertex("aiplatform.googleapis.com", ""));
        assert!(is_vertex("127.0.0.1", "/v1/projects/p/locations/l/publishers/google"));
        assert!(!is_vertex("generativelanguage.googleapis.com", "/v1beta"));
    }
}
