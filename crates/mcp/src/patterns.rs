//! Which tools of which servers: names and patterns with `*`, in an option of a server and in a context.
//!
//! It must never read a pattern as part of a name: `git` selects no tool of the server `github`.

/// A list of names and patterns. A tool of server `github` is `create_issue`, `github.create_issue` and `github__create_issue`;
/// `github` alone is all of that server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// All where it is `None`.
    allowed: Option<Vec<String>>,
    denied: Vec<String>,
}

impl Selection {
    /// Everything.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// What `allowed` names (all, where it is absent), except for what `denied` names.
    #[must_use]
    pub fn of(allowed: Option<Vec<String>>, denied: Vec<String>) -> Self {
        Self { allowed, denied }
    }

    /// Whether a tool is among them; `exposed` is its name in runs.
    pub(crate) fn has_tool(&self, server: &str, tool: &str, exposed: &str) -> bool {
        let named = |pattern: &String| {
            pattern == server
                || matches(pattern, exposed)
                || matches(pattern, &format!("{server}.{tool}"))
                || matches(pattern, &format!("{server}__{tool}"))
        };
        self.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(named))
            && !self.denied.iter().any(named)
    }

    /// Whether it is among them by its own name, too: for the list of one server.
    pub(crate) fn has_own_tool(&self, server: &str, tool: &str, exposed: &str) -> bool {
        let own = |pattern: &String| matches(pattern, tool);
        let denied = self.denied.iter().any(own);
        let allowed = self.allowed.as_ref().is_some_and(|allowed| allowed.iter().any(own));
        !denied
            && (self.has_tool(server, tool, exposed)
                || (allowed && Self::of(None, self.denied.clone()).has_tool(server, tool, exposed)))
    }

    /// Whether a tool of this server may be among them: others need not be started.
    pub(crate) fn may_have(&self, server: &str) -> bool {
        let reaches = |pattern: &String| {
            let (dotted, joined) = (format!("{server}."), format!("{server}__"));
            let fixed = pattern.split('*').next().unwrap_or_default();
            let begins = |name: &str| {
                (pattern.contains('*') && name.starts_with(fixed)) || pattern.starts_with(name)
            };
            pattern == server || begins(&dotted) || begins(&joined)
        };
        self.allowed.as_ref().is_none_or(|allowed| allowed.iter().any(reaches))
            && !self.denied.iter().any(|pattern| pattern == server)
    }
}

/// Whether a text fits a pattern, in which `*` is any text.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = text.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(middle) = last.replace(part) {
            let Some(at) = rest.find(middle) else { return false };
            rest = rest.get(at + middle.len()..).unwrap_or_default();
        }
    }
    match last {
        None => rest.is_empty(),
        Some(end) => rest.ends_with(end),
    }
}

#[cfg(test)]
mod tests {
    use super::{Selection, matches};

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_star_is_any_text() {
        let fits = |pattern, text| matches(pattern, text);
        assert!(fits("a", "a") && fits("*", "") && fits("a*", "ab") && fits("*b*d", "abcd"));
        assert!(fits("a*b*a", "aba") && fits("**", "x"));
        assert!(!fits("a", "ab") && !fits("a*a", "a") && !fits("*b*b", "ab"));
    }

    #[test]
    fn a_tool_is_selected_by_either_form_of_its_name_or_by_its_server() {
        let has = |allowed: &[&str], denied: &[&str]| {
            let selection = Selection::of(Some(list(allowed)), list(denied));
            selection.has_tool("git", "log", "git__log")
        };
        for name in ["git", "git.log", "git__log", "git.*", "git__l*", "*.log"] {
            assert!(has(&[name], &[]), "{name}");
            assert!(!has(&["git"], &[name]), "{name}");
        }
        assert!(!has(&["gi", "git.lo", "log", "github"], &[]));
        assert!(Selection::all().has_tool("git", "log", "git__log"));
        let own = |names: &[&str], denied: &[&str]| {
            let selection = Selection::of(Some(list(names)), list(denied));
            selection.has_own_tool("git", "log", "git__log")
        };
        assert!(own(&["log"], &[]) && own(&["lo*"], &[]) && own(&["git.log"], &[]));
        assert!(!own(&["show"], &[]) && !own(&["log"], &["l*"]) && !own(&["log"], &["git.*"]));
    }

    #[test]
    fn a_server_none_of_whose_tools_can_be_selected_need_not_start() {
        let may = |allowed: &[&str], denied: &[&str]| {
            Selection::of(Some(list(allowed)), list(denied)).may_have("git")
        };
        for name in ["git", "git.log", "git__log", "git.*", "*", "g*", "*.log", "git__l*"] {
            assert!(may(&[name], &[]), "{name}");
        }
        assert!(!may(&["github", "github.*", "log"], &[]) && !may(&[], &[]));
        assert!(!may(&["*"], &["git"]));
    }
}
