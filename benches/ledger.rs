//! The ledger's figures (docs/rules/performance.md#targets, W6): one turn of nine rows, in one commit and by its commit
//! points, many concurrent sessions, long histories, the first call of a process, size.
//!
//! Each commit is compared with its floor: the same nine rows through rusqlite only, on this thread. It must never run on a
//! file system in memory, where a sync costs nothing. `cargo bench --bench ledger -- --sample-count 1` is a quick run.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark: it may stop at the first error, opens a plain database as its floor, and prints"
)]

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::clock::Clock;
use divan::counter::ItemsCount;
use ledger::{Ledger, LedgerOptions, Synchronous};
use model::{
    AgentRole, Block, CallStep, CompactionCommit, CompactionResult, CompactionUsage, Journal,
    LedgerAdmin, LedgerRead, Message, OnStaleHead, Opened, Provenance, ReplayClass, Role,
    SearchOptions, StopReason, TokenUsage, ToolCallRecord, ToolCallStatus, TurnEnd, TurnHeader,
    TurnOpening, TurnSettings, TurnStatus, TurnStep,
};
use rusqlite::Connection;
use serde_json::value::RawValue;
use tokio::runtime::Runtime;

fn main() {
    println!("load average {}", std::fs::read_to_string("/proc/loadavg").unwrap_or_default());
    log_per_turn();
    size();
    divan::main();
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

fn open(path: &Path, synchronous: Synchronous) -> Arc<Ledger> {
    Ledger::open(
        &LedgerOptions { synchronous, ..LedgerOptions::at(path.to_owned()) },
        Clock::default(),
    )
    .unwrap()
}

fn text(length: usize) -> String {
    "The quick brown fox jumps over the lazy dog. ".repeat(length / 45 + 1)[..length].to_owned()
}

/// The turn of docs/rules/performance.md: a question of 200 characters, two answers of 400, a result of 600, two calls.
fn turn(clock: &Clock, label: &str, parent: Option<String>) -> Box<TurnEnd> {
    let id = clock.new_id();
    let message = |role, sequence, blocks| Message {
        id: clock.new_id(),
        role,
        blocks,
        sequence,
        created_at: 1_780_000_000_000,
        provenance: (role == Role::Assistant).then(|| Provenance {
            provider: "anthropic".to_owned(),
            api: "anthropic-messages".to_owned(),
            model: "claude-sonnet-4".to_owned(),
            response_id: None,
        }),
        provider_stop_reason: None,
    };
    let requested = |name: &str, call: &str, arguments: &str| Block::ToolCall {
        id: call.to_owned(),
        name: name.to_owned(),
        arguments_json: arguments.to_owned(),
        incomplete: false,
        provider_data: None,
    };
    let (read, list) = (r#"{"path":"/home/me/space/a.ts"}"#, r#"{"command":"ls -la"}"#);
    let messages = vec![
        message(Role::User, 0, vec![Block::text(text(200))]),
        message(
            Role::Assistant,
            1,
            vec![
                Block::text(text(400)),
                requested("read", "call_0", read),
                requested("bash", "call_1", list),
            ],
        ),
        message(
            Role::Tool,
            2,
            vec![Block::ToolResult {
                tool_call_id: "call_0".to_owned(),
                tool_name: "read".to_owned(),
                content: vec![Block::text(text(600))],
                is_error: false,
            }],
        ),
        message(Role::Assistant, 3, vec![Block::text(text(400))]),
    ];
    let call = |sequence, name: &str, params: &str| ToolCallRecord {
        id: format!("call_{sequence}"),
        tool_name: name.to_owned(),
        params: RawValue::from_string(params.to_owned()).unwrap(),
        result: Some(
            RawValue::from_string(serde_json::json!({ "text": text(600) }).to_string()).unwrap(),
        ),
        error: None,
        status: ToolCallStatus::Completed,
        started_at: 1,
        completed_at: Some(2),
        sequence,
        spawned_session_label: None,
        call_id: clock.new_id(),
        message_id: messages[1].id.clone(),
    };
    Box::new(TurnEnd {
        header: TurnHeader {
            run_id: clock.new_id(),
            session_label: label.to_owned(),
            expected_head: parent.clone(),
            parent_turn_id: parent,
            started_at: 1_780_000_000_000,
            role: AgentRole::Unified,
            toolset_name: "full".to_owned(),
            source_event_id: Some(format!("ev{id}")),
            workspace_path: "/home/me/space".to_owned(),
        },
        settings: TurnSettings {
            provider: "anthropic".to_owned(),
            model: "claude-sonnet-4".to_owned(),
            tools_available: ["read", "write", "edit", "bash", "grep", "find", "ls", "task"]
                .map(str::to_owned)
                .to_vec(),
            permissions_granted: r#"[{"fs":["read","write"],"net":[]}]"#.to_owned(),
            metadata: None,
            layers: None,
        },
        move_pointer: true,
        status: TurnStatus::Completed,
        stop_reason: StopReason::EndTurn,
        completed_at: 1_780_000_000_005,
        usage: TokenUsage::new(1_000, 200, 900, 100, 0),
        usage_estimated: false,
        context_tokens: Some(2_200),
        cost: Some(0.01),
        query_message_ids: vec![messages[0].id.clone()],
        response_message_id: Some(messages[3].id.clone()),
        error: None,
        attempts: Vec::new(),
        tool_calls: vec![call(0, "read", read), call(1, "bash", list)],
        messages,
        tool_call_count: 2,
        compaction: None,
        epoch: None,
        on_stale_head: OnStaleHead::Refuse,
        last_event: None,
        cache: None,
        queue: None,
        permissions_used: None,
        has_approvals: false,
        turn_id: id,
    })
}

#[divan::bench(args = ["FULL", "NORMAL"], sample_count = 500)]
fn commit_one_turn(bencher: divan::Bencher<'_, '_>, mode: &str) {
    let (folder, runtime, clock) = (folder(), runtime(), Clock::default());
    let synchronous = if mode == "FULL" { Synchronous::Full } else { Synchronous::Normal };
    let ledger = open(&folder.path().join("ledger.db"), synchronous);
    let head = RefCell::new(None);
    bencher
        .counter(ItemsCount::new(1_usize))
        .with_inputs(|| turn(&clock, "main", head.borrow().clone()))
        .bench_local_values(|turn| {
            *head.borrow_mut() = runtime.block_on(ledger.commit(turn)).unwrap().head;
        });
}

/// The same turn by its commit points: W0, W1 with W2, W3, W4. It waits for each, as a run with one tool round does.
async fn journalled(ledger: &Ledger, turn: &TurnEnd) -> Option<String> {
    let opening = TurnOpening {
        turn_id: turn.turn_id.clone(),
        header: turn.header.clone(),
        settings: turn.settings.clone(),
        messages: turn.messages[..1].to_vec(),
        context: r#"{"systemPrompt":"s","model":"claude-sonnet-4","maxIterations":25}"#.to_owned(),
        target: None,
        items: Vec::new(),
        named: Vec::new(),
    };
    let Opened::Leased(epoch) = ledger.begin(Box::new(opening)).await.unwrap() else {
        panic!("the session is free");
    };
    let step = |messages: std::ops::Range<usize>, status| {
        let calls = turn.tool_calls.iter().map(|call| CallStep {
            row: ToolCallRecord { status, ..call.clone() },
            replay: Some(ReplayClass::Idempotent),
            arguments_hash: Some("0123456789abcdef0123456789abcdef".to_owned()),
        });
        Box::new(TurnStep {
            turn_id: turn.turn_id.clone(),
            session_label: turn.header.session_label.clone(),
            epoch,
            messages: turn.messages[messages].to_vec(),
            calls: calls.collect(),
            progress: Some(r#"{"iterations":1}"#.to_owned()),
            parking: None,
            items: Vec::new(),
            layers: Vec::new(),
        })
    };
    ledger.record(step(1..2, ToolCallStatus::Running)).await.unwrap();
    ledger.record(step(2..3, ToolCallStatus::Completed)).await.unwrap();
    let mut ended = turn.clone();
    ended.messages.drain(..3);
    ended.tool_calls.clear();
    ended.epoch = Some(epoch);
    ledger.commit(Box::new(ended)).await.unwrap().head
}

#[divan::bench(args = ["FULL", "NORMAL"], sample_count = 200)]
fn journal_one_turn(bencher: divan::Bencher<'_, '_>, mode: &str) {
    let (folder, runtime, clock) = (folder(), runtime(), Clock::default());
    let synchronous = if mode == "FULL" { Synchronous::Full } else { Synchronous::Normal };
    let ledger = open(&folder.path().join("ledger.db"), synchronous);
    let head = RefCell::new(None);
    bencher
        .counter(ItemsCount::new(1_usize))
        .with_inputs(|| turn(&clock, "main", head.borrow().clone()))
        .bench_local_values(|turn| {
            *head.borrow_mut() = runtime.block_on(journalled(&ledger, &turn));
        });
}

/// The same nine rows, prepared once, without the writer thread and the engine's checks.
#[divan::bench(args = ["FULL", "NORMAL"], sample_count = 500)]
fn floor_one_turn(bencher: divan::Bencher<'_, '_>, mode: &str) {
    let (folder, clock) = (folder(), Clock::default());
    let connection = Connection::open(folder.path().join("floor.db")).unwrap();
    connection
        .execute_batch(&format!("PRAGMA journal_mode = WAL; PRAGMA synchronous = {mode}; {FLOOR}"))
        .unwrap();
    let (user, answer, result) = (text(200), text(400), text(600));
    let now = Cell::new(1_780_000_000_000_i64);
    let parent = RefCell::new(None::<String>);
    bencher.with_inputs(|| std::array::from_fn::<_, 7, _>(|_| clock.new_id())).bench_local_refs(|ids| {
        now.set(now.get() + 1);
        let run = |sql: &str, params: &[&dyn rusqlite::ToSql]| {
            connection.prepare_cached(sql).unwrap().execute(params).unwrap();
        };
        let at = now.get();
        run("BEGIN IMMEDIATE", &[]);
        run(
            "INSERT INTO turns VALUES (?1, ?2, 'normal', 'completed', ?3, ?3, 'claude-sonnet-4', 'anthropic', 'unified', 'full', ?4, 1000, 200, 900, 100, 0, 2200, ?5, ?5)",
            &[&ids[0], &*parent.borrow(), &at, &r#"["read","write","edit","bash","grep","find","ls","task"]"#, &ids[1]],
        );
        for (index, (role, content)) in
            [("user", &user), ("assistant", &answer), ("tool", &result), ("assistant", &answer)].into_iter().enumerate()
        {
            run("INSERT INTO messages VALUES (?1, ?2, ?3, ?4, ?5, ?6)", &[&ids[index + 1], &ids[0], &role, content, &sequence(index), &at]);
        }
        for index in 0..2 {
            run(
                "INSERT INTO tool_calls VALUES (?1, ?2, ?3, 'read', '{\"path\":\"/home/me/space/a.ts\"}', ?4, 'completed', ?5, ?5, ?6)",
                &[&ids[index + 5], &ids[0], &ids[2], &result, &at, &sequence(index)],
            );
        }
        run(
            "INSERT INTO sessions VALUES ('main', ?1, ?2) ON CONFLICT (label) DO UPDATE SET thread_id = ?1, updated_at = ?2",
            &[&ids[0], &at],
        );
        run("INSERT INTO session_history (session_label, thread_id, changed_at) VALUES ('main', ?1, ?2)", &[&ids[0], &at]);
        run("COMMIT", &[]);
        *parent.borrow_mut() = Some(ids[0].clone());
    });
}

const FLOOR: &str = "
CREATE TABLE turns (id TEXT PRIMARY KEY, parent TEXT, turn_type TEXT, status TEXT, started_at INTEGER, completed_at INTEGER, model TEXT, provider TEXT, role TEXT, toolset TEXT, tools TEXT, a INTEGER, b INTEGER, c INTEGER, d INTEGER, e INTEGER, f INTEGER, query TEXT, response TEXT) STRICT;
CREATE TABLE messages (id TEXT PRIMARY KEY, turn_id TEXT, role TEXT, content TEXT, sequence INTEGER, created_at INTEGER, UNIQUE (turn_id, sequence)) STRICT;
CREATE TABLE tool_calls (id TEXT PRIMARY KEY, turn_id TEXT, message_id TEXT, tool_name TEXT, params TEXT, result TEXT, status TEXT, started_at INTEGER, completed_at INTEGER, sequence INTEGER, UNIQUE (turn_id, sequence)) STRICT;
CREATE TABLE sessions (label TEXT PRIMARY KEY, thread_id TEXT, updated_at INTEGER) STRICT, WITHOUT ROWID;
CREATE TABLE session_history (id INTEGER PRIMARY KEY, session_label TEXT, thread_id TEXT, changed_at INTEGER) STRICT;
";

/// Turns of many concurrent sessions: the turns of one transaction are synced once.
fn sessions_at_once(
    bencher: divan::Bencher<'_, '_>,
    (mode, sessions): (&str, usize),
    one: impl AsyncFn(&Ledger, Box<TurnEnd>) -> Option<String>,
) {
    let (folder, runtime, clock) = (folder(), runtime(), Clock::default());
    let synchronous = if mode == "FULL" { Synchronous::Full } else { Synchronous::Normal };
    let ledger = open(&folder.path().join("ledger.db"), synchronous);
    let heads = RefCell::new(vec![None; sessions]);
    bencher
        .counter(ItemsCount::new(sessions))
        .with_inputs(|| {
            let heads = heads.borrow();
            let turns = heads.iter().enumerate();
            turns
                .map(|(at, head)| turn(&clock, &format!("s{at}"), head.clone()))
                .collect::<Vec<_>>()
        })
        .bench_local_values(|turns| {
            let commits = turns.into_iter().map(|turn| one(&ledger, turn));
            *heads.borrow_mut() = runtime.block_on(futures_util::future::join_all(commits));
        });
}

const SESSIONS: [(&str, usize); 3] = [("FULL", 16), ("FULL", 64), ("NORMAL", 64)];

#[divan::bench(args = SESSIONS, sample_count = 50)]
fn commit_many_sessions(bencher: divan::Bencher<'_, '_>, how: (&str, usize)) {
    sessions_at_once(bencher, how, async |ledger, turn| ledger.commit(turn).await.unwrap().head);
}

#[divan::bench(args = SESSIONS, sample_count = 50)]
fn journal_many_sessions(bencher: divan::Bencher<'_, '_>, how: (&str, usize)) {
    sessions_at_once(bencher, how, async |ledger, turn| journalled(ledger, &turn).await);
}

/// A ledger with one thread of this many turns of four messages; the parent of the head, and the head.
fn thread(folder: &Path, runtime: &Runtime, turns: usize) -> (Arc<Ledger>, [Option<String>; 2]) {
    let clock = Clock::default();
    let ledger = open(&folder.join("ledger.db"), Synchronous::Normal);
    let mut heads = [None, None];
    for _ in 0..turns {
        let [_, head] = heads;
        let receipt = runtime.block_on(ledger.commit(turn(&clock, "main", head.clone()))).unwrap();
        heads = [head, receipt.head];
    }
    (ledger, heads)
}

#[divan::bench(args = [2_000, 20_000], sample_count = 20)]
fn history_of_messages(bencher: divan::Bencher<'_, '_>, messages: usize) {
    let (folder, runtime) = (folder(), runtime());
    let (ledger, _) = thread(folder.path(), &runtime, messages / 4);
    bencher.bench_local(|| {
        let history = runtime.block_on(Journal::history(&*ledger, "main", None, None)).unwrap();
        assert_eq!(history.turns.len(), messages / 4);
        history
    });
}

#[divan::bench(args = [20_000], sample_count = 100)]
fn history_after_a_known_head(bencher: divan::Bencher<'_, '_>, messages: usize) {
    let (folder, runtime) = (folder(), runtime());
    let (ledger, [known, _]) = thread(folder.path(), &runtime, messages / 4);
    bencher.bench_local(|| {
        let history =
            runtime.block_on(Journal::history(&*ledger, "main", None, known.as_deref())).unwrap();
        assert_eq!(history.turns.len(), 1);
        history
    });
}

/// A session of 10,000 turns with a compaction before the newest 50.
fn compacted(folder: &Path, runtime: &Runtime) -> Arc<Ledger> {
    let clock = Clock::default();
    let (ledger, [_, head]) = thread(folder, runtime, 9_950);
    let turn = turn(&clock, "main", head.clone());
    let (id, through) = (clock.new_id(), head.unwrap());
    let before = runtime.block_on(ledger.turn(&through)).unwrap().unwrap().parent_turn_id.unwrap();
    let compaction = CompactionResult {
        summary: text(2_000),
        summarized_through_turn_id: before,
        first_kept_turn_id: through,
        turns_summarized: 9_949,
        model: "claude-haiku".to_owned(),
        provider: "anthropic".to_owned(),
        tokens_before: 150_000,
        tokens_after: 60_000,
        summary_tokens: 500,
        summarization_input_tokens: 90_000,
        summarization_output_tokens: 500,
        duration_ms: 4_000,
        trigger: "context_limit".to_owned(),
        compaction_type: "summary".to_owned(),
    };
    let commit = CompactionCommit {
        id: id.clone(),
        header: turn.header,
        open_turn: None,
        completed_at: turn.completed_at,
        compaction,
        usage: CompactionUsage::free(),
    };
    runtime.block_on(ledger.compact(Box::new(commit))).unwrap();
    let mut head = Some(id);
    for _ in 0..49 {
        head = runtime.block_on(ledger.commit(self::turn(&clock, "main", head))).unwrap().head;
    }
    ledger
}

#[divan::bench(sample_count = 100)]
fn history_of_the_last_50_of_10_000_turns(bencher: divan::Bencher<'_, '_>) {
    let (folder, runtime) = (folder(), runtime());
    let ledger = compacted(folder.path(), &runtime);
    bencher.bench_local(|| {
        let history = runtime.block_on(Journal::history(&*ledger, "main", None, None)).unwrap();
        // The summary and the 50.
        assert_eq!(history.turns.len(), 51);
        history
    });
}

/// What the first call of a process waits for: opening the file, and reading the same history.
#[divan::bench(sample_count = 20)]
fn open_and_read_the_last_50_of_10_000_turns(bencher: divan::Bencher<'_, '_>) {
    let (folder, runtime) = (folder(), runtime());
    let ledger = compacted(folder.path(), &runtime);
    runtime.block_on(ledger.close()).unwrap();
    let path = folder.path().join("ledger.db");
    bencher.bench_local(|| {
        let ledger = open(&path, Synchronous::Full);
        let history = runtime.block_on(Journal::history(&*ledger, "main", None, None)).unwrap();
        assert_eq!(history.turns.len(), 51);
        ledger
    });
}

#[divan::bench(sample_count = 100)]
fn fork_a_turn(bencher: divan::Bencher<'_, '_>) {
    let (folder, runtime) = (folder(), runtime());
    let (ledger, [_, head]) = thread(folder.path(), &runtime, 1_000);
    let head = head.unwrap();
    bencher.bench_local(|| runtime.block_on(ledger.fork(&head, None)).unwrap());
}

/// Bytes of the log that a turn adds, before the log is copied into the file for the first time, and the pages of each table and
/// index among them.
fn log_per_turn() {
    const TURNS: u16 = 16;
    let (runtime, clock) = (runtime(), Clock::default());
    for (name, by_steps) in [("at once", false), ("by its commit points", true)] {
        let folder = folder();
        let path = folder.path().join("ledger.db");
        let ledger = open(&path, Synchronous::Normal);
        let (mut head, mut before) = (None, 0);
        for number in 0..=TURNS {
            if number == 1 {
                before = logged_pages(&path).len();
            }
            let turn = turn(&clock, "main", head);
            head = if by_steps {
                runtime.block_on(journalled(&ledger, &turn))
            } else {
                runtime.block_on(ledger.commit(turn)).unwrap().head
            };
        }
        let pages = logged_pages(&path).split_off(before);
        println!(
            "a turn written {name}: {} bytes of the log",
            pages.len() * FRAME / usize::from(TURNS)
        );
        let names = names_of_pages(&path);
        let mut counts = std::collections::BTreeMap::<&str, u32>::new();
        for page in &pages {
            *counts.entry(names.get(page).map_or("free", String::as_str)).or_default() += 1;
        }
        for (name, count) in counts {
            println!("  {:5.2} pages of {name}", f64::from(count) / f64::from(TURNS));
        }
        runtime.block_on(ledger.close()).unwrap();
    }
}

/// Bytes of a page in the log, with its header.
const FRAME: usize = 4_096 + 24;

/// The number of each page in the log of a ledger.
fn logged_pages(path: &Path) -> Vec<u32> {
    let log = std::fs::read(path.with_extension("db-wal")).unwrap_or_default();
    let frames = log.get(32..).unwrap_or_default().chunks_exact(FRAME);
    frames.map(|frame| u32::from_be_bytes(frame[..4].try_into().unwrap())).collect()
}

/// The table or index of each page, read from a copy: a second connection would be refused.
fn names_of_pages(path: &Path) -> std::collections::BTreeMap<u32, String> {
    let folder = folder();
    let copy = folder.path().join("copy.db");
    for file in ["db", "db-wal"] {
        std::fs::copy(path.with_extension(file), copy.with_extension(file)).unwrap();
    }
    let connection = Connection::open(&copy).unwrap();
    let mut pages = connection.prepare("SELECT pageno, name FROM dbstat").unwrap();
    pages.query_map((), |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}

/// The size of the file compared with its content: texts, arguments, results, and all ids and JSON columns of the broker
/// interface.
fn size() {
    const TURNS: usize = 10_000;
    let (folder, runtime) = (folder(), runtime());
    let (ledger, _) = thread(folder.path(), &runtime, 0);
    let (clock, mut head, mut took) = (Clock::default(), None, Vec::new());
    for _ in 0..TURNS {
        let turn = turn(&clock, "main", head);
        let began = Instant::now();
        head = runtime.block_on(ledger.commit(turn)).unwrap().head;
        took.push(began.elapsed());
    }
    let mean = |of: &[Duration]| of.iter().sum::<Duration>() / u32::try_from(of.len()).unwrap();
    println!(
        "one chain of {TURNS} turns at NORMAL: {:?} each of the first thousand, {:?} of the last",
        mean(&took[..1_000]),
        mean(&took[TURNS - 1_000..])
    );
    // The search index is written in the background; a search waits for it.
    let words = ledger.search("fox".to_owned(), SearchOptions::default());
    assert_eq!(runtime.block_on(words).unwrap().items.len(), 100);
    let texts = "coalesce(sum(length(CAST(content AS BLOB)) + coalesce(length(thinking), 0)), 0) FROM messages";
    let arguments = "coalesce(sum(length(params_json) + length(result_json)), 0) FROM tool_calls";
    let payload = format!("(SELECT {texts}) + (SELECT {arguments})");
    // The other columns of the broker interface, without the numbers.
    let ids = [
        (
            "turns",
            "id, parent_turn_id, session_label, run_id, model, provider, role, toolset_name, tools_available, \
             permissions_granted, query_message_ids, response_message_id, source_event_id, workspace_path, stop_reason, \
             attempts_json, status",
        ),
        ("messages", "id, turn_id, role, tool_call_id, provider, api, model, stop_reason, blocks_json"),
        ("tool_calls", "id, provider_call_id, turn_id, message_id, tool_name, status"),
        ("session_history", "session_label, thread_id"),
    ]
    .map(|(table, columns)| {
        let lengths = columns.split(", ").map(|column| format!("coalesce(length({column}), 0)"));
        format!("(SELECT sum({}) FROM {table})", lengths.collect::<Vec<_>>().join(" + "))
    })
    .join(" + ");
    let sql = format!("SELECT {payload} AS payload, {payload} + {ids} AS stored");
    let result = runtime.block_on(ledger.query(sql, "[]".to_owned(), Default::default())).unwrap();
    let rows = serde_json::to_value(&result.rows).unwrap();
    let [payload, stored] = ["payload", "stored"].map(|column| rows[0][column].as_f64().unwrap());
    runtime.block_on(ledger.close()).unwrap();
    #[expect(clippy::cast_precision_loss, reason = "sizes far below 2^53")]
    let file = std::fs::metadata(folder.path().join("ledger.db")).unwrap().len() as f64;
    let copy = Connection::open(folder.path().join("ledger.db")).unwrap();
    let mut tables = copy
        .prepare("SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC LIMIT 12")
        .unwrap();
    let tables = tables.query_map((), |row| Ok((row.get(0)?, row.get(1)?)));
    for (name, bytes) in tables.unwrap().map(Result::<(String, i64), _>::unwrap) {
        println!("  {:5} bytes per turn in {name}", bytes / i64::try_from(TURNS).unwrap());
    }
    println!(
        "{TURNS} turns: file {:.1} MB, {:.0} bytes per turn; {:.2} of the texts, arguments and results ({:.1} MB), \
         {:.2} of them with the ids and names",
        file / 1e6,
        file / TURNS as f64,
        file / payload,
        payload / 1e6,
        file / stored
    );
}

fn sequence(index: usize) -> i64 {
    i64::try_from(index).unwrap()
}
