//! An entry is read as it was written, an altered one is refused, and the fold of a turn's entries equals a simple model.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use model::{RunEvent, RunEventKind};

/// A record that owns its values.
#[derive(Debug, Clone, PartialEq)]
struct Values {
    id: String,
    texts: Vec<String>,
    optional: Vec<Option<String>>,
    numbers: Vec<i64>,
    optional_number: Option<i64>,
    failed: Option<bool>,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![8 => ".{0,16}", 1 => Just("ü\0\n".repeat(70)), 1 => Just("x".repeat(20_000))]
}

fn number() -> impl Strategy<Value = i64> {
    prop_oneof![any::<i64>(), -3_i64..200, Just(1_780_000_000_000)]
}

fn values() -> impl Strategy<Value = Values> {
    (
        "[a-d]",
        prop::collection::vec(text(), 10),
        prop::collection::vec(prop::option::of(text()), 10),
        prop::collection::vec(number(), 3),
        prop::option::of(number()),
        prop::option::of(any::<bool>()),
    )
        .prop_map(|(id, texts, optional, numbers, optional_number, failed)| Values {
            id,
            texts,
            optional,
            numbers,
            optional_number,
            failed,
        })
}

impl Values {
    fn text(&self, at: usize) -> &str {
        &self.texts[at]
    }

    fn optional(&self, at: usize) -> Option<&str> {
        self.optional[at].as_deref()
    }

    fn small(&self, at: usize) -> u32 {
        u32::try_from(self.numbers[at].rem_euclid(1 << 32)).unwrap()
    }

    fn opening(&self) -> OpeningRecord<'_> {
        OpeningRecord {
            turn_id: &self.id,
            run_id: self.text(0),
            session_label: self.text(1),
            parent_turn_id: self.optional(0),
            expected_head: self.optional(1),
            started_at: self.numbers[0],
            provider: self.text(2),
            model: self.text(3),
            role: self.text(4),
            toolset_name: self.optional(2),
            tools_available: self.text(5),
            permissions_granted: self.text(6),
            query_message_ids: self.text(7),
            source_event_id: self.optional(3),
            workspace_path: self.optional(4),
            context_hash: self.text(8),
            target_json: self.optional(5),
        }
    }

    fn message(&self) -> MessageRecord<'_> {
        MessageRecord {
            id: &self.id,
            role: self.text(0),
            sequence: self.small(0),
            created_at: self.numbers[1],
            tool_call_id: self.optional(0),
            is_error: self.failed,
            provider: self.optional(1),
            api: self.optional(2),
            model: self.optional(3),
            response_id: self.optional(4),
            stop_reason: self.optional(5),
            checksum: self.numbers[2],
            content: self.text(1),
            thinking: self.optional(6),
            blocks_json: self.optional(7),
            blobs_json: self.optional(8),
        }
    }

    fn call(&self) -> CallRecord<'_> {
        CallRecord {
            id: &self.id,
            provider_call_id: self.text(0),
            message_id: self.optional(0),
            tool_name: self.text(1),
            status: self.text(2),
            spawned_session_label: self.optional(1),
            started_at: self.numbers[0],
            completed_at: self.optional_number,
            sequence: self.small(1),
            error: self.optional(2),
            params_json: self.text(3),
            result_json: self.optional(3),
            replay: self.optional(4),
            arguments_hash: self.optional(5),
            blobs_json: self.optional(6),
        }
    }
}

#[derive(Debug, Clone)]
enum Owned {
    Opening(Values),
    Message(Values),
    Call(Values),
    Progress(String),
    Follows(String),
    Metadata(String),
    Layers(String, String),
    TakenOver,
}

impl Owned {
    fn lend(&self) -> Record<'_> {
        match self {
            Self::Opening(values) => Record::Opening(values.opening()),
            Self::Message(values) => Record::Message(values.message()),
            Self::Call(values) => Record::Call(values.call()),
            Self::Progress(json) => Record::Progress(json),
            Self::Follows(turn) => Record::Follows(turn),
            Self::Metadata(json) => Record::Metadata(json),
            Self::Layers(message, json) => Record::Layers(message, json),
            Self::TakenOver => Record::TakenOver,
        }
    }
}

fn record() -> impl Strategy<Value = Owned> {
    prop_oneof![
        1 => values().prop_map(Owned::Opening),
        4 => values().prop_map(Owned::Message),
        4 => values().prop_map(Owned::Call),
        1 => text().prop_map(Owned::Progress),
        1 => text().prop_map(Owned::Follows),
        1 => text().prop_map(Owned::Metadata),
        1 => (text(), text()).prop_map(|(message, json)| Owned::Layers(message, json)),
        1 => Just(Owned::TakenOver),
    ]
}

fn entry(records: &[Owned]) -> Entry {
    let mut entry = Entry::default();
    records.iter().for_each(|record| entry.add(&record.lend()));
    entry
}

