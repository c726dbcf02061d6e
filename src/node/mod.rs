//! The napi shell: the only module that knows JavaScript. `index.js` is the public face over it.
//!
//! It must never decide anything about a run. Structured data crosses as JSON text. There is no `async fn(&self)`, because
//! a worker that ends frees what such a future borrows (docs/rules/node-boundary.md#no-borrowed-futures).

mod approvals;
mod backend;
mod broker;
mod compaction;
mod engine;
mod errors;
mod events;
mod hosts;
mod hub;
mod input;
mod ledger;
mod options;
mod patches;
mod pending;
mod profiles;
mod reading;
mod recovery;
mod reply;
mod workspace;
