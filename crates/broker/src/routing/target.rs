//! What a message is sent to: exactly one of a thread, a session and a persona, or an event whose bindings decide.

use serde::{Deserialize, Serialize};

use super::event::RoutedEvent;

/// Where a message goes, as the host writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(deny_unknown_fields)]
pub struct RoutingTarget {
    /// A turn: its conversation goes on from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// A session, by its label or an alias.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// A persona: its main session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persona: Option<String>,
    /// Where the message came from: the bindings decide which agent, and the session's label is built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<RoutedEvent>,
    /// Whether the host's smart route is tried first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub smart: Option<bool>,
}

/// A target that names one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// A turn.
    Thread(&'a str),
    /// A session.
    Session(&'a str),
    /// A persona.
    Persona(&'a str),
    /// An event.
    Event(&'a RoutedEvent),
}

/// Why a target is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetError {
    /// It names nothing.
    Nothing,
    /// It names more than one thing.
    Several,
    /// What it names is an empty text.
    Empty(&'static str),
}

impl RoutingTarget {
    /// What it names, thread before session before persona before event.
    ///
    /// # Errors
    ///
    /// Where it does not name exactly one thing.
    pub fn target(&self) -> Result<Target<'_>, TargetError> {
        let names =
            [("thread", &self.thread), ("session", &self.session), ("persona", &self.persona)];
        if let Some((field, _)) = names.iter().find(|(_, it)| it.as_deref() == Some("")) {
            return Err(TargetError::Empty(field));
        }
        let mut all = [
            self.thread.as_deref().map(Target::Thread),
            self.session.as_deref().map(Target::Session),
            self.persona.as_deref().map(Target::Persona),
            self.event.as_ref().map(Target::Event),
        ]
        .into_iter()
        .flatten();
        let target = all.next().ok_or(TargetError::Nothing)?;
        if all.next().is_some() { Err(TargetError::Several) } else { Ok(target) }
    }
}
