//! Calls whose answer is lost after they have taken effect: each reports what it did, and does it once.

use std::sync::Arc;

use ::conformance::cases::approvals::{decision, parked};
use ::conformance::cases::deliveries::{TARGET, answer};
use ::conformance::cases::queue::new_item;
use ::conformance::cases::reservations::{assert_left, call};
use ::conformance::turns::{NOW, begin, compacting, compaction, ending, short_turn, turn};
use model::{
    ApprovalStatus, ApprovalVerdict, CallCost, CallPurpose, EmbeddedChunk, EmbeddingCost, Enqueued,
    Firing, LedgerPorts, MemoryCall, QueueLimits, SessionChange, StorageErrorKind, TokenUsage,
};

use crate::tests::line::Line;
use crate::tests::store::{Schema, fresh_schema};

struct Case {
    ports: LedgerPorts,
    line: Line,
    schema: Schema,
}

impl Case {
    async fn new() -> Self {
        let (mut schema, line) = (fresh_schema(), Line::new());
        let ports = schema.process_at(&line.url);
        // Opened before the first answer is lost.
        ports.read.session("none").await.unwrap();
        Self { ports, line, schema }
    }

    /// What a call returns whose answer is lost: that to the statement with `text`.
    async fn lost<T, F: Future<Output = T>>(&self, text: &str, call: impl FnOnce() -> F) -> T {
        let before = self.line.lost();
        self.line.loses(text);
        // A call is submitted at once.
        let returned = call().await;
        assert_eq!(self.line.lost(), before + 1, "{text}");
        returned
    }

    /// The only number of a statement.
    async fn number(&self, text: &str) -> i64 {
        let rows = Schema::run(&self.schema.ledger, text.to_owned()).await;
        rows[0].get(0)
    }
}

#[tokio::test]
async fn a_compaction_is_written_once_and_is_no_stale_head_of_itself() {
    let case = Case::new().await;
    let journal = Arc::clone(&case.ports.journal);
    journal.commit(Box::new(short_turn("t1", "main", None))).await.unwrap();
    let commit =
        compacting("c1", &short_turn("t2", "main", Some("t1")), None, compaction("t1", "t2"));
    case.lost(".compactions (turn_id", || journal.compact(commit)).await.unwrap();
    assert_eq!(journal.head("main").await.unwrap().as_deref(), Some("c1"));
    // That of an open turn.
    let open = short_turn("t3", "main", Some("c1"));
    let epoch = begin(&case.ports, &open).await;
    let commit = compacting("c2", &open, Some(epoch), compaction("t1", "t3"));
    case.lost(".compactions (turn_id", || journal.compact(commit)).await.unwrap();
    let mut end = ending(&open, epoch, 1);
    end.header.expected_head = Some("c2".to_owned());
    end.header.parent_turn_id = Some("c2".to_owned());
    assert_eq!(journal.commit(end).await.unwrap().head.as_deref(), Some("t3"));
    assert_eq!(case.number("select count(*) from @compactions").await, 2);
    // It is undone, and that is no turn that runs.
    journal.commit(Box::new(short_turn("t4", "side", None))).await.unwrap();
    let commit =
        compacting("c3", &short_turn("t5", "side", Some("t4")), None, compaction("t4", "t5"));
    journal.compact(commit).await.unwrap();
    let undone = case.lost("with moved as", || case.ports.admin.uncompact("side")).await.unwrap();
    assert_eq!(undone.unwrap().thread_id.as_deref(), Some("t4"));
    assert_eq!(
        case.number("select count(*) from @session_moves where session_label = 'side'").await,
        3
    );
    assert_eq!(case.ports.admin.verify().await.unwrap().problems, []);
}

#[tokio::test]
async fn a_host_learns_what_its_calls_did() {
    let case = Case::new().await;
    let Case { ports, .. } = &case;
    parked(ports, None).await;
    let approve = || decision(ApprovalVerdict::Approve(None), "me");
    let decided = case.lost(".approvals set status", || ports.approvals.decide(approve())).await;
    assert_eq!(decided.unwrap().status, ApprovalStatus::Approved);
    let again = ports.approvals.decide(approve()).await.unwrap_err();
    assert_eq!(again.kind, StorageErrorKind::AlreadyDecided);

    let create = || ports.admin.create_session("new".to_owned(), SessionChange::default());
    let created = case.lost(".sessions as s (label, persona_id", create).await.unwrap();
    assert_eq!(created.label, "new");
    assert_eq!(create().await.unwrap_err().kind, StorageErrorKind::Constraint);
    let archive = || ports.admin.set_archived("new".to_owned(), true);
    assert_eq!(case.lost(".sessions set status", archive).await.unwrap().status, "archived");

    ports.queue.enqueue(Box::new(new_item("q1", "other")), QueueLimits::default()).await.unwrap();
    let cancel = || ports.queue.cancel("q1".to_owned());
    assert!(case.lost(".queue_items set status = 'failed'", cancel).await.unwrap());
    assert!(!cancel().await.unwrap());
    ports.queue.enqueue(Box::new(new_item("q2", "other")), QueueLimits::default()).await.unwrap();
    let clear = || ports.queue.clear("other".to_owned());
    assert_eq!(case.lost(".queue_items set status = 'failed'", clear).await.unwrap(), ["q2"]);

    answer(ports, &short_turn("d1", "answers", None), TARGET).await;
    let acknowledge = || ports.deliveries.acknowledge("d1".to_owned());
    assert!(case.lost(".deliveries set status", acknowledge).await.unwrap());
    assert!(!acknowledge().await.unwrap());
}

