//! The label of the session that an event belongs to (docs/rules/sessions-and-ledger.md#label-grammars).

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::event::{PeerKind, RoutedEvent};

/// Which session direct messages go to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "kebab-case")]
pub enum DmScope {
    /// All to the agent's main session.
    #[default]
    Main,
    /// Each person has a session.
    PerPeer,
}

/// The label of an event's session, for an agent. A group without a platform is in the platform `unknown`.
#[must_use]
pub fn build_session_key(agent_id: &str, event: &RoutedEvent, scope: DmScope) -> String {
    let main = || format!("agent:{agent_id}:main");
    let Some(peer) = &event.peer else { return main() };
    match (peer.kind, scope) {
        (PeerKind::Dm, DmScope::Main) => main(),
        (PeerKind::Dm, DmScope::PerPeer) => format!("agent:{agent_id}:dm:{}", part(&peer.id)),
        (PeerKind::Group | PeerKind::Channel, _) => {
            // A platform has no `:` of its own: the one before `group` separates it from the agent.
            let platform = event.channel.as_deref().map_or(Cow::Borrowed("unknown"), encoded);
            let mut label = format!("agent:{agent_id}:{platform}:group:{}", part(&peer.id));
            if let Some(thread) = &event.thread_id {
                label.push_str(":thread:");
                label.push_str(&part(thread));
            }
            label
        }
    }
}

/// The words at which a label is split. In an id of somebody else they would make one session of two.
const KEYWORDS: [&str; 7] = ["main", "dm", "group", "worker", "subagent", "thread", "persona"];

/// An id as a part of a label. Ids may have a `:`; one with a word of the grammar between its colons, or that looks encoded, is
/// encoded.
fn part(id: &str) -> Cow<'_, str> {
    if KEYWORDS.contains(&id) {
        return Cow::Owned(percent_encoded(id, |_| false));
    }
    let has_keyword = id.split(':').any(|word| KEYWORDS.contains(&word));
    let is_plain = !has_keyword && !id.contains('%') && !id.chars().any(char::is_control);
    if is_plain { Cow::Borrowed(id) } else { encoded(id) }
}

/// Encodes what separates the parts of a label, and what no label may have.
fn encoded(id: &str) -> Cow<'_, str> {
    let stays = |char: char| char != ':' && char != '%' && !char.is_control();
    if id.chars().all(stays) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(percent_encoded(id, stays))
}

fn percent_encoded(id: &str, stays: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(id.len() + 8);
    for char in id.chars() {
        if stays(char) {
            out.push(char);
            continue;
        }
        for byte in char.encode_utf8(&mut [0; 4]).bytes() {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}
