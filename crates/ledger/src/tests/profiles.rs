//! The windows of profiles between processes whose wall clock is changed: within a boot the shared clock decides.

use std::sync::atomic::Ordering::SeqCst;

use super::*;
use base::clock::TestTimes;
use model::{FailureKind, ProfileStore, ProfileUsage, ProfileWindow};

const DAY: i64 = 86_400_000;

fn window(from: i64, until: i64) -> ProfileWindow {
    ProfileWindow { model: None, reason: FailureKind::RateLimit, from, until }
}

async fn windows(ledger: &Ledger) -> Vec<ProfileWindow> {
    let all = ProfileStore::usage(ledger).await.unwrap();
    all.into_iter().flat_map(|(_, usage)| usage.windows).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_ends_by_the_shared_clock_independent_of_the_wall_clock() {
    let times = Arc::new(TestTimes::default());
    times.wall.store(NOW, SeqCst);
    times.shared.store(1_000_000, SeqCst);
    let folder = tempfile::tempdir().unwrap();
    let options = LedgerOptions::at(folder.path().join("ledger.db"));
    let ledger = Ledger::open(&options, Clock::set(&times)).unwrap();
    let made = |usage: &mut ProfileUsage| usage.windows = vec![window(NOW, NOW + 30_000)];
    ledger.change("key", Box::new(made)).await.unwrap();
    for (wall, elapsed) in [(NOW - 30 * DAY, 0), (NOW + 400 * DAY, 10_000), (NOW - 3_000, 29_999)] {
        times.wall.store(wall, SeqCst);
        times.shared.store(1_000_000 + elapsed, SeqCst);
        assert_eq!(windows(&ledger).await, [window(wall - elapsed, wall - elapsed + 30_000)]);
        // A change of another field rewrites the row without changing the window.
        let other = ledger.change("key", Box::new(|usage| usage.failures += 1)).await.unwrap();
        assert_eq!(other.windows, [window(wall - elapsed, wall - elapsed + 30_000)]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_window_of_an_earlier_boot_or_of_an_older_version_is_read_by_the_wall_clock() {
    let fixture = Fixture::new();
    let core = fixture.ledger.core().unwrap();
    for (id, more) in [("a", ""), ("b", r#","boot_id":"earlier","began_at":77"#)] {
        let json = format!(
            r#"[{{"model":null,"reason":"rate_limit","from":{NOW},"until":{}{more}}}]"#,
            NOW + 9
        );
        let insert = move |connection: &rusqlite::Connection| {
            connection
                .execute(
                    "INSERT INTO auth_profile_usage (profile_id, windows_json) VALUES (?1, ?2)",
                    (id, &json),
                )
                .map(drop)
                .map_err(|error| crate::sqlite::error::sqlite("insert", &error))
        };
        core.writer.submit(insert).await.unwrap();
    }
    assert_eq!(windows(&fixture.ledger).await, [window(NOW, NOW + 9), window(NOW, NOW + 9)]);
}
