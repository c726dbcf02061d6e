//! Export and import, and calls after the ledger was closed.

use crate::store::Fixture;
use crate::turns::{compaction, short_turn, turn};
use model::{LedgerFormat, StorageErrorKind};

/// A case.
pub async fn a_session_comes_back_from_its_file_once(from: Fixture, to: Fixture) {
    from.commit(turn("t1", "main", None)).await.unwrap();
    from.commit(turn("t2", "main", Some("t1"))).await.unwrap();
    let mut compacted = short_turn("t3", "main", Some("t2"));
    compacted.compaction = Some(compaction("t1", "t2"));
    from.commit(compacted).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.jsonl");
    let written = from.ledger.admin.export(&file, LedgerFormat::Ledger, None).await.unwrap();
    assert_eq!((written.sessions, written.turns, written.open_turns), (1, 4, 0));
    let error = from.ledger.admin.export(&file, LedgerFormat::Ledger, None).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Exists);
    for (turns, skipped) in [(4, 0), (0, 4)] {
        let read = to.ledger.admin.import(&file, LedgerFormat::Ledger, None).await.unwrap();
        assert_eq!((read.turns, read.skipped_turns), (turns, skipped));
        let messages = from.ledger.read.history("main").await.unwrap();
        assert_eq!(to.ledger.read.history("main").await.unwrap(), messages);
        assert_eq!(to.store.contents().await.threads, from.store.contents().await.threads);
    }
    assert!(to.ledger.admin.verify().await.unwrap().ok);
}

/// A case.
pub async fn what_is_closed_refuses_everything_and_is_there_for_the_next_process(
    mut fixture: Fixture,
) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    fixture.ledger.admin.close().await.unwrap();
    fixture.ledger.admin.close().await.unwrap();
    let error = fixture.ledger.read.session("main").await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Closed);
    let error = fixture.commit(turn("t2", "main", Some("t1"))).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Closed);
    fixture.next_process(crate::store::ProcessEnd::Closed).await;
    let session = fixture.ledger.read.session("main").await.unwrap().unwrap();
    assert_eq!(session.thread_id.as_deref(), Some("t1"));
}
