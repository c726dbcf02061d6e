//! Which agent an event is for: the most specific binding that matches it (docs/rules/routing.md#bindings).

use serde::{Deserialize, Serialize};

use super::event::{Peer, RoutedEvent};

/// Any account.
const ANY: &str = "*";

/// The events of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Binding {
    /// The agent.
    pub agent_id: String,
    /// Which events; all that is given must match.
    #[serde(rename = "match")]
    pub matching: BindingMatch,
}

/// What an event must be to match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BindingMatch {
    /// The platform.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// The host's account; `*` for any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_id: Option<String>,
    /// The other side of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<Peer>,
    /// The guild.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guild_id: Option<String>,
}

/// How specific a binding is: the first is the most specific.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Specificity {
    Peer,
    Guild,
    Account,
    Channel,
    AnyAccount,
}

impl BindingMatch {
    fn specificity(&self) -> Specificity {
        let account = self.account_id.as_deref();
        if self.peer.is_some() {
            Specificity::Peer
        } else if self.guild_id.is_some() {
            Specificity::Guild
        } else if account.is_some_and(|account| account != ANY) {
            Specificity::Account
        } else if self.channel.is_some() && account.is_none() {
            Specificity::Channel
        } else {
            Specificity::AnyAccount
        }
    }

    fn matches(&self, event: &RoutedEvent) -> bool {
        let account = self.account_id.as_deref().filter(|account| *account != ANY);
        same(self.channel.as_deref(), event.channel.as_deref())
            && same(account, event.account_id.as_deref())
            && same(self.guild_id.as_deref(), event.guild_id.as_deref())
            && self.peer.as_ref().is_none_or(|peer| event.peer.as_ref() == Some(peer))
    }
}

fn same(wanted: Option<&str>, given: Option<&str>) -> bool {
    wanted.is_none_or(|wanted| given == Some(wanted))
}

/// The agent of the most specific binding that matches; of equal ones, of the first.
#[must_use]
pub fn agent_of<'a>(bindings: &'a [Binding], event: &RoutedEvent) -> Option<&'a str> {
    bindings
        .iter()
        .filter(|binding| binding.matching.matches(event))
        .min_by_key(|binding| binding.matching.specificity())
        .map(|binding| binding.agent_id.as_str())
}
