//! What servers need of the engine. It must never know an engine.

use std::pin::Pin;
use std::sync::Arc;

use super::answerer::ClientHost;
use base::clock::Clock;
use provider::{HttpClient, KeyHost};

/// Runs a task of the engine.
pub type Spawn = Arc<dyn Fn(Pin<Box<dyn Future<Output = ()> + Send>>) + Send + Sync>;

/// Why a schema cannot be used, if so. Called on a blocking thread.
pub type SchemaCheck = Arc<dyn Fn(&str) -> Result<(), String> + Send + Sync>;

/// What servers need of the engine.
#[derive(Clone)]
pub struct ServerParts {
    /// Time.
    pub clock: Clock,
    /// Its tasks.
    pub spawn: Spawn,
    /// Its schemas.
    pub check: SchemaCheck,
    /// Its connections.
    pub client: Arc<HttpClient>,
    /// The functions that give tokens.
    pub keys: Option<Arc<dyn KeyHost>>,
    /// The functions that answer what servers ask.
    pub client_host: Option<Arc<dyn ClientHost>>,
}
