//! Which agent and which session a message is for.

mod agents;
mod bindings;
mod event;
mod session_keys;
mod smart;
mod target;
#[cfg(test)]
mod tests;

pub use agents::{AgentDirectory, AgentModel, AgentModels, PersonaDefinition, SessionScope};
pub use bindings::{Binding, BindingMatch, agent_of};
pub use event::{Peer, PeerKind, RoutedEvent};
pub use session_keys::{DmScope, build_session_key};
pub use smart::{SmartAnswer, SmartFallback, smart_route};
pub use target::{RoutingTarget, Target, TargetError};
