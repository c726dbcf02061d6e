//! The plans of the statements that a case runs, from the server's log: none reads a growing table as a whole.
//!
//! The sessions of a case explain every statement, also those inside functions, with sequential scans turned off: one that is in a plan
//! then has no index. A server whose log is not in the folder of its socket is not checked, and that is said.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use serde_json::Value;

use crate::maintenance::verify::CHECKS;

/// What a session of a case is set to.
const EXPLAINS: [&str; 8] = [
    "session_preload_libraries=auto_explain",
    "auto_explain.log_min_duration=0",
    "auto_explain.log_nested_statements=on",
    "auto_explain.log_format=json",
    "enable_seqscan=off",
    // Of a table without rows, the whole is cheap to hash.
    "enable_hashjoin=off",
    "enable_mergejoin=off",
    "jit=off",
];

/// Tables with a few rows, whatever the number of turns is.
const SMALL: [&str; 14] = [
    // Those that wait for an answer.
    "commands",
    "ledger",
    "auth_profiles",
    "token_ratios",
    "listeners",
    "personas",
    "pending_deletions",
    "queue_suspensions",
    "schedules",
    "waits",
    // Those that wait for their session.
    "runs",
    "memory_models",
    "memory_scopes",
    "test_clock",
];

/// The beginnings of statements that read a table as a whole, because that is what they are for, beside those of `verify`.
const WHOLE: [&str; 4] = [
    // The statistics.
    "select l.id, l.version",
    // What is old among all sessions.
    "select label, updated_at, label !~",
    // All sessions of an export and of a copy.
    "select label from @sessions where not opening",
    // Those of a case itself.
    "/* case */",
];

/// Where the plans of a case begin in the log of the server.
pub(super) struct Plans {
    log: PathBuf,
    from: u64,
}

impl Plans {
    /// Those of the sessions that open the URL which this returns.
    pub(super) fn begin(url: &str) -> (String, Option<Self>) {
        let folder = url.split_once("?host=").map(|(_, host)| PathBuf::from(host));
        let log = folder.map(|folder| folder.join("log"));
        let Some((log, found)) = log.and_then(|log| Some((log.clone(), log.metadata().ok()?)))
        else {
            eprintln!("the plans are not checked: the server has no log that can be read");
            return (url.to_owned(), None);
        };
        let options = EXPLAINS.map(|option| format!("-c {option}")).join(" ").replace(' ', "%20");
        (format!("{url}&options={options}"), Some(Self { log, from: found.len() }))
    }

    /// The scans of growing tables of `schema` as a whole, each with its statement.
    pub(super) fn scans(&self, schema: &str, partial: &BTreeSet<String>) -> BTreeSet<String> {
        let mut log = File::open(&self.log).unwrap();
        log.seek(SeekFrom::Start(self.from)).unwrap();
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        let checks: BTreeSet<String> = CHECKS.iter().map(|(_, text)| one_line(text)).collect();
        let mut found = BTreeSet::new();
        let mut lines = text.lines().peekable();
        while let Some(line) = lines.next() {
            if !line.ends_with(" plan:") {
                continue;
            }
            let mut json = String::new();
            while let Some(line) = lines.next_if(|line| line.starts_with('\t')) {
                json.push_str(line);
            }
            if !json.contains(schema) {
                continue;
            }
            let Ok(explained) = serde_json::from_str::<Value>(&json) else { continue };
            let query = explained["Query Text"].as_str().unwrap_or_default();
            let query = query.replace(&format!("\"{schema}\"."), "@");
            let query = one_line(&query);
            if WHOLE.iter().any(|beginning| query.starts_with(beginning)) || checks.contains(&query)
            {
                continue;
            }
            let mut tables = Vec::new();
            scans(&explained["Plan"], false, partial, &mut tables);
            found.extend(tables.into_iter().map(|table| format!("{table}: {query}")));
        }
        found
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Whether a condition bounds what is read of an index: that a column has a value does not.
fn bounds(condition: &str) -> bool {
    let column = condition.strip_prefix('(').and_then(|it| it.strip_suffix(" IS NOT NULL)"));
    let is_any = column.is_some_and(|it| it.chars().all(|c| c.is_ascii_alphanumeric() || c == '_'));
    !condition.is_empty() && !is_any
}

/// The growing tables that a node reads as a whole. A node under a limit reads its index as far as that goes.
fn scans(node: &Value, is_limited: bool, partial: &BTreeSet<String>, found: &mut Vec<String>) {
    let of = |name: &str| node[name].as_str().unwrap_or_default();
    let table = of("Relation Name");
    let is_whole = match of("Node Type") {
        "Seq Scan" => true,
        "Index Scan" | "Index Only Scan" => {
            !is_limited && !bounds(of("Index Cond")) && !partial.contains(of("Index Name"))
        }
        _ => false,
    };
    if is_whole && !SMALL.contains(&table) && !table.starts_with("pg_") {
        found.push(format!("{} of {table} {}", of("Node Type"), of("Index Name")));
    }
    let is_limited = is_limited || of("Node Type") == "Limit";
    for node in node["Plans"].as_array().into_iter().flatten() {
        scans(node, is_limited, partial, found);
    }
}
