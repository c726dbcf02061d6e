//! The rules of the queue: numbers without a gap, no loss, merging only where a reader lags.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;

use super::super::batch::RecordBatch;
use super::*;

#[derive(Default)]
struct Count {
    first: AtomicUsize,
    urgent: AtomicUsize,
}

impl Notify for Count {
    fn ready(&self, _queue: &Arc<EventQueue>, first: bool, urgent: bool) {
        self.first.fetch_add(usize::from(first), Ordering::Relaxed);
        self.urgent.fetch_add(usize::from(urgent), Ordering::Relaxed);
    }
}

fn queue(coalesce: bool) -> (Arc<EventQueue>, Arc<Count>) {
    let count = Arc::new(Count::default());
    (
        EventQueue::new(
            7,
            Delivery { coalesce, phases: true, skipped: 0 },
            Arc::clone(&count) as Arc<dyn Notify>,
        ),
        count,
    )
}

#[derive(Debug, PartialEq)]
struct Row {
    kind: u32,
    from: u32,
    to: u32,
    text: String,
}

fn read(queue: &EventQueue, limit: usize) -> (Vec<Row>, bool) {
    let mut batch = RecordBatch::default();
    let more = queue.drain(&mut batch, limit);
    let units: Vec<u16> = batch.text.encode_utf16().collect();
    let mut start = 0;
    let rows = batch
        .rows
        .chunks(RecordBatch::WIDTH)
        .map(|row| {
            assert_eq!(row[0], 7);
            let end = row[4] as usize;
            let text = String::from_utf16(&units[start..end]).unwrap();
            start = end;
            Row { kind: row[1], from: row[2], to: row[3], text }
        })
        .collect();
    assert_eq!(start, units.len());
    (rows, more)
}

#[test]
fn the_first_delta_of_a_message_is_urgent_and_the_next_ones_are_not() {
    let (queue, count) = queue(true);
    queue.message("m1");
    queue.delta(RecordKind::Token, "a");
    queue.delta(RecordKind::Token, "b");
    assert_eq!(count.first.load(Ordering::Relaxed), 1);
    assert_eq!(count.urgent.load(Ordering::Relaxed), 1);
    let (rows, more) = read(&queue, 10);
    assert!(!more);
    let row = |kind, seq, text: &str| Row { kind, from: seq, to: seq, text: text.to_owned() };
    assert_eq!(rows, [row(2, 0, "m1"), row(0, 1, "a"), row(0, 2, "b")]);
}

#[test]
fn a_lagging_reader_gets_merged_deltas_and_every_character() {
    let (queue, _) = queue(true);
    for _ in 0..MERGE_ABOVE + 100 {
        queue.delta(RecordKind::Token, "é");
    }
    queue.delta(RecordKind::Reasoning, "r");
    queue.delta(RecordKind::Token, "x");
    let (rows, _) = read(&queue, usize::MAX);
    assert_eq!(rows.len(), MERGE_ABOVE + 2);
    let merged = &rows[MERGE_ABOVE - 1];
    assert_eq!((merged.from, merged.to), (4096, 4196));
    assert_eq!(merged.text, "é".repeat(101));
    assert_eq!(rows.last().unwrap().text, "x");
}

#[test]
fn without_merging_the_socket_waits_until_the_reader_has_consumed() {
    let (queue, _) = queue(false);
    let mut cx = Context::from_waker(Waker::noop());
    for _ in 0..=MERGE_ABOVE {
        queue.delta(RecordKind::Token, "a");
    }
    assert!(queue.poll_ready(&mut cx).is_pending());
    let (rows, _) = read(&queue, usize::MAX);
    assert_eq!(rows.len(), MERGE_ABOVE + 1);
    assert!(queue.poll_ready(&mut cx).is_pending(), "taken is not consumed");
    queue.consumed(1);
    assert!(queue.poll_ready(&mut cx).is_ready());
}

#[test]
fn a_flood_does_not_delay_a_short_run() {
    let notify = Arc::new(Count::default());
    let queue = |run| {
        EventQueue::new(
            run,
            Delivery { coalesce: false, phases: true, skipped: 0 },
            Arc::clone(&notify) as Arc<dyn Notify>,
        )
    };
    let (flood, short) = (queue(1), queue(2));
    for _ in 0..100 {
        flood.delta(RecordKind::Token, "x");
    }
    short.host(RecordKind::Result, "{}");
    let mut queues = vec![flood, short];
    let mut order = Vec::new();
    loop {
        let mut batch = RecordBatch::default();
        let more = batch.fill(&mut queues, 10);
        assert!(batch.rows.len() <= 10 * RecordBatch::WIDTH);
        order.extend(batch.rows.chunks(RecordBatch::WIDTH).map(|row| row[0]));
        if !more {
            break;
        }
    }
    assert_eq!(order.len(), 101);
    assert_eq!(order.iter().position(|run| *run == 2), Some(10), "in the second crossing");
}

