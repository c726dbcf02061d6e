//! Opening: files that are created, shared, or refused and left unchanged, and the state after a kill.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rusqlite::Connection;

use super::*;
use crate::sqlite::schema::{self, Migration};
use model::StorageErrorKind;

/// The `sqlite3` command with the ledger open: another process, and another SQLite.
pub(super) struct Sqlite3 {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

/// `None`, with a printed note, if the command is not installed.
#[expect(clippy::disallowed_methods, reason = "a test's own child process")]
pub(super) fn sqlite3(path: &Path) -> Option<Sqlite3> {
    let mut command = Command::new("sqlite3");
    command.arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut child) = command.spawn() else {
        println!("skipped: no `sqlite3` command");
        return None;
    };
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    Some(Sqlite3 { child, stdin, stdout: BufReader::new(stdout) })
}

impl Sqlite3 {
    pub(super) fn send(&mut self, sql: &str) {
        writeln!(self.stdin, "{sql}").unwrap();
        self.stdin.flush().unwrap();
    }

    pub(super) fn receive(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Sqlite3 {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This test binary again, running one ignored test with `path` in its environment.
#[expect(clippy::disallowed_methods, reason = "a test's own child process")]
fn child(test: &str, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("tests::file::{test}"), "--ignored", "--nocapture"])
        .env("LEDGER_TEST_PATH", path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the parent passes it to the child of this test")]
fn path_of_child() -> Option<PathBuf> {
    std::env::var_os("LEDGER_TEST_PATH").map(PathBuf::from)
}

#[expect(clippy::disallowed_methods, reason = "a database that is not a ledger")]
fn plain_database(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("CREATE TABLE other (a); INSERT INTO other VALUES (1)").unwrap();
    connection
}

fn bytes(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(path.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

fn refused(path: &Path, kind: StorageErrorKind) -> String {
    let before = bytes(path);
    let error = open(path).unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    assert!(bytes(path) == before, "{error}");
    error.message
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn the_bundled_sqlite_has_the_fix_of_the_log_reset() {
    assert!(rusqlite::version_number() >= 3_051_003, "{}", rusqlite::version());
}

#[tokio::test]
async fn a_new_ledger_is_private_whole_and_in_its_own_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a/b/ledger.db");
    let ledger = open(&path).unwrap();
    ledger.commit(Box::new(turn("t1", "main", None))).await.unwrap();
    for name in ["ledger.db", "ledger.db-wal", "ledger.db-shm"] {
        assert_eq!(mode(&path.with_file_name(name)), 0o600, "{name}");
    }
    assert_eq!((mode(&folder.path().join("a")), mode(&folder.path().join("a/b"))), (0o700, 0o700));
    let names: Vec<_> = bytes(&path).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    assert_eq!(ledger.id().len(), 26);
    let first = &bytes(&path)[0].1;
    assert_eq!(first[68..72], schema::APPLICATION_ID.to_be_bytes());
    let version = u32::try_from(schema::MIGRATIONS.len()).unwrap();
    assert_eq!(first[60..64], version.to_be_bytes());
}

#[tokio::test]
async fn the_connection_has_the_documented_settings() {
    let fixture = Fixture::new();
    let core = fixture.ledger.core().unwrap();
    let settings = |names: &'static [&'static str]| {
        move |connection: &Connection| {
            Ok(names
                .iter()
                .map(|name| {
                    let value = connection
                        .query_row(&format!("PRAGMA {name}"), (), |row| {
                            row.get::<_, rusqlite::types::Value>(0)
                        })
                        .unwrap();
                    match value {
                        rusqlite::types::Value::Integer(number) => format!("{name}={number}"),
                        other => format!("{name}={other:?}"),
                    }
                })
                .collect::<Vec<_>>())
        }
    };
    let writing = core.writer.submit(settings(&[
        "synchronous",
        "foreign_keys",
        "trusted_schema",
        "cell_size_check",
        "temp_store",
        "busy_timeout",
        "journal_size_limit",
        "journal_mode",
        "wal_autocheckpoint",
    ]));
    assert_eq!(
        writing.await.unwrap(),
        [
            "synchronous=2",
            "foreign_keys=1",
            "trusted_schema=0",
            "cell_size_check=1",
            "temp_store=2",
            "busy_timeout=5000",
            "journal_size_limit=67108864",
            "journal_mode=Text(\"wal\")",
            "wal_autocheckpoint=0",
        ]
    );
    let read = settings(&["query_only", "foreign_keys", "trusted_schema", "busy_timeout"]);
    let reading = core.readers.with(|connection| read(connection)).unwrap();
    assert_eq!(
        reading,
        ["query_only=1", "foreign_keys=1", "trusted_schema=0", "busy_timeout=5000"]
    );
    let folder = tempfile::tempdir().unwrap();
    let options = LedgerOptions {
        synchronous: Synchronous::Normal,
        ..LedgerOptions::at(folder.path().join("n.db"))
    };
    let normal = Ledger::open(&options, Clock::default()).unwrap();
    let core = normal.core().unwrap();
    assert_eq!(core.writer.submit(settings(&["synchronous"])).await.unwrap(), ["synchronous=1"]);
}

#[test]
fn foreign_files_are_refused_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    fs::write(&path, "<!DOCTYPE html><html><body>404</body></html>".repeat(100)).unwrap();
    refused(&path, StorageErrorKind::Foreign);
    fs::write(&path, "x").unwrap();
    refused(&path, StorageErrorKind::Foreign);
    fs::write(&path, [0_u8; 8_192]).unwrap();
    refused(&path, StorageErrorKind::Foreign);
    fs::remove_file(&path).unwrap();
    drop(plain_database(&path));
    refused(&path, StorageErrorKind::Foreign);
    // A foreign database whose newest rows are in its log: closing must not copy them into the file.
    let other = plain_database(&folder.path().join("live.db"));
    other.execute_batch("PRAGMA journal_mode = WAL; INSERT INTO other VALUES (2)").unwrap();
    for suffix in ["", "-wal"] {
        fs::copy(
            folder.path().join(format!("live.db{suffix}")),
            folder.path().join(format!("ledger.db{suffix}")),
        )
        .unwrap();
    }
    refused(&path, StorageErrorKind::Foreign);
}

#[test]
fn an_empty_file_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    File::create(&path).unwrap();
    let message = refused(&path, StorageErrorKind::Corrupt);
    assert!(
        message.contains("restore a backup") && message.contains("remove the file"),
        "{message}"
    );
}

#[tokio::test]
async fn truncated_and_damaged_ledgers_are_refused_and_left_alone() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    fixture.ledger.close().await.unwrap();
    let whole = fs::read(fixture.path()).unwrap();
    for length in [10, 99, 100, 512, 4_096, 4_097, whole.len() - 4_096, whole.len() - 1] {
        fs::write(fixture.path(), &whole[..length]).unwrap();
        refused(&fixture.path(), StorageErrorKind::Corrupt);
    }
    let mut garbled = whole.clone();
    garbled[100..4_096].fill(0xa5);
    fs::write(fixture.path(), &garbled).unwrap();
    refused(&fixture.path(), StorageErrorKind::Corrupt);
    fs::write(fixture.path(), &whole).unwrap();
    assert!(open(&fixture.path()).unwrap().turn("t1").await.unwrap().is_some());
}

#[tokio::test]
async fn a_newer_ledger_is_refused_also_when_only_its_log_has_the_version() {
    let fixture = Fixture::new();
    fixture.ledger.close().await.unwrap();
    let old = fs::read(fixture.path()).unwrap();
    let mut newer = old.clone();
    newer[60..64].copy_from_slice(&1_000_u32.to_be_bytes());
    fs::write(fixture.path(), &newer).unwrap();
    let message = refused(&fixture.path(), StorageErrorKind::Newer);
    assert!(message.contains("`1000`") && message.contains("update"), "{message}");
    fs::write(fixture.path(), &old).unwrap();
    let Some(mut other) = sqlite3(&fixture.path()) else { return };
    other.send("PRAGMA user_version = 1001; SELECT 'done';");
    assert_eq!(other.receive(), "done");
    assert!(fixture.folder.path().join("ledger.db-wal").metadata().unwrap().len() > 0);
    let before = (
        fs::read(fixture.path()).unwrap(),
        fs::read(fixture.folder.path().join("ledger.db-wal")).unwrap(),
    );
    assert_eq!(open(&fixture.path()).unwrap_err().kind, StorageErrorKind::Newer);
    let after = (
        fs::read(fixture.path()).unwrap(),
        fs::read(fixture.folder.path().join("ledger.db-wal")).unwrap(),
    );
    assert!(before == after);
}

#[test]
fn folders_pipes_and_lost_logs_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(open(folder.path()).unwrap_err().kind, StorageErrorKind::Foreign);
    assert_eq!(open(Path::new("/dev/null")).unwrap_err().kind, StorageErrorKind::Foreign);
    assert_eq!(open(Path::new("/")).unwrap_err().kind, StorageErrorKind::Foreign);
    let path = folder.path().join("ledger.db");
    fs::write(folder.path().join("ledger.db-wal"), "the log of a ledger that was removed").unwrap();
    refused(&path, StorageErrorKind::Corrupt);
    assert!(!path.exists());
    // A path in the form of a URI is taken literally.
    let named = folder.path().join("file:x?mode=memory");
    open(&named).unwrap();
    assert!(named.exists());
}

