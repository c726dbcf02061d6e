//! The encoded conversations of given histories, so that the unchanged beginning of a history is projected and encoded once.
//!
//! A stored conversation ends before an answer that follows a user's message or results: continued from there, it equals the
//! conversation of the whole history (`Conversation::can_be_split`). It must never be used for a history with other messages
//! up to that point, nor for another model or other pruned results.

use std::sync::Arc;

use super::conversation::Conversation;
use super::conversion::convert;
use base::recent::Recent;
use model::{Api, Block, GivenHistory, Message, Role};
use provider::Provider;
use turn::prune::Pruned;
use turn::transcript::Target;

/// Bytes of all stored conversations and their histories.
const MAX_BYTES: usize = 64 << 20;

/// The histories that share their first message, for one model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    /// The address of the first message, which the stored history keeps allocated.
    first: usize,
    api: Api,
    provider: String,
    model: String,
    /// The number of pruned results: a count of tokens prunes none, and must not replace the conversation of a run.
    pruned: usize,
}

impl Key {
    /// The key of a history; `None` for an empty one.
    fn of(history: &GivenHistory, target: &Target, pruned: &Pruned) -> Option<Self> {
        Some(Self {
            first: history.address()?,
            api: target.api,
            provider: target.provider.clone(),
            model: target.model.clone(),
            pruned: pruned.len(),
        })
    }
}

/// A conversation with its history.
struct Beginning {
    history: GivenHistory,
    conversation: Conversation,
}

/// Conversations by key, the oldest evicted first. Clones share them.
#[derive(Clone)]
pub(crate) struct GivenConversations(Arc<Recent<Key, Arc<Beginning>>>);

impl Default for GivenConversations {
    fn default() -> Self {
        Self(Arc::new(Recent::new(usize::MAX, MAX_BYTES)))
    }
}

impl GivenConversations {
    /// Like [`Self::conversation`], on a blocking thread if a large part of the history has to be encoded.
    pub(crate) async fn prepare(
        &self,
        history: &GivenHistory,
        target: Target,
        provider: Arc<dyn Provider>,
        pruned: Pruned,
    ) -> Conversation {
        let stored = self.stored(history, &target, &pruned);
        let bytes = history.bytes_after(stored.map_or(0, |stored| stored.history.len()));
        let (conversations, history) = (self.clone(), history.clone());
        let work =
            move || conversations.conversation(&history, &target, provider.as_ref(), &pruned);
        convert(bytes, work).await
    }

    /// The conversation of a given history, with these results pruned.
    pub(super) fn conversation(
        &self,
        history: &GivenHistory,
        target: &Target,
        provider: &dyn Provider,
        pruned: &Pruned,
    ) -> Conversation {
        let new = || Conversation::pruned(target.clone(), 0, pruned.clone());
        let Some(key) = Key::of(history, target, pruned) else { return new() };
        let continued = match &self.stored(history, target, pruned) {
            Some(stored) => self.continued(&key, stored, history, provider),
            None => {
                let empty = Beginning { history: GivenHistory::default(), conversation: new() };
                self.continued(&key, &empty, history, provider)
            }
        };
        continued.unwrap_or_else(|| {
            let mut conversation = new();
            conversation.push_flat(history.iter(), provider);
            conversation
        })
    }

    /// The stored beginning that the conversation of a history continues.
    fn stored(
        &self,
        history: &GivenHistory,
        target: &Target,
        pruned: &Pruned,
    ) -> Option<Arc<Beginning>> {
        self.0.get(&Key::of(history, target, pruned)?).filter(|stored| {
            let Beginning { history: before, conversation } = stored.as_ref();
            let next = history.get(before.len());
            conversation.pruning() == pruned
                && conversation.target() == target
                && history.shared_with(before) == before.len()
                // A result in the rest would belong to a call of the beginning.
                && next.is_some_and(Message::is_assistant)
        })
    }

    /// Evicts all conversations.
    pub(crate) fn clear(&self) {
        self.0.clear();
    }

    /// The conversation of `history`, which begins with `beginning`; a longer beginning is stored. `None` if the parts do
    /// not equal the whole.
    fn continued(
        &self,
        key: &Key,
        beginning: &Beginning,
        history: &GivenHistory,
        provider: &dyn Provider,
    ) -> Option<Conversation> {
        let from = beginning.history.len();
        let plain = is_plain(history, from);
        if let Some(at) = last_border(history, from, plain)
            && let Some(conversation) = self.split(key, beginning, history, (at, plain), provider)
        {
            return Some(conversation);
        }
        let mut conversation = beginning.conversation.clone();
        push(&mut conversation, from, history.from(from), provider).then_some(conversation)
    }

    /// Like [`Self::continued`], with the beginning that ends at `at`, which is stored. `None` if it cannot end there.
    fn split(
        &self,
        key: &Key,
        beginning: &Beginning,
        history: &GivenHistory,
        (at, plain): (usize, bool),
        provider: &dyn Provider,
    ) -> Option<Conversation> {
        let from = beginning.history.len();
        let mut conversation = beginning.conversation.clone();
        let pushed = push(&mut conversation, from, history.from(from).take(at - from), provider);
        if !pushed || !conversation.can_be_split(plain) {
            return None;
        }
        let longer = Beginning { history: history.prefix(at)?, conversation: conversation.clone() };
        if !conversation.push_rest(history.from(at), provider) {
            return None;
        }
        let bytes = longer.conversation.size() + longer.history.bytes();
        self.0.put(key.clone(), Arc::new(longer), bytes);
        Some(conversation)
    }
}

/// Appends the messages of a history from an index on.
fn push<'a>(
    conversation: &mut Conversation,
    from: usize,
    messages: impl Iterator<Item = &'a Message>,
    provider: &dyn Provider,
) -> bool {
    if from > 0 {
        return conversation.push_rest(messages, provider);
    }
    conversation.push_flat(messages, provider);
    true
}

/// The last index after `from` at which an answer follows a user's message, or results in a `plain` part.
fn last_border(history: &GivenHistory, from: usize, plain: bool) -> Option<usize> {
    let role = |index: usize| history.get(index).map(|message| message.role);
    let ends = |before: Role| before == Role::User || plain && before == Role::Tool;
    (from + 1..history.len())
        .rev()
        .find(|&at| role(at) == Some(Role::Assistant) && role(at - 1).is_some_and(ends))
}

/// Whether a history has no opaque blocks from an index on.
fn is_plain(history: &GivenHistory, from: usize) -> bool {
    let mut blocks = history.from(from).flat_map(|message| &message.blocks);
    !blocks.any(|block| matches!(block, Block::Opaque { .. }))
}
