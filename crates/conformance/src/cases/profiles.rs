//! Auth profiles and token ratios: shared by all processes and persistent. A change must never be lost to a concurrent one.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::store::{Fixture, ProcessEnd};
use crate::turns::{NOW, short_turn};
use model::{
    FailureKind, LedgerPorts, ProfileChange, ProfileUsage, ProfileWindow, RateChange, TokenRatio,
};

async fn usage(ledger: &LedgerPorts) -> Vec<(String, ProfileUsage)> {
    let mut all = ledger.profiles.usage().await.unwrap();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    all
}

fn one_more() -> ProfileChange {
    Box::new(|usage| usage.failures += 1)
}

pub async fn the_state_of_a_profile_is_shared_by_all_processes_and_persists(mut fixture: Fixture) {
    assert_eq!(usage(&fixture.ledger).await, []);
    let window = |model: Option<&str>| ProfileWindow {
        model: model.map(ToOwned::to_owned),
        reason: FailureKind::RateLimit,
        from: NOW,
        until: NOW + 30_000,
    };
    let state = ProfileUsage {
        last_used_at: Some(NOW - 5),
        last_failure_at: Some(NOW),
        failures: 2,
        refusals: 1,
        windows: vec![window(Some("m")), window(None)],
    };
    let stored = state.clone();
    let change: ProfileChange = Box::new(move |usage| usage.clone_from(&stored));
    assert_eq!(fixture.ledger.profiles.change("one", change).await.unwrap(), state);
    let elsewhere = fixture.store.other_process().await;
    let other = elsewhere.profiles.change("two", one_more()).await.unwrap();
    assert_eq!(other, ProfileUsage { failures: 1, ..ProfileUsage::default() });
    let expected = [("one".to_owned(), state), ("two".to_owned(), other)];
    assert_eq!(usage(&fixture.ledger).await, expected);
    assert_eq!(usage(&elsewhere).await, expected);
    for end in [ProcessEnd::Closed, ProcessEnd::Killed] {
        fixture.next_process(end).await;
        assert_eq!(usage(&fixture.ledger).await, expected);
    }
}

pub async fn changes_of_a_profile_in_two_processes_are_all_counted(mut fixture: Fixture) {
    let elsewhere = fixture.store.other_process().await;
    for _ in 0..8 {
        let (here, there) = (
            fixture.ledger.profiles.change("key", one_more()),
            elsewhere.profiles.change("key", one_more()),
        );
        // Both are submitted before either is awaited.
        here.await.unwrap();
        there.await.unwrap();
    }
    let counted = ProfileUsage { failures: 16, ..ProfileUsage::default() };
    assert_eq!(usage(&fixture.ledger).await, [("key".to_owned(), counted)]);
}

pub async fn a_submitted_change_takes_effect_without_being_awaited(fixture: Fixture) {
    drop(fixture.ledger.profiles.change("key", Box::new(|usage| usage.refusals = 7)));
    let after = fixture.ledger.profiles.change("key", one_more()).await.unwrap();
    assert_eq!(after, ProfileUsage { failures: 1, refusals: 7, ..ProfileUsage::default() });
}

pub async fn a_use_is_written_with_the_next_change_and_never_decreases(fixture: Fixture) {
    for at in [NOW + 5, NOW, NOW + 3] {
        fixture.ledger.profiles.used("key", at);
    }
    fixture.commit(short_turn("t1", "main", None)).await.unwrap();
    let used = ProfileUsage { last_used_at: Some(NOW + 5), ..ProfileUsage::default() };
    assert_eq!(usage(&fixture.ledger).await, [("key".to_owned(), used)]);
}

pub async fn a_token_ratio_replaces_the_previous_one_of_its_model_in_every_process(
    mut fixture: Fixture,
) {
    let ratio = |provider: &str, model: &str, per_mille: u32| TokenRatio {
        provider: provider.to_owned(),
        model: model.to_owned(),
        per_mille,
        samples: per_mille / 100,
        updated_at: NOW + i64::from(per_mille),
    };
    let elsewhere = fixture.store.other_process().await;
    for (ledger, stored) in [
        (&fixture.ledger, ratio("a", "m", 900)),
        (&elsewhere, ratio("b", "m", 1_100)),
        (&fixture.ledger, ratio("a", "n", 1_000)),
        (&elsewhere, ratio("a", "m", 1_250)),
    ] {
        ledger.ratios.store_ratio(stored).await.unwrap();
    }
    let expected = [ratio("a", "m", 1_250), ratio("a", "n", 1_000), ratio("b", "m", 1_100)];
    let sorted = |mut all: Vec<TokenRatio>| {
        let key = |it: &TokenRatio| (it.provider.clone(), it.model.clone());
        all.sort_by_key(key);
        all
    };
    for ledger in [&fixture.ledger, &elsewhere] {
        assert_eq!(sorted(ledger.ratios.ratios().await.unwrap()), expected);
    }
    fixture.next_process(ProcessEnd::Killed).await;
    assert_eq!(sorted(fixture.ledger.ratios.ratios().await.unwrap()), expected);
}

/// Adds one to the number that is stored.
fn one_more_call() -> RateChange {
    Box::new(|state, _| (state.map_or(0, |state| state.parse::<u64>().unwrap()) + 1).to_string())
}

pub async fn the_limits_of_a_queue_are_changed_by_one_process_after_the_other(
    mut fixture: Fixture,
) {
    let elsewhere = fixture.store.other_process().await;
    assert_eq!(fixture.ledger.profiles.rates("one").await.unwrap(), (None, NOW));
    for _ in 0..8 {
        let (here, there) = (
            fixture.ledger.profiles.change_rates("one", one_more_call()),
            elsewhere.profiles.change_rates("one", one_more_call()),
        );
        // Both are submitted before either is awaited.
        here.await.unwrap();
        there.await.unwrap();
    }
    drop(fixture.ledger.profiles.change_rates("two", one_more_call()));
    fixture.store.advance(Duration::from_secs(5));
    let seen = Arc::new(Mutex::new(0));
    let at = Arc::clone(&seen);
    let change: RateChange = Box::new(move |state, now| {
        *at.lock().unwrap() = now;
        state.unwrap_or("none").to_owned()
    });
    elsewhere.profiles.change_rates("one", change).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), NOW + 5_000);
    for end in [ProcessEnd::Closed, ProcessEnd::Killed] {
        fixture.next_process(end).await;
        let profiles = &fixture.ledger.profiles;
        assert_eq!(profiles.rates("one").await.unwrap(), (Some("16".to_owned()), NOW + 5_000));
        assert_eq!(profiles.rates("two").await.unwrap().0.as_deref(), Some("1"));
    }
}