fn event() -> impl Strategy<Value = (RunEventKind, Option<String>, String)> {
    let kind = prop_oneof![
        6 => Just(RunEventKind::Token),
        2 => Just(RunEventKind::Reasoning),
        1 => Just(RunEventKind::Event),
    ];
    (kind, prop::option::of("[ab]"), text())
}

fn numbered(first: u64, given: &[(RunEventKind, Option<String>, String)]) -> Vec<RunEvent> {
    (first..)
        .zip(given)
        .map(|(seq, (kind, message, text))| RunEvent {
            seq,
            kind: *kind,
            message_id: message.as_deref().filter(|_| *kind != RunEventKind::Event).map(Arc::from),
            text: Arc::from(text.as_str()),
            added: None,
        })
        .collect()
}

/// The fold of a turn's entries, in its simplest form.
#[derive(Default)]
struct Model<'a> {
    opening: Option<&'a Values>,
    follows: Option<&'a str>,
    messages: BTreeMap<&'a str, &'a Values>,
    /// The first state of a call, its newest state, and the newest replay class and hash.
    calls: BTreeMap<&'a str, (&'a Values, &'a Values, [Option<&'a str>; 2])>,
    progress: Option<&'a str>,
    metadata: Option<&'a str>,
    layers: Vec<(&'a str, &'a str)>,
}

impl<'a> Model<'a> {
    fn take(&mut self, record: &'a Owned) {
        match record {
            Owned::Opening(values) => self.opening = self.opening.or(Some(values)),
            Owned::Message(values) => {
                self.messages.entry(&values.id).or_insert(values);
            }
            Owned::Call(values) => {
                let call = self.calls.entry(&values.id).or_insert((values, values, [None; 2]));
                let given = [values.optional(4), values.optional(5)];
                *call = (call.0, values, [given[0].or(call.2[0]), given[1].or(call.2[1])]);
            }
            Owned::Progress(json) => self.progress = Some(json),
            Owned::Metadata(json) => self.metadata = Some(json),
            Owned::Layers(message, json) => self.layers.push((message, json)),
            Owned::Follows(turn) if self.opening.is_some() => self.follows = Some(turn),
            Owned::Follows(_) | Owned::TakenOver => {}
        }
    }

    fn state(&self) -> TurnState<'a> {
        let follows = self.follows;
        TurnState {
            opening: self.opening.map(|values| {
                let opening = values.opening();
                OpeningRecord {
                    parent_turn_id: follows.or(opening.parent_turn_id),
                    expected_head: follows.or(opening.expected_head),
                    ..opening
                }
            }),
            messages: self.messages.values().map(|values| values.message()).collect(),
            calls: self
                .calls
                .values()
                .map(|(first, now, [replay, hash])| CallRecord {
                    provider_call_id: first.text(0),
                    message_id: first.optional(0),
                    tool_name: first.text(1),
                    sequence: first.small(1),
                    replay: *replay,
                    arguments_hash: *hash,
                    ..now.call()
                })
                .collect(),
            progress: self.progress,
            metadata: self.metadata,
            layers: self.layers.clone(),
            damage: Damage::None,
        }
    }
}

