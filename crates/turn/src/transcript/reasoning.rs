//! Reasoning and its item at OpenAI Responses: each is refused without the other
//! (docs/rules/wire/openai-responses.md#pairing).
//!
//! It must never drop visible content: an item without its reasoning stays, but loses the id that would require it.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use model::{Api, Block};

/// Drops reasoning with a dropped item; from a message that lost reasoning, drops opaque items and the ids. `retained` is
/// the remainder of `blocks`, index by index.
pub(super) fn retain_pairs(api: Api, blocks: &[Block], retained: &mut [Option<Block>]) {
    if api != Api::OpenaiResponses {
        return;
    }
    if !drop_halves(blocks, retained) {
        return;
    }
    for retained in retained.iter_mut() {
        // It is unknown which of the opaque items belonged to it.
        if matches!(retained, Some(Block::Opaque { .. })) {
            *retained = None;
        }
        if let Some(Block::Text { provider_data: Some(data), .. }) = retained {
            *data = without_id(std::mem::take(data));
        }
    }
    drop_halves(blocks, retained);
}

/// Drops reasoning with a dropped item; true if an item remains without its reasoning.
fn drop_halves(blocks: &[Block], retained: &mut [Option<Block>]) -> bool {
    let mut follower = None;
    let mut lost = false;
    for (block, retained) in blocks.iter().zip(retained.iter_mut()).rev() {
        if is_reasoning(block) {
            if follower != Some(true) {
                *retained = None;
            }
            // At the end of a cut answer no item requires it.
            lost |= retained.is_none() && follower.is_some();
        } else {
            follower = Some(retained.is_some());
        }
    }
    lost
}

fn is_reasoning(block: &Block) -> bool {
    matches!(block, Block::Thinking { .. } | Block::RedactedThinking { .. })
}

/// The provider data of a text without its item's id; the phase stays.
pub(super) fn without_id(provider_data: String) -> String {
    type Fields = BTreeMap<String, Box<RawValue>>;
    let stripped = || {
        let mut data: Fields = serde_json::from_str(&provider_data).ok()?;
        let item = data.get_mut("item")?;
        let mut fields: Fields = serde_json::from_str(item.get()).ok()?;
        fields.remove("id")?;
        *item = serde_json::value::to_raw_value(&fields).ok()?;
        serde_json::to_string(&data).ok()
    };
    stripped().unwrap_or(provider_data)
}
