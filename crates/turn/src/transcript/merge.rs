//! User merge: consecutive user messages become one, and nothing is dropped (docs/rules/projection.md#user-merge).
//!
//! It must never merge anything but user messages; the order of merging must not matter.

#[cfg(test)]
use model::Api;
use model::{Block, Message, Role};

/// Whether two pieces must be joined and encoded together, because the API requires one message at their border. The
/// roles are those of projected messages; an empty piece has no border.
///
/// Two assistant messages are never joined: the first was sent unchanged (a paused answer), and its bytes stay.
#[cfg(test)]
pub(crate) fn needs_merge(prev_last_role: Role, next_first_role: Role, api: Api) -> bool {
    let users = prev_last_role == Role::User && next_first_role == Role::User;
    match api {
        // There tool results are in a user message, and the user's text follows them in the same message.
        Api::AnthropicMessages | Api::GoogleGenerativeAi | Api::BedrockConverse => {
            users || (prev_last_role == Role::Tool && next_first_role == Role::User)
        }
        Api::OpenaiChat | Api::OpenaiResponses | Api::Scripted => users,
    }
}

/// Appends a projected piece, merging at the border.
pub fn join(transcript: &mut Vec<Message>, piece: Vec<Message>) {
    for message in piece {
        push(transcript, message);
    }
}

/// Appends one message, merging it into a user message before it.
pub(super) fn push(transcript: &mut Vec<Message>, message: Message) {
    match transcript.last_mut() {
        Some(last) if last.role == Role::User && message.role == Role::User => {
            append(&mut last.blocks, message.blocks);
        }
        _ => transcript.push(message),
    }
}

/// Joins text with text by a blank line; everything else stays a block of its own.
fn append(blocks: &mut Vec<Block>, more: Vec<Block>) {
    let mut more = more.into_iter();
    match (blocks.last_mut(), more.next()) {
        (
            Some(Block::Text { text, provider_data: None, origin: None }),
            Some(Block::Text { text: next, provider_data: None, origin: None }),
        ) => {
            text.push_str("\n\n");
            text.push_str(&next);
        }
        (_, Some(next)) => blocks.push(next),
        (_, None) => {}
    }
    blocks.extend(more);
}

#[cfg(test)]
mod tests {
    use super::push;
    use model::samples::message;
    use model::{Block, BlockOrigin, Role};

    #[test]
    fn a_text_that_the_host_put_into_a_message_stays_a_block_of_its_own() {
        let event = || Block::injected(BlockOrigin::Event, "<event>");
        let mut transcript = Vec::new();
        for text in ["a", "b"] {
            push(&mut transcript, message(Role::User, vec![event(), Block::text(text)]));
        }
        push(&mut transcript, message(Role::User, vec![Block::text("c")]));
        let blocks: Vec<Block> = transcript.into_iter().flat_map(|it| it.blocks).collect();
        assert_eq!(blocks, [event(), Block::text("a"), event(), Block::text("b\n\nc")]);
    }
}