#[test]
fn a_text_that_an_entry_has_twice_is_written_once() {
    // Each word differs, so that only the second copy is short.
    let text: String =
        (0..400_u64).map(|n| format!("{:x} ", n.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect();
    let content = [text.as_bytes(), text.as_bytes()].concat();
    let sealed = seal(7, EntryKind::CommitPoint, &content);
    assert!(sealed.len() < text.len() + text.len() / 4, "{} of {}", sealed.len(), content.len());
    assert_eq!(open(7, EntryKind::CommitPoint, &sealed).unwrap(), content);
    for kind in [EntryKind::CommitPoint, EntryKind::Events] {
        let sealed = seal(7, kind, text.as_bytes().get(..600).unwrap());
        assert_eq!(open(7, kind, &sealed).unwrap(), text.as_bytes().get(..600).unwrap());
    }
    let events = seal(7, EntryKind::Events, &content);
    assert!(events.len() > content.len());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn the_records_of_an_entry_come_back(
        records in prop::collection::vec(record(), 0..8),
        run in any::<i64>(),
    ) {
        let sealed = seal(run, EntryKind::CommitPoint, entry(&records).content());
        let content = open(run, EntryKind::CommitPoint, &sealed).unwrap();
        let wanted: Vec<Record<'_>> = records.iter().map(Owned::lend).collect();
        prop_assert_eq!(Entry::records(&content).unwrap(), wanted);
    }

    #[test]
    fn an_entry_that_was_changed_or_cut_or_is_of_another_run_is_refused(
        records in prop::collection::vec(record(), 1..4),
        at in any::<prop::sample::Index>(),
        change in 1_u8..,
    ) {
        let kind = EntryKind::CommitPoint;
        let sealed = seal(7, kind, entry(&records).content());
        let mut changed = sealed.clone();
        changed[at.index(sealed.len())] ^= change;
        prop_assert_eq!(open(7, kind, &changed), None);
        prop_assert_eq!(open(7, kind, &sealed[..at.index(sealed.len())]), None);
        prop_assert_eq!(open(8, kind, &sealed), None);
        prop_assert_eq!(open(7, EntryKind::Events, &sealed), None);
    }

    #[test]
    fn any_bytes_can_be_decoded_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Entry::records(&bytes);
        let _ = EventBatch::events(&bytes);
        let _ = EventBatch::last_of(&bytes);
        // A claimed length is checked against the limit before anything is allocated.
        let _ = unpack(&bytes);
    }

    #[test]
    fn the_fold_of_a_turns_entries_equals_a_simple_model(
        records in prop::collection::vec(record(), 0..40),
        cuts in prop::collection::vec(1_usize..6, 1..20),
    ) {
        let mut model = Model::default();
        records.iter().for_each(|record| model.take(record));
        let (mut rest, mut sizes, mut entries) = (records.as_slice(), cuts.iter().cycle(), Vec::new());
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            entries.push(entry(now));
            rest = later;
        }
        let mut found = fold(entries.iter().map(|entry| Some(entry.content())));
        // Equal numbers are ordered by arrival, which the model does not record.
        prop_assert!(found.messages.is_sorted_by_key(|message| message.sequence));
        prop_assert!(found.calls.is_sorted_by_key(|call| call.sequence));
        found.messages.sort_by_key(|message| message.id);
        found.calls.sort_by_key(|call| call.id);
        prop_assert_eq!(found, model.state());
    }

    #[test]
    fn events_come_back_from_a_batch_and_from_an_archive_of_several(
        given in prop::collection::vec(event(), 1..120),
        first in 1_u64..100_000,
        sizes in prop::collection::vec(1_usize..40, 1..20),
    ) {
        let all = numbered(first, &given);
        let mut archive = EventBatch::default();
        let (mut rest, mut sizes) = (all.as_slice(), sizes.iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(*sizes.next().unwrap()));
            let mut batch = EventBatch::default();
            prop_assert!(now.iter().all(|event| batch.add(event)));
            let content = batch.content();
            prop_assert_eq!(EventBatch::last_of(&content), now.last().map(|event| event.seq));
            let read = EventBatch::events(&content).unwrap();
            prop_assert_eq!(&read, now);
            prop_assert!(read.iter().all(|event| archive.add(event)));
            rest = later;
        }
        prop_assert_eq!(archive.last(), first + all.len() as u64 - 1);
        let content = unpack(&pack(&archive.content())).unwrap();
        prop_assert_eq!(EventBatch::events(&content).unwrap(), all);
    }
}

#[test]
fn an_event_that_does_not_follow_the_last_one_is_refused() {
    let events = numbered(3, &vec![(RunEventKind::Token, None, "a".to_owned()); 3]);
    let mut batch = EventBatch::default();
    assert!(batch.is_empty() && batch.last() == 0);
    assert!(batch.add(&events[0]) && !batch.add(&events[2]) && batch.add(&events[1]));
    assert_eq!(EventBatch::events(&batch.content()).unwrap(), events[..2]);
}

#[test]
fn a_token_takes_two_bytes_more_than_its_text_and_an_archive_less_than_the_text() {
    let given: Vec<_> = (0..2_000)
        .map(|n| (RunEventKind::Token, Some("m".to_owned()), format!(" word{}", n % 50)))
        .collect();
    let mut batch = EventBatch::default();
    assert!(numbered(1, &given).iter().all(|event| batch.add(event)));
    let text: usize = given.iter().map(|(_, _, text)| text.len()).sum();
    let content = batch.content();
    assert!(content.len() <= text + 2 * given.len() + 16, "{} of {text}", content.len());
    assert!(pack(&content).len() < text / 4, "{} of {text}", pack(&content).len());
}

#[test]
fn damage_is_reported_until_a_process_takes_over_without_the_lost_entries() {
    let progress = |json| {
        let mut entry = Entry::default();
        entry.add(&Record::Progress(json));
        entry
    };
    let mut taken = Entry::default();
    taken.add(&Record::TakenOver);
    let (one, two) = (progress("1"), progress("2"));
    let damage = |contents: &[Option<&[u8]>]| {
        let state = fold(contents.iter().copied());
        (state.damage, state.progress.map(str::to_owned))
    };
    let (one, two) = (Some(one.content()), Some(two.content()));
    let (last, taken) = (Some("2".to_owned()), Some(taken.content()));
    assert_eq!(damage(&[one, taken, two]), (Damage::None, last.clone()));
    assert_eq!(damage(&[one, None, two]), (Damage::Lost, last.clone()));
    assert_eq!(damage(&[one, None, taken, two]), (Damage::Accepted, last.clone()));
    assert_eq!(damage(&[one, None, taken, None, two]), (Damage::Lost, last));
    assert_eq!(damage(&[one, Some(b"\x09")]), (Damage::Lost, Some("1".to_owned())));
}