#[tokio::test]
async fn a_read_only_file_system_is_reported_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    open(&path).unwrap().close().await.unwrap();
    let Some(_mount) = Mount::new(&["--bind", "-o", "ro"], folder.path(), folder.path()) else {
        return;
    };
    assert_eq!(open(&path).unwrap_err().kind, StorageErrorKind::ReadOnly);
    assert_eq!(open(&folder.path().join("new.db")).unwrap_err().kind, StorageErrorKind::ReadOnly);
}

#[tokio::test]
async fn a_small_disk_that_fills_up_is_reported_as_such_and_works_again() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-t", "tmpfs", "-o", "size=2m"];
    let Some(_mount) = Mount::new(&options, Path::new("tmpfs"), folder.path()) else { return };
    let ledger = open(&folder.path().join("ledger.db")).unwrap();
    ledger.commit(Box::new(turn("t1", "main", None))).await.unwrap();
    fs::write(folder.path().join("ballast"), vec![0_u8; 1_300 << 10]).unwrap();
    let mut large = turn("t2", "main", Some("t1"));
    large.messages[0].blocks = vec![Block::text(noise(200 << 10))];
    assert_eq!(ledger.commit(Box::new(large)).await.unwrap_err().kind, StorageErrorKind::Full);
    assert!(ledger.turn("t2").await.unwrap().is_none());
    fs::remove_file(folder.path().join("ballast")).unwrap();
    ledger.commit(Box::new(turn("t2", "main", Some("t1")))).await.unwrap();
    assert_eq!(ledger.session("main").await.unwrap().unwrap().thread_id.as_deref(), Some("t2"));
    ledger.close().await.unwrap();
}

