//! Decoding over every recorded chat case and every known oddity; encoding by whole bodies.

mod decoding;
mod encoding;
mod recordings;
mod servers;

use crate::{BlockStart, Completion, Decoder, Delta, DeltaSink, Failure, ReportedUsage, recorded};

use super::decode::ChatDecoder;

/// A decoded response, built from its deltas.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Decoded {
    pub(super) response_id: String,
    pub(super) model: String,
    pub(super) blocks: Vec<DecodedBlock>,
    pub(super) usage: Option<ReportedUsage>,
}

#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct DecodedBlock {
    pub(super) kind: &'static str,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) text: String,
    pub(super) data: String,
    pub(super) closed: bool,
}

impl Decoded {
    pub(super) fn joined(&self, kind: &str) -> String {
        self.of(kind).map(|block| block.text.as_str()).collect()
    }

    pub(super) fn of(&self, kind: &str) -> impl Iterator<Item = &DecodedBlock> {
        self.blocks.iter().filter(move |block| block.kind == kind)
    }

    /// `id name arguments`, with a `…` after a call that did not close.
    pub(super) fn calls(&self) -> Vec<String> {
        self.of("call")
            .map(|call| {
                let open = if call.closed { "" } else { "…" };
                format!("{} {} {}{open}", call.id, call.name, call.text)
            })
            .collect()
    }

    fn open(&mut self, index: u32) -> &mut DecodedBlock {
        let block = self.blocks.get_mut(index as usize).expect("a delta for a block never begun");
        assert!(!block.closed, "a delta for a closed block");
        block
    }
}

impl DeltaSink for Decoded {
    fn delta(&mut self, delta: Delta<'_>) {
        match delta {
            Delta::Started { response_id, model } => {
                assert!(self.blocks.is_empty() && self.usage.is_none(), "a late start");
                response_id.clone_into(&mut self.response_id);
                model.clone_into(&mut self.model);
            }
            Delta::BlockStart { index, start } => {
                assert_eq!(index as usize, self.blocks.len(), "blocks begin in order");
                let (kind, id, name) = match start {
                    BlockStart::Text => ("text", "", ""),
                    BlockStart::Thinking => ("thinking", "", ""),
                    BlockStart::ToolCall { id, name } => ("call", id, name),
                    BlockStart::RedactedThinking { .. } | BlockStart::Opaque { .. } => {
                        panic!("chat has no such block")
                    }
                };
                self.blocks.push(DecodedBlock {
                    kind,
                    id: id.to_owned(),
                    name: name.to_owned(),
                    ..DecodedBlock::default()
                });
            }
            Delta::Text { index, text } | Delta::Thinking { index, text } => {
                self.open(index).text.push_str(text);
            }
            Delta::Arguments { index, json } => self.open(index).text.push_str(json),
            Delta::CallIdentity { index, id, name } => {
                let block = self.open(index);
                if !id.is_empty() {
                    id.clone_into(&mut block.id);
                }
                if !name.is_empty() {
                    name.clone_into(&mut block.name);
                }
            }
            Delta::ProviderData { index, json } => json.clone_into(&mut self.open(index).data),
            Delta::BlockStop { index } => self.open(index).closed = true,
            Delta::Usage(usage) => self.usage = Some(usage),
            Delta::Signature { .. } | Delta::OpaqueJson { .. } | Delta::BecameCall { .. } => {
                panic!("of what is not known to be another's, chat has no such delta")
            }
        }
    }
}

/// Feeds events as the transport does: until the decoder has ended, then the end.
pub(super) fn decode<'a>(
    events: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> (Decoded, Result<Completion, Failure>) {
    let mut decoded = Decoded::default();
    let ended = recorded::decode(ChatDecoder::default(), events, &mut decoded);
    (decoded, ended)
}

/// Feeds the `data` of events without names.
pub(super) fn stream(data: &[&str]) -> (Decoded, Result<Completion, Failure>) {
    decode(data.iter().map(|data| ("", data.as_bytes())))
}

/// Decodes a whole body.
pub(super) fn unary(body: &[u8]) -> (Decoded, Result<Completion, Failure>) {
    let mut decoded = Decoded::default();
    let ended = ChatDecoder::default().unary(body, &mut decoded);
    (decoded, ended)
}
