//! What the policies of a run allow: each of them must.
//!
//! It must never let a later policy loosen an earlier one.

use model::RunPolicy;

use super::glob::matches;

/// The limits of a run, those of all its policies.
#[derive(Clone, Copy)]
pub struct Limits<'a> {
    policies: &'a [RunPolicy],
}

impl<'a> Limits<'a> {
    /// The limits of `policies`.
    #[must_use]
    pub fn of(policies: &'a [RunPolicy]) -> Self {
        Self { policies }
    }

    /// The list that forbids a tool; `None` if it may be called. `own` is `server__name` of a tool of a server that has another name in
    /// the run: a list may use either.
    #[must_use]
    pub fn forbidding(&self, tool: &str, own: Option<&str>) -> Option<&'static str> {
        let names_it = |name: &str| {
            names_tool(name, tool)
                || own.is_some_and(|own| names_tool(name, own) || matches(name, own))
        };
        let named = |names: &[String]| names.iter().any(|name| names_it(name));
        let mut policies = self.policies.iter();
        policies.find_map(|policy| {
            if policy.denied_tools.as_deref().is_some_and(named) {
                return Some("deniedTools");
            }
            let is_left_out = policy.allowed_tools.as_deref().is_some_and(|names| !named(names));
            is_left_out.then_some("allowedTools")
        })
    }

    /// The most calls of tools.
    #[must_use]
    pub fn tool_calls(&self) -> Option<u32> {
        self.least(|policy| policy.max_tool_calls)
    }

    /// The most tokens of all calls of the model.
    #[must_use]
    pub fn tokens(&self) -> Option<u64> {
        self.least(|policy| policy.max_tokens)
    }

    /// The most characters of a tool's result.
    #[must_use]
    pub fn result_chars(&self) -> Option<u32> {
        self.least(|policy| policy.max_result_chars)
    }

    /// The most calls of the model.
    #[must_use]
    pub fn steps(&self) -> Option<u32> {
        self.least(|policy| policy.max_steps)
    }

    /// The most milliseconds.
    #[must_use]
    pub fn timeout_ms(&self) -> Option<u64> {
        self.least(|policy| policy.timeout_ms)
    }

    /// The most tools at once.
    #[must_use]
    pub fn parallel(&self) -> Option<u32> {
        self.least(|policy| policy.max_parallel)
    }

    fn least<T: Ord>(&self, of: impl Fn(&RunPolicy) -> Option<T>) -> Option<T> {
        self.policies.iter().filter_map(of).min()
    }
}

/// Whether an entry of a list names a tool. No name of a tool has a dot: `server.tool` is the tool `server__tool` of a server.
fn names_tool(name: &str, tool: &str) -> bool {
    match name.split_once('.') {
        None => matches(name, tool),
        Some((server, own)) => matches(&format!("{server}__{own}"), tool),
    }
}

#[cfg(test)]
mod tests {
    use model::RunPolicy;
    use proptest::prelude::*;

    use super::Limits;

    fn names(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn policy(allowed: Option<Vec<String>>, denied: Option<Vec<String>>) -> RunPolicy {
        RunPolicy { allowed_tools: allowed, denied_tools: denied, ..RunPolicy::default() }
    }

    #[test]
    fn a_denied_tool_is_forbidden_even_if_it_is_allowed() {
        let policies = [policy(names(&["git__*", "read"]), names(&["git__push"]))];
        let limits = Limits::of(&policies);
        assert_eq!(limits.forbidding("git__push", None), Some("deniedTools"));
        assert_eq!(limits.forbidding("git__log", None), None);
        assert_eq!(limits.forbidding("write", None), Some("allowedTools"));
        assert_eq!(
            Limits::of(&[policy(names(&[]), None)]).forbidding("a", None),
            Some("allowedTools")
        );
        let dotted = [policy(names(&["git.*"]), names(&["git.push"]))];
        let dotted = Limits::of(&dotted);
        let forbidden =
            ["git__log", "git__push", "github__log"].map(|tool| dotted.forbidding(tool, None));
        assert_eq!(forbidden, [None, Some("deniedTools"), Some("allowedTools")]);
        assert_eq!(Limits::of(&[]).forbidding("a", None), None);
    }

    #[test]
    fn a_tool_of_a_server_is_named_by_its_own_name_and_by_that_of_the_run() {
        let (exposed, own) = ("s__files_delete_0a1b2c3d", Some("s__files.delete"));
        for name in ["s.files.delete", "s__files.delete", "s.files.*", "s.*", "*delete", exposed] {
            let denied = [policy(None, names(&[name]))];
            assert_eq!(Limits::of(&denied).forbidding(exposed, own), Some("deniedTools"), "{name}");
            let allowed = [policy(names(&[name]), None)];
            assert_eq!(Limits::of(&allowed).forbidding(exposed, own), None, "{name}");
        }
        let others = [policy(None, names(&["s.files.read", "files.delete", "t.*"]))];
        assert_eq!(Limits::of(&others).forbidding(exposed, own), None);
    }

    fn policies() -> impl Strategy<Value = Vec<RunPolicy>> {
        let names = || proptest::option::of(proptest::collection::vec("[ab*?]{1,3}", 0..3));
        let one = (names(), names(), proptest::option::of(0..9_u32)).prop_map(
            |(allowed_tools, denied_tools, max_tool_calls)| RunPolicy {
                allowed_tools,
                denied_tools,
                max_tool_calls,
                ..RunPolicy::default()
            },
        );
        proptest::collection::vec(one, 0..4)
    }

    proptest! {
        #[test]
        fn another_policy_only_ever_forbids_more(all in policies(), tool in "[ab]{0,3}", cut in 0..4_usize) {
            let fewer = all.get(..cut.min(all.len())).unwrap();
            let (all, fewer) = (Limits::of(&all), Limits::of(fewer));
            prop_assert!(fewer.forbidding(&tool, None).is_none() || all.forbidding(&tool, None).is_some());
            if let Some(most) = fewer.tool_calls() {
                prop_assert!(all.tool_calls().is_some_and(|calls| calls <= most));
            }
        }
    }
}