/// A mount that ends with the test; `None`, with a printed note, if mounting is not allowed.
struct Mount(PathBuf);

impl Mount {
    #[expect(clippy::disallowed_methods, reason = "a test's own child process")]
    fn new(options: &[&str], from: &Path, to: &Path) -> Option<Self> {
        let done = Command::new("mount").args(options).arg(from).arg(to).output();
        if done.is_ok_and(|output| output.status.success()) {
            Some(Self(to.to_owned()))
        } else {
            println!("skipped: mounting is not allowed here");
            None
        }
    }
}

impl Drop for Mount {
    #[expect(clippy::disallowed_methods, reason = "a test's own child process")]
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).output();
    }
}

#[tokio::test]
async fn handles_of_one_file_share_one_ledger_until_the_last_is_closed() {
    let fixture = Fixture::new();
    let link = fixture.folder.path().join("link.db");
    std::os::unix::fs::symlink(fixture.path(), &link).unwrap();
    let hard = fixture.folder.path().join("hard.db");
    fs::hard_link(fixture.path(), &hard).unwrap();
    let others = [open(&fixture.path()).unwrap(), open(&link).unwrap(), open(&hard).unwrap()];
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    for other in &others {
        assert!(other.turn("t1").await.unwrap().is_some());
    }
    fixture.ledger.close().await.unwrap();
    others[0].commit(Box::new(turn("t2", "main", Some("t1")))).await.unwrap();
    drop(others);
    let again = open(&fixture.path()).unwrap();
    assert!(again.turn("t2").await.unwrap().is_some());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_file_that_something_else_in_this_process_holds_is_refused() {
    let fixture = Fixture::new();
    fixture.commit(turn("t1", "main", None)).await.unwrap();
    // While the ledger is open here, another handle shares it, also if other descriptors are open.
    let held = File::open(fixture.path()).unwrap();
    open(&fixture.path()).unwrap();
    fixture.ledger.close().await.unwrap();
    let message = refused(&fixture.path(), StorageErrorKind::InUse);
    assert!(message.contains("engine.ledger.query"), "{message}");
    drop(held);
    let again = open(&fixture.path()).unwrap();
    assert!(again.turn("t1").await.unwrap().is_some());
    again.close().await.unwrap();
    // The companion files are checked too.
    fs::write(fixture.folder.path().join("ledger.db-shm"), "").unwrap();
    let held = File::open(fixture.folder.path().join("ledger.db-shm")).unwrap();
    refused(&fixture.path(), StorageErrorKind::InUse);
    drop(held);
    open(&fixture.path()).unwrap();
}

#[test]
fn six_processes_that_open_a_new_path_at_once_get_one_ledger() {
    for round in 0..5 {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/ledger.db");
        let children: Vec<_> = (0..6).map(|_| child("child_that_opens", &path)).collect();
        let mut ids: Vec<_> = children
            .into_iter()
            .map(|child| {
                let output = child.wait_with_output().unwrap();
                let text = String::from_utf8(output.stdout).unwrap();
                text.split_once("id=").expect(&text).1[..26].to_owned()
            })
            .collect();
        ids.dedup();
        assert_eq!(ids.len(), 1, "round {round}: {ids:?}");
        // Two processes that close at the same time may each leave the log to the other. The next close removes it.
        drop(open(&path).unwrap());
        let names: Vec<_> = bytes(&path).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, [path.display().to_string()]);
    }
}

