//! What of an event decides its route.

use serde::{Deserialize, Serialize};

/// What kind of conversation it is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum PeerKind {
    /// With one person.
    Dm,
    /// With several.
    Group,
    /// A public one.
    Channel,
}

/// The other side of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// What kind of conversation it is.
    pub kind: PeerKind,
    /// The person, the group or the channel.
    pub id: String,
}

/// Where an event came from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoutedEvent {
    /// The platform: `telegram`, `discord`, …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The host's account on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// The other side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
    /// The guild, workspace or team that the conversation is in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guild_id: Option<String>,
    /// The thread in the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_id: Option<String>,
}
