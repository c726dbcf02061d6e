//! Folds the entries of a turn into its current state: its opening, its messages and its calls.
//!
//! A message is never replaced; a call's newer state replaces the older. It must never guess the content of an unreadable
//! entry: it reports the damage.

use std::collections::hash_map::Entry as Slot;
use std::collections::{HashMap, HashSet};

use super::records::{CallRecord, Entry, MessageRecord, OpeningRecord, Record};

/// Whether entries of the turn could not be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Damage {
    /// Every entry is sound.
    #[default]
    None,
    /// Some are damaged, and a process has since taken the turn over without them.
    Accepted,
    /// Some are damaged.
    Lost,
}

/// An open turn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TurnState<'a> {
    /// If the turn now follows a compaction, that is its parent and its expected head.
    pub(crate) opening: Option<OpeningRecord<'a>>,
    /// In order.
    pub(crate) messages: Vec<MessageRecord<'a>>,
    /// In order.
    pub(crate) calls: Vec<CallRecord<'a>>,
    pub(crate) progress: Option<&'a str>,
    pub(crate) metadata: Option<&'a str>,
    /// The messages that have layers, and these as JSON.
    pub(crate) layers: Vec<(&'a str, &'a str)>,
    pub(crate) damage: Damage,
}

/// Folds contents of entries, oldest first; `None` is a damaged entry.
pub(crate) fn fold<'a>(contents: impl IntoIterator<Item = Option<&'a [u8]>>) -> TurnState<'a> {
    let mut known = Known::default();
    let mut state = TurnState::default();
    for content in contents {
        match content.and_then(Entry::records) {
            Some(records) => records.into_iter().for_each(|record| state.take(record, &mut known)),
            None => state.damage = Damage::Lost,
        }
    }
    state.in_order()
}

/// The messages and calls of a state, by their ids.
#[derive(Default)]
struct Known<'a> {
    messages: HashSet<&'a str>,
    /// The index of each call.
    calls: HashMap<&'a str, usize>,
}

impl<'a> TurnState<'a> {
    /// The state after further records.
    pub(crate) fn with(mut self, records: Vec<Record<'a>>) -> Self {
        let mut known = Known {
            messages: self.messages.iter().map(|message| message.id).collect(),
            calls: self.calls.iter().zip(0..).map(|(call, at)| (call.id, at)).collect(),
        };
        records.into_iter().for_each(|record| self.take(record, &mut known));
        self.in_order()
    }

    fn take(&mut self, record: Record<'a>, known: &mut Known<'a>) {
        match record {
            Record::Opening(opening) => {
                self.opening.get_or_insert(opening);
            }
            Record::Message(message) => {
                if known.messages.insert(message.id) {
                    self.messages.push(message);
                }
            }
            Record::Call(call) => match known.calls.entry(call.id) {
                Slot::Vacant(slot) => {
                    slot.insert(self.calls.len());
                    self.calls.push(call);
                }
                Slot::Occupied(slot) => {
                    if let Some(before) = self.calls.get_mut(*slot.get()) {
                        before.replace(call);
                    }
                }
            },
            Record::Progress(json) => self.progress = Some(json),
            Record::Metadata(json) => self.metadata = Some(json),
            Record::Layers(message, json) => self.layers.push((message, json)),
            Record::Follows(compaction) => {
                if let Some(opening) = &mut self.opening {
                    opening.parent_turn_id = Some(compaction);
                    opening.expected_head = Some(compaction);
                }
            }
            Record::TakenOver => {
                if self.damage == Damage::Lost {
                    self.damage = Damage::Accepted;
                }
            }
        }
    }

    fn in_order(mut self) -> Self {
        self.messages.sort_by_key(|message| message.sequence);
        self.calls.sort_by_key(|call| call.sequence);
        self
    }
}

impl<'a> CallRecord<'a> {
    /// Replaces this state by `now`. The fields that identify the call stay; the replay class and the hash of the arguments
    /// stay if `now` has none.
    fn replace(&mut self, now: CallRecord<'a>) {
        *self = CallRecord {
            provider_call_id: self.provider_call_id,
            message_id: self.message_id,
            tool_name: self.tool_name,
            sequence: self.sequence,
            replay: now.replay.or(self.replay),
            arguments_hash: now.arguments_hash.or(self.arguments_hash),
            ..now
        };
    }
}