#[test]
#[ignore = "the child of another test"]
fn child_that_opens() {
    let Some(path) = path_of_child() else { return };
    println!("\nid={}", open(&path).unwrap().id());
}

#[tokio::test]
async fn a_killed_writer_loses_no_acknowledged_turn_and_leaves_no_half() {
    for kill_after in [1_usize, 17, 60] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.db");
        let mut child = child("child_that_writes", &path);
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut acknowledged = 0_usize;
        let mut line = String::new();
        while acknowledged < kill_after {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "the child ended early");
            acknowledged += usize::from(line.starts_with("ack "));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        acknowledged += rest.matches("ack ").count();
        let ledger = open(&path).unwrap();
        let history = Journal::history(&*ledger, "main", None, None).await.unwrap();
        let turns: Vec<_> = history.turns.iter().map(|turn| turn.id.clone()).collect();
        assert!(turns.len() >= acknowledged, "{} of {acknowledged}", turns.len());
        assert_eq!(turns, (0..turns.len()).map(|n| format!("t{n}")).collect::<Vec<_>>());
        assert!(history.turns.iter().all(|turn| turn.messages.len() == 4));
        let core = ledger.core().unwrap();
        let check = |connection: &mut Connection| {
            Ok(connection
                .query_row("PRAGMA integrity_check", (), |row| row.get::<_, String>(0))
                .unwrap())
        };
        assert_eq!(core.readers.with(check).unwrap(), "ok");
    }
}

#[tokio::test]
#[ignore = "the child of another test"]
async fn child_that_writes() {
    let Some(path) = path_of_child() else { return };
    let ledger = open(&path).unwrap();
    println!();
    let mut head: Option<String> = None;
    for number in 0.. {
        let id = format!("t{number}");
        let receipt = ledger.commit(Box::new(turn(&id, "main", head.as_deref()))).await.unwrap();
        println!("ack {id}");
        head = receipt.head;
    }
}

#[test]
fn migrations_go_forward_in_one_transaction_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let connection = plain_database(&folder.path().join("m.db"));
    let first = Migration::Sql("CREATE TABLE one (a)");
    schema::migrate(&connection, &[first]).unwrap();
    assert_eq!(schema::version(&connection).unwrap(), 1);
    let broken = Migration::Sql("CREATE TABLE two (a); CREATE TABLE two (a)");
    schema::migrate(&connection, &[first, broken]).unwrap_err();
    assert_eq!(schema::version(&connection).unwrap(), 1);
    assert!(connection.is_autocommit());
    schema::migrate(&connection, &[first, Migration::Sql("CREATE TABLE two (a)")]).unwrap();
    assert_eq!(schema::version(&connection).unwrap(), 2);
    let error = schema::migrate(&connection, &[first]).unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::Newer);
}
