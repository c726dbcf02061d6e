//! Histories: the thread, its new turns, forks, and the context rule after a compaction.

use crate::store::Fixture;
use crate::turns::{compaction, short_turn, turn};
use model::{HistoryBase, SessionHistory, StorageErrorKind, TurnStatus};

/// A case.
pub async fn history_is_the_chain_of_parents_oldest_first(fixture: Fixture) {
    assert_eq!(ids(&fixture, "main", None, None).await, "false - root []");
    let first = turn("t1", "main", None);
    fixture.commit(first.clone()).await.unwrap();
    fixture.commit(short_turn("t2", "main", Some("t1"))).await.unwrap();
    fixture.ledger.admin.fork("t1", Some("side")).await.unwrap();
    fixture.commit(short_turn("t3", "side", Some("t1"))).await.unwrap();
    assert_eq!(ids(&fixture, "main", None, None).await, "true t2 root [t1 t2]");
    assert_eq!(ids(&fixture, "side", None, None).await, "true t3 root [t1 t3]");
    assert_eq!(ids(&fixture, "main", Some("t3"), None).await, "true t3 root [t1 t3]");
    assert_eq!(ids(&fixture, "new", Some("t1"), None).await, "false t1 root [t1]");
    let history = fixture.ledger.journal.history("main", None, None).await.unwrap();
    assert_eq!(history.turns[0].messages, first.messages);
    assert_eq!(history.turns[0].status, TurnStatus::Completed);
    let error = fixture.ledger.journal.history("main", Some("t9"), None).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::UnknownTurn);
}

/// A case.
pub async fn history_after_a_known_head_is_only_what_is_new(fixture: Fixture) {
    fixture.commit(short_turn("t1", "main", None)).await.unwrap();
    fixture.commit(short_turn("t2", "main", Some("t1"))).await.unwrap();
    fixture.commit(short_turn("t3", "main", Some("t2"))).await.unwrap();
    assert_eq!(ids(&fixture, "main", None, Some("t3")).await, "true t3 known []");
    assert_eq!(ids(&fixture, "main", None, Some("t1")).await, "true t3 known [t2 t3]");
    // A head that is no ancestor: another branch, or nothing at all.
    fixture.ledger.admin.fork("t1", Some("side")).await.unwrap();
    fixture.commit(short_turn("t4", "side", Some("t1"))).await.unwrap();
    assert_eq!(ids(&fixture, "main", None, Some("t4")).await, "true t3 root [t1 t2 t3]");
    assert_eq!(ids(&fixture, "main", None, Some("t9")).await, "true t3 root [t1 t2 t3]");
}

/// A case.
pub async fn after_a_compaction_come_the_summary_the_kept_turns_and_the_new_ones(fixture: Fixture) {
    fixture.commit(short_turn("t1", "main", None)).await.unwrap();
    fixture.commit(short_turn("t2", "main", Some("t1"))).await.unwrap();
    fixture.commit(short_turn("t3", "main", Some("t2"))).await.unwrap();
    let mut fourth = short_turn("t4", "main", Some("t3"));
    fourth.compaction = Some(compaction("t1", "t2"));
    fixture.commit(fourth).await.unwrap();
    fixture.commit(short_turn("t5", "main", Some("t4"))).await.unwrap();
    assert_eq!(ids(&fixture, "main", None, None).await, "true t5 root [C t2 t3 t4 t5]");
    assert_eq!(ids(&fixture, "main", None, Some("t4")).await, "true t5 known [t5]");
    // What was known before the compaction is no longer the context.
    assert_eq!(ids(&fixture, "main", None, Some("t3")).await, "true t5 root [C t2 t3 t4 t5]");
    assert_eq!(ids(&fixture, "main", Some("t3"), None).await, "true t3 root [t1 t2 t3]");
    // A second one keeps turns from before the first, whose summary is in its own.
    let mut sixth = short_turn("t6", "main", Some("t5"));
    sixth.compaction = Some(compaction("t2", "t3"));
    fixture.commit(sixth).await.unwrap();
    assert_eq!(ids(&fixture, "main", None, None).await, "true t6 root [C t3 t4 t5 t6]");
    // Nothing before the third is kept.
    let mut seventh = short_turn("t7", "main", Some("t6"));
    seventh.compaction = Some(compaction("t6", "t7"));
    fixture.commit(seventh).await.unwrap();
    assert_eq!(ids(&fixture, "main", None, None).await, "true t7 root [C t7]");
}

/// A case.
pub async fn answers_from_before_the_compaction_of_their_own_turn_are_known_by_their_ids(
    fixture: Fixture,
) {
    fixture.commit(short_turn("t1", "main", None)).await.unwrap();
    fixture.commit(short_turn("t2", "main", Some("t1"))).await.unwrap();
    let mut third = turn("t3", "main", Some("t2"));
    third.compaction = Some(compaction("t1", "t2"));
    // An answer of long ago, and one that is still to come.
    let (early, late) = ("0".repeat(26), format!("7{}", "Z".repeat(25)));
    third.messages[1].id.clone_from(&early);
    third.messages[3].id.clone_from(&late);
    third.tool_calls[0].message_id = early;
    third.response_message_id = Some(late);
    fixture.commit(third).await.unwrap();
    // The ids of a host carry no time.
    fixture.commit(turn("t4", "main", Some("t3"))).await.unwrap();
    let history = fixture.ledger.journal.history("main", None, None).await.unwrap();
    let edited: Vec<_> =
        history.turns.iter().skip(1).map(|turn| (turn.edited, turn.edited_messages)).collect();
    assert_eq!(edited, [(true, 0), (false, 3), (false, 0)]);
}

async fn ids(fixture: &Fixture, label: &str, at: Option<&str>, known: Option<&str>) -> String {
    let SessionHistory { exists, head, base, summarised: _, turns } =
        fixture.ledger.journal.history(label, at, known).await.unwrap();
    let base = match base {
        HistoryBase::Root => "root",
        HistoryBase::Known => "known",
    };
    let head = head.unwrap_or_else(|| "-".to_owned());
    // A compaction's id is generated; it is shown as `C`.
    let turns: Vec<_> = turns
        .iter()
        .map(|turn| if turn.id.starts_with('t') { turn.id.as_str() } else { "C" })
        .collect();
    format!("{exists} {head} {base} [{}]", turns.join(" "))
}

/// A case.
pub async fn messages_are_read_by_session_or_by_turn(fixture: Fixture) {
    fixture.commit(short_turn("t1", "main", None)).await.unwrap();
    fixture.commit(short_turn("t2", "main", Some("t1"))).await.unwrap();
    let texts = |messages: Vec<model::HistoryMessage>| {
        messages
            .into_iter()
            .map(|entry| format!("{}: {}", entry.turn_id, entry.message.content))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        texts(fixture.ledger.read.history("main").await.unwrap()),
        ["t1: ask t1", "t1: done t1", "t2: ask t2", "t2: done t2"]
    );
    assert_eq!(
        texts(fixture.ledger.read.history("t1").await.unwrap()),
        ["t1: ask t1", "t1: done t1"]
    );
    let error = fixture.ledger.read.history("nothing").await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::UnknownSession);
}
