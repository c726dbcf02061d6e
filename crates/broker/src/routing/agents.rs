//! The configured agents, and which of them a session belongs to.
//!
//! It must never decide what an agent may do: that is its roles and its toolset.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::bindings::{Binding, agent_of};
use super::event::{Peer, PeerKind, RoutedEvent};
use super::session_keys::DmScope;
use model::{SessionKey, SessionKind};

/// The agent where none is named.
const MAIN: &str = "main";

/// The models of an agent, as a host configures them.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentModels {
    /// The model's id, or `provider/model`.
    #[serde(default)]
    pub model: Option<String>,
    /// The provider's name.
    #[serde(default)]
    pub provider: Option<String>,
    /// The models to use when this one fails, in order: ids, or `{ provider, model }`.
    #[serde(default)]
    pub fallbacks: Option<Vec<Value>>,
}

/// A persona: an agent with a main session of its own.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PersonaDefinition {
    /// The agent.
    pub agent_id: String,
    /// The label of its main session. Default: `agent:<persona>:main`.
    #[serde(default)]
    pub main_session: Option<String>,
    /// The files of its agent's workspace that are in its prompt, in their order.
    #[serde(default)]
    pub files: Option<Vec<String>>,
}

/// What a session's label says about its prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionScope {
    /// Its agent.
    pub agent_id: String,
    /// The files that its persona names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
    /// Whether it is the main session of an agent or of a persona.
    pub is_main: bool,
    /// Whether it works for another session.
    pub is_worker: bool,
}

/// All agents of a broker.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgentDirectory {
    /// By id.
    #[serde(default)]
    pub agents: BTreeMap<String, AgentModels>,
    /// What an agent has where its own definition has nothing.
    #[serde(default)]
    pub defaults: AgentModels,
    /// The agent of what no binding matches. Default: `main`, or the only agent.
    #[serde(default)]
    pub default_agent: Option<String>,
    /// Which events an agent has.
    #[serde(default)]
    pub bindings: Vec<Binding>,
    /// By id.
    #[serde(default)]
    pub personas: BTreeMap<String, PersonaDefinition>,
    /// Which sessions direct messages go to.
    #[serde(default)]
    pub dm_scope: DmScope,
}

/// The models of an agent, in the order in which they are tried.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
pub struct AgentModel {
    /// The provider's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model's id.
    pub model: String,
    /// The models to use when it fails.
    #[cfg_attr(feature = "testing", ts(type = "(string | ModelName)[]"))]
    pub fallbacks: Vec<Value>,
}

impl AgentDirectory {
    /// The ids of the agents, in alphabetical order.
    #[must_use]
    pub fn agent_ids(&self) -> Vec<&str> {
        self.agents.keys().map(String::as_str).collect()
    }

    /// The agent of what no binding matches.
    #[must_use]
    pub fn default_agent_id(&self) -> &str {
        if let Some(id) = &self.default_agent {
            return id;
        }
        match self.agents.keys().next() {
            Some(only) if self.agents.len() == 1 => only,
            Some(_) | None => MAIN,
        }
    }

    /// The agent of an event.
    #[must_use]
    pub fn event_agent_id(&self, event: &RoutedEvent) -> &str {
        agent_of(&self.bindings, event).unwrap_or_else(|| self.default_agent_id())
    }

    /// The agent of a session: the one that its label names, if it is configured; its persona's; the one whose binding matches
    /// where the label says the session is; the default.
    #[must_use]
    pub fn session_agent_id(&self, label: &str) -> &str {
        let key = SessionKey::parse(label);
        if let Some((id, _)) = key.agent_id.as_deref().and_then(|id| self.agents.get_key_value(id))
        {
            return id;
        }
        match self.session_persona(label, &key) {
            Some(persona) => &persona.agent_id,
            None => self.event_agent_id(&event_of(&key)),
        }
    }

    /// The persona of a session. The default label of a persona's main session has the persona where other labels have the
    /// agent.
    fn session_persona(&self, label: &str, key: &SessionKey) -> Option<&PersonaDefinition> {
        let named = key.persona_id.as_deref().or(key.agent_id.as_deref());
        let of_label =
            || self.personas.values().find(|it| it.main_session.as_deref() == Some(label));
        named.and_then(|id| self.personas.get(id)).or_else(of_label)
    }

    /// What a session's label says about its prompt.
    #[must_use]
    pub fn session_scope(&self, label: &str) -> SessionScope {
        let key = SessionKey::parse(label);
        let is_persona_main =
            self.personas.values().any(|it| it.main_session.as_deref() == Some(label));
        SessionScope {
            agent_id: self.session_agent_id(label).to_owned(),
            files: self.session_persona(label, &key).and_then(|it| it.files.clone()),
            is_main: key.kind == SessionKind::Main || label == MAIN || is_persona_main,
            is_worker: key.kind.is_worker(),
        }
    }

    /// An agent's models, from its own definition and then from the defaults; `None` where neither has a model.
    #[must_use]
    pub fn agent_model(&self, id: &str) -> Option<AgentModel> {
        let own = self.agents.get(id)?;
        let defaults = &self.defaults;
        // A model of its own does not belong to the provider of another one.
        let (model, provider) = match &own.model {
            Some(model) => (model, own.provider.as_ref()),
            None => {
                (defaults.model.as_ref()?, own.provider.as_ref().or(defaults.provider.as_ref()))
            }
        };
        let named =
            model.split_once('/').filter(|(provider, id)| !provider.is_empty() && !id.is_empty());
        let (provider, model) = match (provider, named) {
            (None, Some((provider, model))) => (Some(provider.to_owned()), model),
            (provider, _) => (provider.cloned(), model.as_str()),
        };
        let fallbacks =
            own.fallbacks.as_ref().or(defaults.fallbacks.as_ref()).cloned().unwrap_or_default();
        Some(AgentModel { provider, model: model.to_owned(), fallbacks })
    }

    /// The label of a persona's main session; `None` where the persona is not configured.
    #[must_use]
    pub fn persona_session(&self, id: &str) -> Option<String> {
        let persona = self.personas.get(id)?;
        Some(persona.main_session.clone().unwrap_or_else(|| format!("agent:{id}:main")))
    }
}

/// Where a label says that its session is.
fn event_of(key: &SessionKey) -> RoutedEvent {
    let peer = match key.kind {
        SessionKind::Dm => key.peer.clone().map(|id| Peer { kind: PeerKind::Dm, id }),
        SessionKind::Group => key.container.clone().map(|id| Peer { kind: PeerKind::Group, id }),
        SessionKind::Main
        | SessionKind::Worker
        | SessionKind::Subagent
        | SessionKind::Fork
        | SessionKind::System
        | SessionKind::Run
        | SessionKind::Unknown => None,
    };
    RoutedEvent {
        channel: key.platform.clone(),
        peer,
        thread_id: key.thread_id.clone(),
        ..RoutedEvent::default()
    }
}
