//! Deletion in the tables of the schema: every table is decided, and one that was cut off is finished.

use std::collections::BTreeSet;

use ::conformance::turns::{NOW, turn};
use model::{Deletion, LedgerDeletion, PruneOptions, TurnFilter};

use crate::deletion::owned_rows::{BY_ITSELF, OF_SESSION, OF_TURN};
use crate::tests::store::{Schema, fresh_schema};

/// They belong to no turn and no session.
const LEFT: &[&str] = &[
    "ledger",
    "auth_profiles",
    "token_ratios",
    "rate_queues",
    "listeners",
    "personas",
    "queue_events",
    "schedules",
    "budget_accounts",
    "budget_reservations",
    "memory_scopes",
    "memory_models",
    "memory_forgotten",
    "memory_state",
    "test_clock",
];

#[tokio::test]
async fn every_table_is_deleted_with_its_turn_or_its_session_or_has_a_reason_to_stay() {
    let schema = fresh_schema();
    let tables = "select relname::text from pg_class where relkind = 'r' and relnamespace = current_schema::regnamespace";
    let tables = tables.replace("current_schema", &format!("'{}'", schema.name));
    let rows = Schema::run(&schema.ledger, tables).await;
    let found: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    let decided = [OF_TURN, OF_SESSION, BY_ITSELF, LEFT].concat();
    let decided: BTreeSet<String> = decided.into_iter().map(ToOwned::to_owned).collect();
    assert_eq!(found, decided);
}

#[tokio::test]
async fn the_next_deletion_finishes_one_that_was_cut_off_and_spares_a_new_session_of_that_name() {
    let schema = fresh_schema();
    let ports = model::LedgerPorts::of(&schema.ledger);
    let commit = async |turn| ports.journal.commit(Box::new(turn)).await.unwrap();
    commit(turn("t1", "main", None)).await;
    commit(turn("t2", "main", Some("t1"))).await;
    let cut_off = format!(
        "update @sessions set head = null, opening = true where label = 'main';
         delete from @session_moves where session_label = 'main';
         insert into @pending_deletions values ('main', '{{}}', {})",
        NOW + 20
    );
    Schema::batch(&schema.ledger, cut_off).await;
    assert_eq!(ports.admin.verify().await.unwrap().problems, []);
    assert_eq!(ports.read.session("main").await.unwrap(), None);
    let mut anew = turn("t3", "main", None);
    anew.completed_at = NOW + 30;
    commit(anew).await;
    let prune = PruneOptions { before: 0, keep: 0, dry_run: false, secure: false };
    let done = ports.admin.delete(Deletion::Prune(prune)).await.unwrap();
    assert_eq!(done, LedgerDeletion::default());
    let listed = ports.read.turns(TurnFilter::default()).await.unwrap();
    assert_eq!(listed.items.iter().map(|turn| turn.id.as_str()).collect::<Vec<_>>(), ["t3"]);
    let session = ports.read.session("main").await.unwrap().unwrap();
    assert_eq!(session.thread_id.as_deref(), Some("t3"));
    assert_eq!(ports.admin.verify().await.unwrap().problems, []);
}