#[test]
fn a_queue_without_a_reader_is_empty_and_blocks_no_run() {
    let (queue, _) = queue(false);
    for _ in 0..=MERGE_ABOVE {
        queue.delta(RecordKind::Token, "a");
    }
    queue.close();
    assert!(queue.poll_ready(&mut Context::from_waker(Waker::noop())).is_ready());
    queue.delta(RecordKind::Token, "late");
    assert_eq!(read(&queue, usize::MAX), (Vec::new(), false));
}

proptest! {
    #[test]
    fn with_any_capacity_the_reader_gets_every_record_in_order(
        texts in prop::collection::vec(("[a-zé上😀]{0,6}", 0..3u8), 0..80),
        limits in prop::collection::vec(1..9usize, 1..40),
    ) {
        let (queue, _) = queue(true);
        let mut got: Vec<Row> = Vec::new();
        let mut limits = limits.into_iter().cycle();
        let mut expected = Vec::new();
        let mut seq = 0;
        for (n, (text, kind)) in texts.iter().enumerate() {
            match kind {
                0 | 1 => {
                    seq += 1;
                    let kind = if *kind == 0 { RecordKind::Token } else { RecordKind::Reasoning };
                    queue.delta(kind, text);
                    expected.push(Row { kind: kind as u32, from: seq, to: seq, text: text.clone() });
                }
                _ => {
                    queue.host(RecordKind::Tool, text);
                    expected.push(Row { kind: 6, from: 0, to: 0, text: text.clone() });
                }
            }
            if n % 3 == 0 {
                got.extend(read(&queue, limits.next().unwrap()).0);
            }
        }
        while { let (rows, more) = read(&queue, limits.next().unwrap()); got.extend(rows); more } {}
        prop_assert_eq!(got, expected);
    }
}

#[test]
fn a_batch_is_bounded_in_bytes_and_a_longer_record_is_delivered_alone() {
    let notify = Arc::new(Count::default());
    let queue = |run| {
        EventQueue::new(
            run,
            Delivery { coalesce: false, phases: true, skipped: 0 },
            Arc::clone(&notify) as Arc<dyn Notify>,
        )
    };
    let (long, short) = (queue(1), queue(2));
    let third = "x".repeat(PIECE_BYTES / 3 + 1);
    let mut expected = Vec::new();
    for _ in 0..7 {
        long.delta(RecordKind::Token, &third);
        expected.push(third.len());
    }
    long.host(RecordKind::Result, &"y".repeat(PIECE_BYTES * 2));
    expected.push(PIECE_BYTES * 2);
    let mut queues = vec![Arc::clone(&short), long];
    let mut got = Vec::new();
    for round in 0.. {
        assert!(round < 20, "the long record is never delivered");
        // There is always a small record beside the large one, from a queue that the hub adds again.
        short.delta(RecordKind::Token, "s");
        if !queues.iter().any(|queue| queue.run == 2) {
            queues.push(Arc::clone(&short));
        }
        let mut batch = RecordBatch::default();
        batch.fill(&mut queues, 1_000);
        let records = batch.rows.len() / RecordBatch::WIDTH;
        assert!(
            records == 1 || batch.text.len() <= PIECE_BYTES,
            "{records} of {}",
            batch.text.len()
        );
        let mut start = 0;
        for row in batch.rows.chunks(RecordBatch::WIDTH) {
            if row[0] == 1 {
                got.push(row[4] as usize - start);
            }
            start = row[4] as usize;
        }
        if !queues.iter().any(|queue| queue.run == 1) {
            break;
        }
    }
    assert_eq!(got, expected);
}

