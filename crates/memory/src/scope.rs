//! Where the texts of a session belong, and which scopes it sees.
//!
//! A group never sees what was written in private: the scope of a persona is for its main session and its owner alone. It must never
//! read a session.

use model::{MemoryScope, MemoryScopeKind, SessionIdentity, SessionKind};

/// The persona of sessions that have none of their own.
const DEFAULT: &str = "default";

/// What a host has decided about scopes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScopePolicy {
    /// The kind of every session's scope; `None`: by the kind of the session.
    pub scope: Option<MemoryScopeKind>,
    /// The owner's names in direct messages.
    pub owners: Vec<String>,
}

impl ScopePolicy {
    /// How far the texts of a session reach.
    fn reach(&self, session: &SessionIdentity) -> MemoryScopeKind {
        let by_session = match session.kind {
            SessionKind::Main => MemoryScopeKind::Persona,
            SessionKind::Dm
                if session.peer.as_ref().is_some_and(|peer| self.owners.contains(peer)) =>
            {
                MemoryScopeKind::Persona
            }
            SessionKind::Dm
            | SessionKind::Group
            | SessionKind::Worker
            | SessionKind::Subagent
            | SessionKind::Fork
            | SessionKind::System
            | SessionKind::Run
            | SessionKind::Unknown => MemoryScopeKind::Session,
        };
        self.scope.unwrap_or(by_session)
    }

    /// Where the texts of a session belong.
    #[must_use]
    pub fn scope_of(&self, session: &SessionIdentity) -> MemoryScope {
        of_kind(self.reach(session), session)
    }

    /// What a session sees: its own texts, what belongs to its agent and to all; and what belongs to its persona, if its own texts reach
    /// as far.
    #[must_use]
    pub fn visible_to(&self, session: &SessionIdentity) -> Vec<MemoryScope> {
        let mut kinds =
            vec![MemoryScopeKind::Session, MemoryScopeKind::Agent, MemoryScopeKind::Global];
        if self.reach(session) == MemoryScopeKind::Persona {
            kinds.push(MemoryScopeKind::Persona);
        }
        kinds.into_iter().map(|kind| of_kind(kind, session)).collect()
    }
}

fn of_kind(kind: MemoryScopeKind, session: &SessionIdentity) -> MemoryScope {
    let id = match kind {
        MemoryScopeKind::Session => session.label.clone(),
        // Agents without personas do not share one.
        MemoryScopeKind::Persona if session.persona == DEFAULT => session.agent.clone(),
        MemoryScopeKind::Persona => session.persona.clone(),
        MemoryScopeKind::Agent => session.agent.clone(),
        MemoryScopeKind::Global => String::new(),
    };
    MemoryScope { kind, id }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::ScopePolicy;
    use model::{MemoryScope, MemoryScopeKind, SessionIdentity, SessionKey};

    fn session(label: &str, persona: &str, agent: &str) -> SessionIdentity {
        let key = SessionKey::parse(label);
        SessionIdentity {
            label: label.to_owned(),
            kind: key.kind,
            peer: key.peer,
            persona: persona.to_owned(),
            agent: agent.to_owned(),
        }
    }

    #[test]
    fn a_main_session_and_direct_messages_of_the_owner_share_a_persona_and_others_have_their_own_scope()
     {
        let policy = ScopePolicy { owners: vec!["me".to_owned()], ..ScopePolicy::default() };
        for (label, kind, id) in [
            ("agent:atlas:main", MemoryScopeKind::Persona, "atlas"),
            ("agent:atlas:dm:me", MemoryScopeKind::Persona, "atlas"),
            ("agent:atlas:dm:stranger", MemoryScopeKind::Session, "agent:atlas:dm:stranger"),
            ("agent:atlas:slack:group:g", MemoryScopeKind::Session, "agent:atlas:slack:group:g"),
            ("chat", MemoryScopeKind::Session, "chat"),
        ] {
            let scope = policy.scope_of(&session(label, "default", "atlas"));
            assert_eq!(scope, MemoryScope::new(kind, id), "{label}");
        }
    }

    #[test]
    fn a_group_does_not_see_what_belongs_to_the_persona() {
        let policy = ScopePolicy::default();
        let sees = |label: &str| {
            policy
                .visible_to(&session(label, "atlas", "atlas"))
                .iter()
                .any(|scope| scope.kind == MemoryScopeKind::Persona)
        };
        assert!(sees("agent:atlas:main"));
        assert!(!sees("agent:atlas:slack:group:g"));
        assert!(!sees("agent:atlas:dm:stranger"));
    }

    proptest! {
        #[test]
        fn a_session_sees_its_own_texts_and_those_of_another_one_only_where_they_share_a_scope(
            labels in prop::collection::vec(
                prop::sample::select(vec![
                    "agent:a:main", "agent:b:main", "agent:a:dm:me", "agent:a:dm:x", "agent:b:dm:me",
                    "agent:a:slack:group:g", "agent:b:slack:group:g", "one", "two",
                ]), 2),
            scope in prop::option::of(prop::sample::select(vec![
                MemoryScopeKind::Session, MemoryScopeKind::Persona, MemoryScopeKind::Agent,
                MemoryScopeKind::Global,
            ])),
        ) {
            let policy = ScopePolicy { scope, owners: vec!["me".to_owned()] };
            let identity = |label: &str| {
                let agent = SessionKey::parse(label).agent_id.unwrap_or_else(|| "default".to_owned());
                session(label, "default", &agent)
            };
            let (one, other) = (identity(labels[0]), identity(labels[1]));
            prop_assert!(policy.visible_to(&one).contains(&policy.scope_of(&one)));
            if policy.visible_to(&one).contains(&policy.scope_of(&other)) {
                prop_assert!(policy.scope_of(&one) == policy.scope_of(&other) || one == other
                    || policy.scope_of(&other).kind != MemoryScopeKind::Session);
                if scope.is_none() {
                    prop_assert_eq!(policy.scope_of(&one), policy.scope_of(&other));
                }
            }
        }
    }
}
