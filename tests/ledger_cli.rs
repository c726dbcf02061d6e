//! Reads the ledger with the `sqlite3` command line: another SQLite, in another process, finds the same rows.
//!
//! It must never open the file with a library in this process (docs/rules/faults.md#no-second-sqlite).

#![expect(clippy::unwrap_used, reason = "a test's helpers, outside of its functions")]

use std::path::Path;
use std::process::Command;

use base::clock::Clock;
use ledger::{Ledger, LedgerOptions};
use model::{AssembledContext, Defaults, LedgerAdmin, parse_context, parse_result};

fn context(parent: Option<&str>) -> AssembledContext {
    let json = serde_json::json!({
        "systemPrompt": "", "history": [], "currentMessage": {"role": "user", "content": "hi"},
        "tools": [], "model": "claude", "provider": "anthropic", "tokenBudget": {}, "timeoutMs": 1000,
        "runId": "run", "sessionLabel": "main", "parentTurnId": parent, "role": "unified",
        "toolsetName": "full", "permissionsGranted": [], "workspacePath": "/work",
    });
    let mut new_id = || "unused".to_owned();
    parse_context(&json.to_string(), &mut Defaults { new_id: &mut new_id, now_ms: 1 }).unwrap()
}

/// A result as the broker interface defines it.
fn result(turn: &str) -> String {
    serde_json::json!({
        "turnId": turn,
        "messages": [
            {"id": format!("{turn}-q"), "role": "user", "content": "hi", "sequence": 0, "createdAt": 1},
            {"id": format!("{turn}-a"), "role": "assistant", "content": "I look", "sequence": 1, "createdAt": 2},
            {"id": format!("{turn}-r"), "role": "tool", "content": "of a", "toolCallId": "call_0", "sequence": 2, "createdAt": 3},
            {"id": format!("{turn}-e"), "role": "assistant", "content": "grüße 🙂", "sequence": 3, "createdAt": 4},
        ],
        "toolCalls": [{"id": "call_0", "toolName": "read", "params": {"path": "a"}, "result": "of a",
                       "status": "completed", "startedAt": 2, "completedAt": 3, "sequence": 0}],
        "usage": {"inputTokens": 1, "outputTokens": 2, "cachedInputTokens": 0, "cacheWriteTokens": 0,
                  "reasoningTokens": 0, "totalTokens": 3},
        "stopReason": "end_turn",
        "durationMs": 5,
    })
    .to_string()
}

#[expect(clippy::disallowed_methods, reason = "a test's own child process")]
fn sqlite3(path: &Path, sql: &str) -> Option<String> {
    let output = Command::new("sqlite3").arg("-readonly").arg(path).arg(sql).output().ok()?;
    assert!(output.status.success(), "{sql}: {}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().trim_end().to_owned())
}

#[tokio::test]
async fn the_command_line_reads_what_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    if sqlite3(Path::new(":memory:"), "SELECT 1").is_none() {
        println!("skipped: no `sqlite3` command");
        return;
    }
    let options = LedgerOptions::at(path.clone());
    let ledger = Ledger::open(&options, Clock::fixed(10)).unwrap();
    for (turn, parent) in [("t1", None), ("t2", Some("t1")), ("t3", Some("t2"))] {
        let mut new_id = || "unused".to_owned();
        let mut defaults = Defaults { new_id: &mut new_id, now_ms: 10 };
        let commit = parse_result(&context(parent), &result(turn), &mut defaults).unwrap();
        ledger.write_turn(commit).await.unwrap();
    }
    let fork = ledger.fork("t1", Some("side")).await.unwrap();
    assert_eq!(fork.thread_id.as_deref(), Some("t1"));
    // While the ledger is open here, and again after it was closed.
    for _ in 0..2 {
        let migrations =
            concat!(env!("CARGO_MANIFEST_DIR"), "/crates/ledger/src/sqlite/migrations");
        let folders = ["", "/format_1", "/broker", "/memory", "/moves"]
            .map(|folder| format!("{migrations}{folder}"));
        let steps = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
        let is_step = |name: std::ffi::OsString| name.to_string_lossy().ends_with(".sql");
        let version =
            steps.filter(|step| is_step(step.as_ref().unwrap().file_name())).count().to_string();
        for (sql, rows) in [
            ("PRAGMA integrity_check", "ok"),
            ("PRAGMA foreign_key_check", ""),
            ("PRAGMA application_id", "1314409543"),
            ("PRAGMA user_version", version.as_str()),
            (
                "SELECT turn_id, ancestry, total_tokens, depth, persona_id, thread_key FROM threads ORDER BY depth",
                "t1|[\"t1\"]|3|0|default|main/t1\n\
                 t2|[\"t1\",\"t2\"]|6|1|default|main/t2\n\
                 t3|[\"t1\",\"t2\",\"t3\"]|9|2|default|main/t3",
            ),
            (
                "SELECT label, thread_id, status FROM sessions ORDER BY label",
                "main|t3|active\nside|t1|active",
            ),
            (
                "SELECT session_label, thread_id FROM session_history ORDER BY id",
                "main|t1\nmain|t2\nmain|t3\nside|t1",
            ),
            (
                "SELECT role, content, tool_call_id, is_error FROM messages WHERE turn_id = 't2' ORDER BY sequence",
                "user|hi||\nassistant|I look||\ntool|of a|call_0|0\nassistant|grüße 🙂||",
            ),
            (
                "SELECT provider_call_id, message_id, tool_name, params_json, result_json, status FROM tool_calls \
                 WHERE turn_id = 't2'",
                "call_0|t2-a|read|{\"path\":\"a\"}|\"of a\"|completed",
            ),
            ("SELECT count(DISTINCT id) FROM tool_calls", "3"),
            ("SELECT count(*) FROM compactions", "0"),
            ("SELECT length(ledger_id) FROM schema_meta", "26"),
        ] {
            assert_eq!(sqlite3(&path, sql).as_deref(), Some(rows), "{sql}");
        }
        ledger.close().await.unwrap();
    }
}