#[test]
fn merged_deltas_stay_within_a_piece() {
    let (queue, _) = queue(true);
    for _ in 0..MERGE_ABOVE {
        queue.delta(RecordKind::Token, "");
    }
    let half = "x".repeat(PIECE_BYTES / 2);
    for _ in 0..5 {
        queue.delta(RecordKind::Token, &half);
    }
    let mut lengths = Vec::new();
    loop {
        let (rows, more) = read(&queue, usize::MAX);
        lengths.extend(rows.iter().map(|row| row.text.len()).filter(|length| *length > 0));
        if !more {
            break;
        }
    }
    assert_eq!(lengths, [PIECE_BYTES, PIECE_BYTES, PIECE_BYTES / 2]);
}

#[test]
fn a_result_too_long_for_a_string_is_replaced_by_the_reason() {
    let (queue, _) = queue(true);
    queue.host(RecordKind::Result, &"x".repeat(RECORD_BYTES + 1));
    let (rows, _) = read(&queue, usize::MAX);
    assert_eq!(rows.iter().map(|row| row.kind).collect::<Vec<_>>(), [10]);
    let why: serde_json::Value = serde_json::from_str(&rows[0].text).unwrap();
    assert_eq!(why["code"], "result_too_large");
}

struct Storing(AtomicUsize);

impl RunRegistration for Storing {
    fn stores_events(&self) -> bool {
        true
    }

    fn notify(&self, _urgent: bool) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn an_event_is_delivered_once_it_is_stored_and_not_before() {
    let (queue, count) = queue(true);
    let storing = Arc::new(Storing(AtomicUsize::new(0)));
    queue.store_with(Arc::clone(&storing) as Arc<dyn RunRegistration>);
    queue.message("m1");
    for text in ["a", "b", "c"] {
        queue.delta(RecordKind::Token, text);
    }
    queue.host(RecordKind::Tool, "tool");
    let seqs = |events: Vec<RunEvent>| events.iter().map(|event| event.seq).collect::<Vec<_>>();
    // The writer is notified of the first delta and of the tool, which is urgent; of nothing more until it has read.
    assert_eq!(storing.0.load(Ordering::Relaxed), 2);
    assert_eq!(seqs(queue.unstored(0)), [1, 2, 3]);
    assert_eq!(seqs(queue.unstored(2)), [3]);
    let texts = |queue: &EventQueue| -> Vec<String> {
        read(queue, 99).0.into_iter().map(|row| row.text).collect()
    };
    // The announcement of a message is no event.
    assert_eq!(texts(&queue), ["m1"]);
    queue.ack(2);
    assert_eq!(texts(&queue), ["a", "b"]);
    assert_eq!(seqs(queue.unstored(0)), [3]);
    let before = count.first.load(Ordering::Relaxed);
    queue.ack(3);
    assert_eq!(count.first.load(Ordering::Relaxed), before + 1, "its reader is notified");
    assert_eq!(texts(&queue), ["c", "tool"]);
    queue.delta(RecordKind::Token, "d");
    assert_eq!(texts(&queue), [""; 0]);
    queue.nack();
    assert_eq!(texts(&queue), ["d"], "a file that cannot be written holds nothing back");
    queue.delta(RecordKind::Token, "e");
    assert_eq!(texts(&queue), ["e"]);
    assert_eq!(seqs(queue.unstored(0)), [4, 5], "and all of it is written later");
    queue.ack(5);
    queue.delta(RecordKind::Token, "f");
    assert_eq!(texts(&queue), [""; 0], "from then on it is waited for again");
    queue.stop_storing();
    assert_eq!(texts(&queue), ["f"]);
}

#[test]
fn a_phase_is_delivered_with_the_next_event_unless_the_queue_is_flushed() {
    let (queue, count) = queue(true);
    queue.flush();
    queue.phase(AgentPhase::ToolUse, 1);
    assert_eq!(count.urgent.load(Ordering::Relaxed), 0);
    queue.flush();
    assert_eq!((count.first.load(Ordering::Relaxed), count.urgent.load(Ordering::Relaxed)), (1, 1));
    let (rows, more) = read(&queue, 8);
    assert_eq!((rows.len(), more), (1, false));
    assert!(rows[0].text.contains("tool_use"), "{rows:?}");
}

#[test]
fn phases_that_nobody_listens_to_are_not_delivered() {
    let notify = Arc::new(Count::default());
    let delivery = Delivery { coalesce: true, phases: false, skipped: 0 };
    let queue = EventQueue::new(7, delivery, Arc::clone(&notify) as Arc<dyn Notify>);
    queue.phase(AgentPhase::Start, 1);
    queue.flush();
    let (rows, more) = read(&queue, 8);
    assert_eq!((rows.len(), more), (0, false));
}