#[tokio::test]
async fn a_due_time_is_fired_once_and_a_schedule_removed() {
    let case = Case::new().await;
    let Case { ports, .. } = &case;
    let (id, empty) = ("s1".to_owned(), "{}".to_owned());
    ports.schedules.put(id.clone(), empty.clone(), empty, Some(NOW)).await.unwrap();
    let message = Some((Box::new(new_item("q1", "main")), NOW));
    let firing = Firing { id: id.clone(), due: NOW, next_at: Some(NOW + 1), message };
    let fire = || ports.schedules.fire(firing.clone(), QueueLimits::default());
    let queued =
        Enqueued::Queued { session_label: "main".to_owned(), is_fork: false, dropped: Vec::new() };
    assert_eq!(case.lost(".schedules set next_at", fire).await.unwrap(), Some(queued));
    assert_eq!(fire().await.unwrap(), None);
    assert_eq!(case.number("select count(*) from @queue_items").await, 1);
    let remove = || ports.schedules.remove(id.clone());
    assert!(case.lost(".schedules where id", remove).await.unwrap());
    assert!(!remove().await.unwrap());
}

#[tokio::test]
async fn what_is_added_up_is_added_once() {
    let case = Case::new().await;
    let Case { ports, .. } = &case;
    let call = || MemoryCall {
        session_label: "main".to_owned(),
        provider: "p".to_owned(),
        model: "m".to_owned(),
        purpose: CallPurpose::Extract,
        usage: TokenUsage { total_tokens: 7, ..TokenUsage::default() },
        nanos: Some(5),
        at: NOW,
    };
    case.lost(".memory_usage as u", || ports.memory.used(call())).await.unwrap();
    let spent = ports.memory.extraction_spent(NOW).await.unwrap();
    assert_eq!(spent, CallCost { tokens: 7, nanos: 5 });
    ports.memory.used(call()).await.unwrap();
    let spent = ports.memory.extraction_spent(NOW).await.unwrap();
    assert_eq!(spent, CallCost { tokens: 14, nanos: 10 });

    let model = ports.memory.model("m".to_owned(), 2).await.unwrap();
    let chunks = vec![(1, EmbeddedChunk::Skipped("too long".to_owned()))];
    let cost = EmbeddingCost { tokens: 7, nanos: Some(5) };
    let embedded = || ports.memory.embedded(model, chunks, cost);
    case.lost("embedded_through = greatest", embedded).await.unwrap();
    let counted = ports.memory.counts(Some(model)).await.unwrap().cost;
    assert_eq!((counted.tokens, counted.nanos), (7, Some(5)));

    ports.journal.commit(Box::new(turn("t1", "main", None))).await.unwrap();
    let noted = "insert into @memory_extractions (turn_id, session_label) values ('t1', 'main')";
    Schema::batch(&case.schema.ledger, noted.to_owned()).await;
    let failed = || ports.memory.not_extracted("t1".to_owned(), "no JSON".to_owned(), false);
    case.lost("attempts = attempts + 1", failed).await.unwrap();
    assert_eq!(ports.memory.unextracted(1).await.unwrap()[0].attempts, 1);

    let failed = || ports.profiles.change("key", Box::new(|usage| usage.failures += 1));
    assert_eq!(case.lost(".auth_profiles set state", failed).await.unwrap().failures, 1);
    assert_eq!(ports.profiles.usage().await.unwrap()[0].1.failures, 1);
}

#[tokio::test]
async fn the_end_of_a_run_waits_for_one_settlement_that_fails_and_no_call_stays_at_its_maximum() {
    let case = Case::new().await;
    let Case { ports, line, .. } = &case;
    let run = turn("t1", "main", None);
    let epoch = begin(ports, &run).await;
    let calls: Vec<String> = (0..64).map(|n| format!("c{n}")).collect();
    for id in &calls {
        assert_eq!(ports.journal.reserve(call(id, 1)).await.unwrap(), Some(Ok(())));
    }
    line.refuses(true);
    for id in calls {
        ports.journal.settle(id, CallCost { tokens: 0, nanos: 0 });
    }
    let ended = ports.journal.commit(ending(&run, epoch, 1)).await;
    assert_eq!(ended.unwrap_err().kind, StorageErrorKind::Io);
    // The tries of one settlement, those of the commit, and what else connects meanwhile; each settlement alone tries eight times.
    assert!(line.refused() < 128, "{}", line.refused());
    let server = LedgerPorts::of(&case.schema.ledger);
    assert_left(&server, 26).await;
    line.refuses(false);
    assert_eq!(ports.journal.reserve(call("last", 1)).await.unwrap(), Some(Ok(())));
    ports.journal.settle("last".to_owned(), CallCost { tokens: 1, nanos: 0 });
    ports.journal.commit(ending(&run, epoch, 1)).await.unwrap();
    assert_left(&server, 89).await;
}
