//! Reasoning and the item it led to, at OpenAI Responses: each is refused without the other (docs/rules/wire/openai-responses.md#pairing).
//!
//! It must never drop what is visible: without its reasoning an item stays, but loses the id by which it would be missed.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use model::{Api, Block};

/// Drops reasoning whose item was dropped, and from a message that lost reasoning the provider's own items and the ids.
/// `retained` is what is left of `blocks`, index by index.
pub(super) fn retain_pairs(api: Api, blocks: &[Block], retained: &mut [Option<Block>]) {
    if api != Api::OpenaiResponses {
        return;
    }
    if !drop_halves(blocks, retained) {
        return;
    }
    for retained in retained.iter_mut() {
        // Which of the provider's own items belonged to it is not known.
        if matches!(retained, Some(Block::Opaque { .. })) {
            *retained = None;
        }
        if let Some(Block::Text { provider_data: Some(data), .. }) = retained {
            *data = without_id(std::mem::take(data));
        }
    }
    drop_halves(blocks, retained);
}

/// Drops reasoning whose item is dropped; true where an item is left without its reasoning.
fn drop_halves(blocks: &[Block], retained: &mut [Option<Block>]) -> bool {
    let mut follower = None;
    let mut lost = false;
    for (block, retained) in blocks.iter().zip(retained.iter_mut()).rev() {
        if is_reasoning(block) {
            if follower != Some(true) {
                *retained = None;
            }
            // At the end of an answer that was cut there is no item to miss it.
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

/// What is stored with a text without its item's id; its phase stays.
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
