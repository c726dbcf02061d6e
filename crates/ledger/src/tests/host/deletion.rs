//! Deletions of a file: what `secure` leaves there, and one that was cut off.

use serde_json::json;

use super::*;
use crate::deletion::sessions::{self, PlannedSession};
use model::{
    DeleteSessionOptions, Deletion, LedgerDeletion, Metadata, PruneOptions, SearchOptions,
    TurnFilter,
};

async fn finds(fixture: &Fixture, text: &str) -> usize {
    let options: SearchOptions = serde_json::from_value(json!({ "limit": 1_000 })).unwrap();
    fixture.ledger.search(text.to_owned(), options).await.unwrap().items.len()
}

#[tokio::test]
async fn a_secure_deletion_leaves_nothing_of_it_in_the_file() {
    let fixture = Fixture::new();
    let marker = "xylophonequartz";
    for number in 0..6_usize {
        let label = if number % 2 == 0 { "keep" } else { marker };
        let id = format!("t{number}");
        let parent = number.checked_sub(2).map(|before| format!("t{before}"));
        let mut turn = turn(&id, label, parent.as_deref());
        if label == marker {
            turn.messages[0].blocks =
                vec![Block::text(format!("{marker} {id}")), Block::text(marker.repeat(6_000))];
            turn.tool_calls[0].params = raw(&format!(r#"{{"path":"{marker}"}}"#));
            turn.settings.permissions_granted = format!(r#"["{marker}"]"#);
            let metadata = json!({ "name": marker }).to_string();
            turn.settings.metadata = Some(Metadata::parse("metadata", &metadata).unwrap());
        }
        fixture.commit(turn).await.unwrap();
    }
    assert_eq!(finds(&fixture, marker).await, 3);
    let options = DeleteSessionOptions { turns: true, dry_run: false, secure: true };
    let done = fixture.ledger.delete(Deletion::Session(marker.to_owned(), options)).await.unwrap();
    assert_eq!((done.turns, done.blobs, done.overwritten), (3, 1, true));
    for name in ["ledger.db", "ledger.db-wal"] {
        let bytes = std::fs::read(fixture.folder.path().join(name)).unwrap_or_default();
        assert!(memchr::memmem::find(&bytes, marker.as_bytes()).is_none(), "{name}");
    }
    assert_eq!(finds(&fixture, marker).await, 0);
    assert_eq!(fixture.ledger.verify().await.unwrap().problems, []);
}

#[tokio::test]
async fn the_next_deletion_finishes_one_that_was_cut_off_and_spares_a_new_session_of_that_name() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    fixture.commit(turn("t2", "main", Some("t1"))).await.unwrap();
    let core = fixture.ledger.core().unwrap();
    let cut_off = |connection: &rusqlite::Connection| {
        let session = PlannedSession {
            label: "main".to_owned(),
            threads: Some(Vec::new()),
            runs: Vec::new(),
        };
        sessions::hide(connection, &session, &Clock::fixed(NOW + 20))
    };
    assert!(core.writer.submit(cut_off).await.unwrap());
    assert_eq!(fixture.ledger.verify().await.unwrap().problems, []);
    assert_eq!(fixture.ledger.session("main").await.unwrap(), None);
    let mut anew = turn("t3", "main", None);
    anew.completed_at = NOW + 30;
    fixture.commit(anew).await.unwrap();
    let prune = PruneOptions { before: 0, keep: 0, dry_run: false, secure: false };
    let done = fixture.ledger.delete(Deletion::Prune(prune)).await.unwrap();
    assert_eq!(done, LedgerDeletion::default());
    let listed = fixture.ledger.turns(TurnFilter::default()).await.unwrap();
    assert_eq!(listed.items.iter().map(|turn| turn.id.as_str()).collect::<Vec<_>>(), ["t3"]);
    let session = fixture.ledger.session("main").await.unwrap().unwrap();
    assert_eq!(session.thread_id.as_deref(), Some("t3"));
    assert_eq!(fixture.ledger.verify().await.unwrap().problems, []);
}
