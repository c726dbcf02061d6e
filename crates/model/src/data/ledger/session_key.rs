//! The parts of a session's label, where it follows one of the grammars of docs/rules/sessions-and-ledger.md#label-grammars.
//!
//! A label stays an opaque key: nothing here may change one, and none is refused.

use serde::Serialize;

/// What kind of session a label names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum SessionKind {
    /// `agent:<id>:main`
    Main,
    /// `agent:<id>:dm:<peer>`, `dm:<entity>[:persona:<p>]`
    Dm,
    /// `agent:<id>:<platform>:group:<id>[:thread:<id>]`, `group:<platform>:<container>[:persona:<p>][:thread:<t>]`
    Group,
    /// `agent:<id>:worker:<uuid>`, `worker:<ulid>`
    Worker,
    /// `agent:<id>:subagent:<uuid>`
    Subagent,
    /// `fork-<ulid>`
    Fork,
    /// `system:<purpose>`
    System,
    /// `run:<ulid>`: a run in no session.
    Run,
    /// None of these.
    Unknown,
}

impl SessionKind {
    /// Whether nobody talks to it directly: it works for another session.
    #[must_use]
    pub fn is_worker(self) -> bool {
        match self {
            Self::Worker | Self::Subagent => true,
            Self::Main
            | Self::Dm
            | Self::Group
            | Self::Fork
            | Self::System
            | Self::Run
            | Self::Unknown => false,
        }
    }
}

/// The parts of a session's label. Parts that the label lacks are null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct SessionKey {
    /// What kind of session it is.
    pub kind: SessionKind,
    /// The agent.
    pub agent_id: Option<String>,
    /// Where a group is: `telegram`, `discord`, …
    pub platform: Option<String>,
    /// The group.
    pub container: Option<String>,
    /// The other person of a direct conversation.
    pub peer: Option<String>,
    /// The thread in the group.
    pub thread_id: Option<String>,
    /// The persona.
    pub persona_id: Option<String>,
    /// The ULID or UUID of a worker, a subagent, a fork or a run; the purpose of a system session.
    pub id: Option<String>,
}

impl SessionKey {
    fn of(kind: SessionKind) -> Self {
        Self {
            kind,
            agent_id: None,
            platform: None,
            container: None,
            peer: None,
            thread_id: None,
            persona_id: None,
            id: None,
        }
    }

    /// Reads a label. Ids may contain `:`: it is split only at keywords, from the right.
    #[must_use]
    pub fn parse(label: &str) -> Self {
        Self::known(label).unwrap_or_else(|| {
            // It still has an agent, whatever follows.
            let agent = label.strip_prefix("agent:").and_then(|rest| rest.split(':').next());
            Self { agent_id: agent.and_then(text), ..Self::of(SessionKind::Unknown) }
        })
    }

    fn known(label: &str) -> Option<Self> {
        if let Some(rest) = label.strip_prefix("agent:") {
            return Self::agent(rest);
        }
        if let Some(rest) = label.strip_prefix("dm:") {
            let (peer, persona_id) = suffix(rest, ":persona:");
            return Some(Self { peer: Some(text(peer)?), persona_id, ..Self::of(SessionKind::Dm) });
        }
        if let Some(rest) = label.strip_prefix("group:") {
            let (platform, rest) = rest.split_once(':')?;
            let (rest, thread_id) = suffix(rest, ":thread:");
            let (container, persona_id) = suffix(rest, ":persona:");
            return Some(Self {
                platform: Some(text(platform)?),
                container: Some(text(container)?),
                persona_id,
                thread_id,
                ..Self::of(SessionKind::Group)
            });
        }
        let (kind, id) = if let Some(id) = label.strip_prefix("worker:") {
            (SessionKind::Worker, id)
        } else if let Some(id) = label.strip_prefix("system:") {
            (SessionKind::System, id)
        } else if names_no_session(label) {
            (SessionKind::Run, label.strip_prefix(RUN)?)
        } else {
            (SessionKind::Fork, label.strip_prefix("fork-")?)
        };
        Some(Self { id: Some(text(id)?), ..Self::of(kind) })
    }

    /// The part after `agent:`. The keyword furthest to the right decides.
    fn agent(rest: &str) -> Option<Self> {
        if let Some(agent) = rest.strip_suffix(":main") {
            return Some(Self { agent_id: Some(text(agent)?), ..Self::of(SessionKind::Main) });
        }
        let keywords = [
            (":dm:", SessionKind::Dm),
            (":group:", SessionKind::Group),
            (":worker:", SessionKind::Worker),
            (":subagent:", SessionKind::Subagent),
        ];
        let (before, kind, after) = keywords
            .into_iter()
            .filter_map(|(keyword, kind)| {
                let (before, after) = rest.rsplit_once(keyword)?;
                Some((before, kind, after))
            })
            .max_by_key(|(before, ..)| before.len())?;
        let key = Self::of(kind);
        if kind == SessionKind::Group {
            let (agent, platform) = before.rsplit_once(':')?;
            let (container, thread_id) = suffix(after, ":thread:");
            return Some(Self {
                agent_id: Some(text(agent)?),
                platform: Some(text(platform)?),
                container: Some(text(container)?),
                thread_id,
                ..key
            });
        }
        let (agent_id, after) = (Some(text(before)?), Some(text(after)?));
        Some(if kind == SessionKind::Dm {
            Self { agent_id, peer: after, ..key }
        } else {
            Self { agent_id, id: after, ..key }
        })
    }
}

