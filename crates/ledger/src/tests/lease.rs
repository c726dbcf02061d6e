//! Leases between processes: several owners on one connection, with a clock that the test sets.

use std::sync::Arc;

use proptest::prelude::*;
use rusqlite::Connection;

use super::*;
use crate::lease::claim::{Claim, Held, held};
use crate::lease::owner::Owner;
use model::StorageErrorKind;

/// The claim of another process in another pid namespace, so that only the time shows its end.
fn other(fixture: &Fixture, id: &str, lease_ms: i64) -> Claim {
    let mine = fixture.ledger.core().unwrap().claim.clone();
    let owner = Owner {
        id: id.to_owned(),
        pid_space: format!("space of {id}"),
        ..mine.owner.as_ref().clone()
    };
    Claim { owner: Arc::new(owner), held: Held::default(), lease_ms, ..mine }
}

/// Runs `work` as a job of the writer.
async fn write<T: Send + 'static>(
    fixture: &Fixture,
    work: impl FnMut(&Connection) -> Result<T, StorageError> + Send + 'static,
) -> Result<T, StorageError> {
    fixture.ledger.core().unwrap().writer.submit(work).await
}

async fn session(fixture: &Fixture) {
    fixture.commit(turn("t1", "main", None)).await.unwrap();
}

#[tokio::test]
async fn a_lease_belongs_to_its_owner_until_it_is_released_or_expires() {
    let fixture = Fixture::new();
    session(&fixture).await;
    let (one, two) = (other(&fixture, "one", 60_000), other(&fixture, "two", 60_000));
    let epochs = write(&fixture, move |connection| {
        assert!(!two.is_busy(connection, "main")?);
        let first = one.take(connection, "main")?;
        assert!(two.is_busy(connection, "main")?);
        one.check(connection, "main", first)?;
        one.release(connection, "main", first)?;
        assert!(!two.is_busy(connection, "main")?);
        let second = two.take(connection, "main")?;
        let stale = one.check(connection, "main", first).unwrap_err();
        assert_eq!(stale.kind, StorageErrorKind::StaleWriter);
        // A stale epoch releases nothing and renews nothing.
        one.release(connection, "main", first)?;
        one.renew(connection, "main", first)?;
        two.check(connection, "main", second)?;
        Ok((first, second))
    })
    .await
    .unwrap();
    assert_eq!(epochs, (1, 2));

    let (gone, next) = (other(&fixture, "gone", 0), other(&fixture, "next", 60_000));
    write(&fixture, move |connection| {
        let lost = gone.take(connection, "main")?;
        assert!(!next.is_busy(connection, "main")?, "it ended as it began");
        // No other process has taken the lease, so its owner may still write.
        gone.check(connection, "main", lost)?;
        let taken = next.take(connection, "main")?;
        let stale = gone.check(connection, "main", lost).unwrap_err();
        assert_eq!(stale.kind, StorageErrorKind::StaleWriter);
        next.check(connection, "main", taken)
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn the_lease_of_a_dead_process_is_free_at_once() {
    let fixture = Fixture::new();
    session(&fixture).await;
    let mine = fixture.ledger.core().unwrap().claim.clone();
    let gone =
        Owner { id: "gone".to_owned(), pid: i64::from(i32::MAX), ..mine.owner.as_ref().clone() };
    let dead = Claim { owner: Arc::new(gone), held: Held::default(), ..mine.clone() };
    let busy = write(&fixture, move |connection| {
        dead.take(connection, "main")?;
        mine.is_busy(connection, "main")
    })
    .await
    .unwrap();
    assert_eq!(busy, !cfg!(target_os = "linux"));
}

#[tokio::test]
async fn an_own_lease_without_a_run_is_free_and_a_held_one_is_busy() {
    let fixture = Fixture::new();
    session(&fixture).await;
    let mine = fixture.ledger.core().unwrap().claim.clone();
    let (epoch, busy) = write(&fixture, move |connection| {
        let epoch = mine.take(connection, "main")?;
        let free = mine.is_busy(connection, "main")?;
        held(&mine.held).insert("main".to_owned(), epoch);
        let busy = mine.is_busy(connection, "main")?;
        held(&mine.held).clear();
        Ok((epoch, (free, busy)))
    })
    .await
    .unwrap();
    assert_eq!((epoch, busy), (1, (false, true)));
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Take(usize),
    Write(usize),
    GiveBack(usize),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For all actions of three processes whose leases expire at once: only the newest epoch writes, and epochs only grow.
    #[test]
    fn only_the_newest_epoch_writes(acts in proptest::collection::vec(
        (0..3_usize, 0..3_u8).prop_map(|(who, act)| match act {
            0 => Act::Take(who),
            1 => Act::Write(who),
            _ => Act::GiveBack(who),
        }), 1..40))
    {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new();
            session(&fixture).await;
            let claims: Vec<Claim> =
                ["a", "b", "c"].iter().map(|id| other(&fixture, id, 0)).collect();
            write(&fixture, move |connection| {
                let mut epochs = [0_i64; 3];
                let (mut newest, mut owner) = (0, None);
                for act in &acts {
                    match *act {
                        Act::Take(who) => {
                            epochs[who] = claims[who].take(connection, "main")?;
                            assert_eq!(epochs[who], newest + 1);
                            (newest, owner) = (epochs[who], Some(who));
                        }
                        Act::Write(who) => {
                            let may = claims[who].check(connection, "main", epochs[who]).is_ok();
                            assert_eq!(may, owner == Some(who) && epochs[who] == newest);
                        }
                        Act::GiveBack(who) => {
                            claims[who].release(connection, "main", epochs[who])?;
                            if owner == Some(who) {
                                owner = None;
                            }
                        }
                    }
                }
                Ok(())
            })
            .await
            .unwrap();
        });
    }
}
