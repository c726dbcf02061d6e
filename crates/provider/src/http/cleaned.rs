//! A sink that removes live keys from what a server sends beside the model's own text: ids, names, opaque blocks. It must
//! never change the text that the model writes.

use std::task::{Context, Poll};

use crate::redact::LiveKeys;
use model::{BlockStart, Delta, DeltaSink, Failure, RateLimits};

/// The sink of one attempt.
pub(super) struct Cleaned<'a> {
    pub(super) sink: &'a mut dyn DeltaSink,
    pub(super) keys: &'a LiveKeys,
}

impl DeltaSink for Cleaned<'_> {
    fn answered(&mut self, status: u16, limits: &RateLimits) {
        self.sink.answered(status, limits);
    }

    fn delta(&mut self, delta: Delta<'_>) {
        let keys = self.keys;
        match delta {
            Delta::Started { response_id, model } => {
                let (response_id, model) = (keys.clean(response_id), keys.clean(model));
                self.sink.delta(Delta::Started { response_id: &response_id, model: &model });
            }
            Delta::BlockStart { index, start } => match start {
                BlockStart::Text | BlockStart::Thinking => {
                    self.sink.delta(Delta::BlockStart { index, start });
                }
                BlockStart::RedactedThinking { data } => {
                    let start = BlockStart::RedactedThinking { data: &keys.clean(data) };
                    self.sink.delta(Delta::BlockStart { index, start });
                }
                BlockStart::ToolCall { id, name } => {
                    let (id, name) = (keys.clean(id), keys.clean(name));
                    let start = BlockStart::ToolCall { id: &id, name: &name };
                    self.sink.delta(Delta::BlockStart { index, start });
                }
                BlockStart::Opaque { raw_json } => {
                    let start = BlockStart::Opaque { raw_json: &keys.clean_json(raw_json) };
                    self.sink.delta(Delta::BlockStart { index, start });
                }
            },
            Delta::Signature { index, signature } => {
                self.sink.delta(Delta::Signature { index, signature: &keys.clean(signature) });
            }
            Delta::CallIdentity { index, id, name } => {
                let (id, name) = (keys.clean(id), keys.clean(name));
                self.sink.delta(Delta::CallIdentity { index, id: &id, name: &name });
            }
            Delta::BecameCall { index, id, name } => {
                let (id, name) = (keys.clean(id), keys.clean(name));
                self.sink.delta(Delta::BecameCall { index, id: &id, name: &name });
            }
            Delta::ProviderData { index, json } => {
                self.sink.delta(Delta::ProviderData { index, json: &keys.clean_json(json) });
            }
            Delta::OpaqueJson { index, json } => {
                self.sink.delta(Delta::OpaqueJson { index, json: &keys.clean_json(json) });
            }
            Delta::Text { .. }
            | Delta::Thinking { .. }
            | Delta::Arguments { .. }
            | Delta::BlockStop { .. }
            | Delta::Usage(_) => self.sink.delta(delta),
        }
    }

    fn withheld(&mut self, index: u32, bytes: usize) {
        self.sink.withheld(index, bytes);
    }

    fn refusal(&self) -> Option<Failure> {
        self.sink.refusal()
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.sink.poll_ready(cx)
    }
}