/// Removes an optional `keyword` and its value from the end.
fn suffix<'a>(label: &'a str, keyword: &str) -> (&'a str, Option<String>) {
    match label.rsplit_once(keyword) {
        Some((before, value)) if !before.is_empty() && !value.is_empty() => {
            (before, Some(value.to_owned()))
        }
        Some(_) | None => (label, None),
    }
}

/// What the label of a run in no session begins with; the ULID of the run follows.
const RUN: &str = "run:";

/// Whether a label is that of a run in no session (docs/rules/sessions-and-ledger.md#runs-without-a-session): `run:` and a ULID.
#[must_use]
pub fn names_no_session(label: &str) -> bool {
    let id = label.strip_prefix(RUN).unwrap_or_default().as_bytes();
    let digit =
        |byte: &u8| byte.is_ascii_digit() || (byte.is_ascii_uppercase() && !b"ILOU".contains(byte));
    id.len() == 26 && id.iter().all(digit)
}

fn text(part: &str) -> Option<String> {
    (!part.is_empty()).then(|| part.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{SessionKey, SessionKind};
    use proptest::prelude::*;

    /// The kind, then agent, platform, container, peer, thread, persona, id; `-` for an absent part.
    fn parts(label: &str) -> String {
        let key = SessionKey::parse(label);
        let fields = [
            key.agent_id,
            key.platform,
            key.container,
            key.peer,
            key.thread_id,
            key.persona_id,
            key.id,
        ];
        let fields: Vec<String> =
            fields.into_iter().map(|field| field.unwrap_or_else(|| "-".to_owned())).collect();
        format!("{:?} {}", key.kind, fields.join(" "))
    }

    #[test]
    fn every_grammar_of_the_rules_is_read() {
        for (label, expected) in [
            ("agent:atlas:main", "Main atlas - - - - - -"),
            ("agent:atlas:dm:+49:1", "Dm atlas - - +49:1 - - -"),
            ("agent:a:b:telegram:group:-100", "Group a:b telegram -100 - - - -"),
            ("agent:a:discord:group:g:1:thread:t", "Group a discord g:1 - t - -"),
            ("agent:a:worker:w1", "Worker a - - - - - w1"),
            ("agent:a:subagent:s1", "Subagent a - - - - - s1"),
            ("agent:a:subagent:s1:subagent:s2", "Subagent a:subagent:s1 - - - - - s2"),
            ("dm:user@host:1", "Dm - - - user@host:1 - - -"),
            ("dm:user:persona:atlas", "Dm - - - user - atlas -"),
            ("group:slack:C1", "Group - slack C1 - - - -"),
            ("group:slack:C1:persona:p:thread:171.2", "Group - slack C1 - 171.2 p -"),
            ("group:slack:C:1:thread:t", "Group - slack C:1 - t - -"),
            ("worker:01J", "Worker - - - - - - 01J"),
            ("system:cron:daily", "System - - - - - - cron:daily"),
            ("fork-01J", "Fork - - - - - - 01J"),
            ("run:01JZ8Q2T3V4W5X6Y7Z8A9B0CDE", "Run - - - - - - 01JZ8Q2T3V4W5X6Y7Z8A9B0CDE"),
            ("run:01JZ8Q2T3V4W5X6Y7Z8A9B0CDI", "Unknown - - - - - - -"),
            ("run:nightly", "Unknown - - - - - - -"),
            ("agent:a:cron:x", "Unknown a - - - - - -"),
            ("agent::main", "Unknown - - - - - - -"),
            ("agent:", "Unknown - - - - - - -"),
            ("dm:", "Unknown - - - - - - -"),
            ("dm:x:persona:", "Dm - - - x:persona: - - -"),
            ("group:slack", "Unknown - - - - - - -"),
            ("Agent:a:main", "Unknown - - - - - - -"),
            ("fork-", "Unknown - - - - - - -"),
            ("", "Unknown - - - - - - -"),
        ] {
            assert_eq!(parts(label), expected, "{label}");
        }
    }

    proptest! {
        #[test]
        fn a_label_built_from_ids_with_colons_is_read_back(
            agent in "[a-z]{1,4}(:[0-9]{1,3}){0,2}", peer in "[a-z+]{1,4}(:[0-9]{1,3}){0,2}",
        ) {
            // A peer that begins like a keyword can be read in two ways.
            prop_assume!(!peer.starts_with("dm:"));
            let key = SessionKey::parse(&format!("agent:{agent}:dm:{peer}"));
            prop_assert_eq!(key.kind, SessionKind::Dm);
            prop_assert_eq!((key.agent_id, key.peer), (Some(agent), Some(peer)));
        }

        #[test]
        fn no_label_is_refused_and_no_part_is_empty(label in "(agent|dm|group|:|main|thread|persona|[a-zé]){0,12}") {
            let key = SessionKey::parse(&label);
            let parts = [key.agent_id, key.platform, key.container, key.peer, key.thread_id, key.persona_id, key.id];
            prop_assert!(parts.into_iter().flatten().all(|part| !part.is_empty() && label.contains(&part)));
        }
    }
}
