//! The steps of a copy, as a ledger does them.

use super::*;
use model::CopyStep;

#[tokio::test]
async fn a_page_of_a_copy_ends_with_the_turn_that_exceeds_its_bytes() {
    let fixture = Fixture::new();
    for id in ["T1", "T2", "T3"] {
        let mut long = short_turn(id, id, None);
        long.messages[0].blocks = vec![Block::text("lorem ipsum ".repeat(750_000))];
        fixture.commit(long).await.unwrap();
    }
    let step = |step| fixture.ledger.copy_step(step);
    let ids = step(CopyStep::Ids { after: 0 }).await.unwrap().list;
    assert_eq!(ids, ["T1", "T2", "T3"]);
    let read = step(CopyStep::Turns(ids)).await.unwrap();
    assert_eq!((read.list.len(), read.last), (2, 2));
    let rest = step(CopyStep::Turns(vec!["T3".to_owned()])).await.unwrap();
    assert_eq!((rest.list.len(), rest.last), (1, 1));
}
