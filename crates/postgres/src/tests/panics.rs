//! The thread of a ledger after a panic: what it was in the middle of is undone, and its tasks run again.

use crate::connect::error::Failure;
use crate::tests::store::{Schema, fresh_schema};

#[tokio::test]
async fn a_connection_in_the_middle_of_a_transaction_is_not_used_again_after_a_panic() {
    let schema = fresh_schema();
    Schema::batch(&schema.ledger, "create table @test_marks (n int)".to_owned()).await;
    let panics = schema.ledger.submit::<(), _>(None, |server| async move {
        let begin = server.run("panic", async |client, _| -> Result<(), Failure> {
            client.batch_execute("begin").await?;
            panic!("a bug");
        });
        begin.await
    });
    assert!(panics.await.is_err());
    Schema::batch(&schema.ledger, "insert into @test_marks values (1)".to_owned()).await;
    // Over other connections than that of the write.
    let look = "select 1 from @test_marks";
    let looks = [0; 3].map(|_| Schema::run(&schema.ledger, format!("{look}, pg_sleep(0.05)")));
    let [one, two, three] = looks;
    let (one, two, three) = tokio::join!(one, two, three);
    assert_eq!([one.len(), two.len(), three.len()], [1, 1, 1]);
}
