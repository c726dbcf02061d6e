//! HTTP: moves bytes between a socket and the encoder and decoder of an API.
//!
//! It must never retry, follow a redirect, or know an API's JSON.

mod body;
mod cleaned;
mod client;
mod content;
mod counting;
mod credential;
mod endpoint;
mod errors;
mod guard;
mod headers;
mod limits;
mod provider;
mod settings;
mod signing;
mod sniff;
#[cfg(test)]
mod tests;
mod transport;

pub use client::HttpClient;
pub(crate) use client::{Connection, authorities, proxy};
pub use endpoint::{Endpoint, EndpointAnswer, EndpointSettings, EndpointToken, Sent};
pub(crate) use guard::{BaseUrl, add_header, header_value};
pub use headers::TurnHeaders;
pub(crate) use limits::Timeouts;
pub use provider::HttpProvider;
pub(crate) use settings::HttpSettings;
