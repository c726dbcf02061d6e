//! The provider data of a part, so that it can be sent back. It must never change a signature.

use super::wire::Part;
use crate::json::write_string;
use crate::{Delta, DeltaSink};

/// Emits the provider data of a part, if there is any.
pub(super) fn attach(index: u32, part: &Part<'_>, beside: &str, sink: &mut dyn DeltaSink) {
    if let Some(json) = attachment(part, beside) {
        sink.delta(Delta::ProviderData { index, json: &json });
    }
}

/// The provider data of a part: its signature, and the unknown members of the call and of the part.
pub(super) fn attachment(part: &Part<'_>, beside: &str) -> Option<String> {
    let signature = part.thought_signature.as_str();
    let mut first = Vec::new();
    if !signature.is_empty() {
        first.extend_from_slice(b"\"thoughtSignature\":");
        write_string(&mut first, signature);
    }
    if !beside.is_empty() {
        if !first.is_empty() {
            first.push(b',');
        }
        first.extend_from_slice(beside.as_bytes());
    }
    part.more.object(&String::from_utf8(first).ok()?)
}
