//! Tools that the provider runs itself (Anthropic, Bedrock): an API refuses a use without its result and a result without
//! its use (docs/rules/wire/anthropic.md#order-of-messages).
//!
//! The result may be in the next answer, if the provider paused or called a tool of the context in between. It must never
//! change a block: each stays unchanged or is left out.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::Deserialize;

use super::Target;
use super::report::Dropped;
use model::{Block, Message, Role};

/// Whether a block is a use or a result.
#[derive(Deserialize)]
struct Kind<'a> {
    #[serde(borrow, rename = "type", default)]
    kind: Cow<'a, str>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_use_id: Option<Cow<'a, str>>,
    /// Bedrock names the kind by the field.
    #[serde(borrow, default, rename = "toolUse")]
    tool_use: Option<Named<'a>>,
    #[serde(borrow, default, rename = "toolResult")]
    tool_result: Option<Named<'a>>,
}

#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow, default, rename = "toolUseId")]
    id: Option<Cow<'a, str>>,
}

enum Half {
    Use(String),
    Result(String),
}

/// Whether the text is a JSON object: anything else cannot be sent.
pub(super) fn is_object(raw_json: &str) -> bool {
    let text = model::repair_text(raw_json);
    text.trim_start().starts_with('{')
        && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok()
}

fn half(block: &Block) -> Option<Half> {
    let Block::Opaque { raw_json } = block else { return None };
    let text = model::repair_text(raw_json);
    let found: Kind<'_> = serde_json::from_str(&text).ok()?;
    let of = |id: Option<Cow<'_, str>>| id.unwrap_or_default().into_owned();
    if let Some(tool_use) = found.tool_use {
        Some(Half::Use(of(tool_use.id)))
    } else if let Some(tool_result) = found.tool_result {
        Some(Half::Result(of(tool_result.id)))
    // With or without a prefix: some gateways write tools they run as plain `tool_use` and `tool_result` blocks of one answer.
    } else if found.kind.ends_with("tool_use") {
        Some(Half::Use(of(found.id)))
    } else if found.kind.ends_with("tool_result") {
        Some(Half::Result(of(found.tool_use_id)))
    } else {
        None
    }
}

/// Whether a block has content: an empty text may carry a signature.
pub(super) fn has_content(raw_json: &str) -> bool {
    #[derive(Deserialize)]
    struct Part<'a> {
        #[serde(borrow, default)]
        text: Option<Cow<'a, str>>,
    }
    let text = model::repair_text(raw_json);
    let part: Option<Part<'_>> = serde_json::from_str(&text).ok();
    part.and_then(|part| part.text).is_none_or(|text| !text.trim().is_empty())
}

/// For each answer, the uses with results in directly following answers; `None` if such an answer may still follow.
pub(super) fn reachable(
    target: &Target,
    messages: &[Message],
    open_end: bool,
) -> Vec<Option<HashSet<String>>> {
    let mut found = Vec::with_capacity(messages.len());
    let mut next = if open_end { None } else { Some(HashSet::new()) };
    for message in messages.iter().rev() {
        let mut later = Some(HashSet::new());
        match message.role {
            Role::User | Role::System => next = Some(HashSet::new()),
            Role::Tool => {}
            Role::Assistant if !target.wrote(message.provenance.as_ref()) => {
                next = Some(HashSet::new());
            }
            Role::Assistant => {
                let calls =
                    message.blocks.iter().any(|block| matches!(block, Block::ToolCall { .. }));
                if calls || target.continues(message) {
                    later.clone_from(&next);
                } else {
                    // The answer is complete: another message precedes the next one.
                    next = Some(HashSet::new());
                }
                if let Some(next) = &mut next {
                    let halves = message.blocks.iter().filter_map(half);
                    next.extend(halves.filter_map(|half| match half {
                        Half::Result(id) => Some(id),
                        Half::Use(_) => None,
                    }));
                }
            }
        }
        found.push(later);
    }
    found.reverse();
    found
}

/// The use that a call names as its caller.
fn caller(provider_data: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Data<'a> {
        #[serde(borrow, default)]
        caller: Option<Caller<'a>>,
    }
    #[derive(Deserialize)]
    struct Caller<'a> {
        #[serde(borrow, default)]
        tool_id: Option<Cow<'a, str>>,
    }
    let text = model::repair_text(provider_data);
    let data: Data<'_> = serde_json::from_str(&text).ok()?;
    data.caller?.tool_id.map(Cow::into_owned)
}

/// Leaves out results without a use and uses without a result; a call loses the name of a missing use. `waiting` are the
/// uses of earlier answers without a result, extended by those of this one; `later` decides whether a use may still wait.
pub(super) fn retain_pairs(
    blocks: &mut Vec<Block>,
    waiting: &mut HashSet<String>,
    later: impl Fn(&str) -> bool,
    dropped: &mut Dropped,
) {
    let halves: Vec<Option<Half>> = blocks.iter().map(half).collect();
    let answered_after = |at: usize, id: &str| {
        halves.iter().skip(at + 1).flatten().any(|half| match half {
            Half::Result(answers) => answers == id,
            Half::Use(_) => false,
        })
    };
    let mut begun = waiting.clone();
    let mut at = 0;
    blocks.retain_mut(|block| {
        let stays = match halves.get(at).and_then(Option::as_ref) {
            None => true,
            Some(Half::Use(id)) => {
                let stays = !begun.contains(id) && (answered_after(at, id) || later(id));
                if stays {
                    begun.insert(id.clone());
                    waiting.insert(id.clone());
                }
                stays
            }
            Some(Half::Result(id)) => waiting.remove(id),
        };
        at += 1;
        if let Block::ToolCall { provider_data, .. } = block
            && let Some(by) = provider_data.as_deref().and_then(caller)
            && !begun.contains(&by)
        {
            *provider_data = None;
        }
        if !stays {
            dropped.count(block);
        }
        stays
    });
}
