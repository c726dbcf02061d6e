//! Histories: a damaged message in the chain.

use super::*;
use model::StorageErrorKind;

#[tokio::test]
async fn a_message_that_rotted_is_refused_and_never_sent() {
    let fixture = Fixture::new();
    fixture.commit(short_turn("t1", "main", None)).await.unwrap();
    fixture
        .ledger
        .core()
        .unwrap()
        .writer
        .submit(|connection| {
            connection
                .execute("UPDATE message_rows SET content = 'ask t2' WHERE key & 1048575 = 0", ())
                .map_err(|error| crate::sqlite::error::sqlite("rot", &error))
        })
        .await
        .unwrap();
    let error = Journal::history(&*fixture.ledger, "main", None, None).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Corrupt);
    assert!(error.message.contains("`t1-m0`"), "{}", error.message);
}
