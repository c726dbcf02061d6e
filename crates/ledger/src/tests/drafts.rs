//! The drafts that killed processes leave: the next open removes them. A file that a living process may own must never be
//! removed.

use std::fs::{self, File};
use std::time::{Duration, UNIX_EPOCH};

use super::*;
use crate::open::draft;

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !matches!(name.as_str(), "ledger.db" | "ledger.db-wal" | "ledger.db-shm"))
        .collect();
    names.sort();
    names
}

#[test]
fn drafts_of_dead_processes_are_removed_and_all_others_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let clock = Clock::default();
    let own = draft::name(&path, &clock);
    let own = own.file_name().unwrap().to_str().unwrap().to_owned();
    let pid = std::process::id().to_string();
    // The same draft of a process that cannot exist: its pid is too large.
    let dead = own.replacen(&format!("-{pid}-"), &format!("-{}-", i32::MAX), 1);
    let cut = own.rfind('-').unwrap();
    let elsewhere = format!("{}-{:016x}", &own[..cut], 7);
    let elsewhere_old = format!("{elsewhere}-wal");
    let id = clock.new_id();
    let unnamed = format!("ledger.db.new-{id}");
    let unnamed_old = format!("ledger.db.new-{}", clock.new_id());
    let others =
        ["ledger.db.new-backup", "ledger.db.new", "other.db.new-01ARZ3NDEKTSV4RRFFQ69G5FAV"];
    let left = [own.as_str(), &elsewhere, &unnamed];
    let gone = [format!("{dead}-journal"), format!("{dead}-wal"), dead, elsewhere_old, unnamed_old];
    for name in left.into_iter().chain(others).chain(gone.iter().map(String::as_str)) {
        fs::write(folder.path().join(name), "x").unwrap();
    }
    let long_ago = UNIX_EPOCH + Duration::from_millis(clock.now_ms().unsigned_abs())
        - Duration::from_secs(25 * 3_600);
    for name in gone.iter().map(String::as_str).chain(others).skip(3) {
        File::options()
            .write(true)
            .open(folder.path().join(name))
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
    }
    // A folder with that name is not a draft.
    fs::create_dir(folder.path().join(format!("ledger.db.new-{}", clock.new_id()))).unwrap();
    let opened = Ledger::open(&LedgerOptions::at(path), clock).unwrap();
    let mut expected: Vec<String> = left.into_iter().chain(others).map(str::to_owned).collect();
    expected
        .extend(names(folder.path()).into_iter().filter(|name| folder.path().join(name).is_dir()));
    expected.sort();
    assert_eq!(names(folder.path()), expected);
    drop(opened);
}
