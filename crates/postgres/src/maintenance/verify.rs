//! The check of a ledger: every body against its checksum, and the rules that hold between rows.
//!
//! Rows are read a page of turns at a time. It must never stop at the first damage.

use base::clock::Clock;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::{Param, Server};
use crate::rows::turn_read::{self, get};
use model::{
    LedgerCheck, LedgerChecked, LedgerProblem, LedgerReport, StorageError, StorageErrorKind,
};

const DOING: &str = "verify the ledger";
/// The most problems of a report.
const MOST: usize = 1_000;
/// Turns of a page.
const TURNS: i64 = 256;

/// Rules between rows: each statement selects a subject and what is wrong with it.
pub(crate) const CHECKS: [(LedgerCheck, &str); 7] = [
    (
        LedgerCheck::References,
        "select id, 'is a message of a turn that does not exist' from @messages m
           where not exists (select from @turns t where t.id = m.turn_id)
         union all select id, 'is a tool call of a turn that does not exist' from @tool_calls c
           where not exists (select from @turns t where t.id = c.turn_id)
         union all select id, 'follows a turn that does not exist' from @turns t
           where parent_turn_id is not null and not exists (select from @turns p where p.id = t.parent_turn_id)",
    ),
    (
        LedgerCheck::Tree,
        "select t.id, 'has depth ' || t.depth || ', and its parent has ' || coalesce(p.depth::text, 'none')
         from @turns t left join @turns p on p.id = t.parent_turn_id where t.depth <> coalesce(p.depth + 1, 0)",
    ),
    (
        LedgerCheck::ThreadTokens,
        "select t.id, 'has ' || t.thread_tokens || ' thread tokens and not ' || coalesce(p.thread_tokens, 0) + t.total_tokens
         from @turns t left join @turns p on p.id = t.parent_turn_id
         where t.n is not null and t.thread_tokens <> coalesce(p.thread_tokens, 0) + t.total_tokens",
    ),
    (
        LedgerCheck::Pointer,
        "select s.label, 'points at a turn that has not ended or does not exist' from @sessions s
           where s.head is not null and not exists (select from @turns t where t.id = s.head and t.n is not null)
         union all select s.label, 'does not point where its log ends' from @sessions s
           where s.head is not null and s.head is distinct from (
             select m.thread_id from @session_moves m where m.session_label = s.label order by m.changed_at desc, m.id desc limit 1)",
    ),
    (
        LedgerCheck::OpenTurns,
        "select id, 'has no reason of its end' from @turns where n is not null and stop_reason is null
         union all select id, 'has ended and no number' from @turns where n is null and status <> 'streaming'
         union all select s.label, 'runs a turn that is not open' from @sessions s
           where s.running is not null and not exists (select from @turns t where t.id = s.running and t.status = 'streaming')",
    ),
    (
        LedgerCheck::ToolCalls,
        "select t.id, 'records ' || t.tool_call_count || ' tool calls and has ' || count(c.id)
         from @turns t left join @tool_calls c on c.turn_id = t.id where t.n is not null
         group by t.id having t.tool_call_count <> count(c.id)",
    ),
    (
        LedgerCheck::Compactions,
        "select t.id, 'is a compaction without its summary' from @turns t where t.turn_type = 'compaction'
           and (not exists (select from @compactions c where c.turn_id = t.id)
             or not exists (select from @messages m where m.turn_id = t.id))",
    ),
];

#[derive(Default)]
struct Found {
    problems: Vec<LedgerProblem>,
    truncated: bool,
}

impl Found {
    fn add(&mut self, check: LedgerCheck, subject: String, message: String) {
        if self.problems.len() < MOST {
            self.problems.push(LedgerProblem { check, subject: Some(subject), message });
        } else {
            self.truncated = true;
        }
    }

    /// Notes a row whose body is not as it was written.
    fn check<T>(&mut self, row: &Row, read: Stored<T>) -> Stored<()> {
        match read {
            Err(StorageError { kind: StorageErrorKind::Corrupt, .. }) => {
                self.add(
                    LedgerCheck::Checksum,
                    get(row, "id")?,
                    "is not as it was written".to_owned(),
                );
                Ok(())
            }
            read => read.map(drop),
        }
    }
}

/// Checks the whole ledger. Runs continue meanwhile.
pub(crate) async fn verify(server: &Server) -> Stored<LedgerReport> {
    let clock = Clock::default();
    let begin = clock.instant();
    let (mut found, mut checked) = (Found::default(), LedgerChecked::default());
    for (check, text) in CHECKS {
        for row in &server.rows(DOING, text, &[]).await? {
            let subject: String = row.try_get(0).unwrap_or_default();
            found.add(check, subject, row.try_get(1).unwrap_or_default());
        }
    }
    let count = "select count(*) as sessions from @sessions";
    if let Some(row) = server.row(DOING, count, &[]).await? {
        checked.sessions = get::<i64>(&row, "sessions")?.cast_unsigned();
    }
    let mut after = String::new();
    loop {
        let text =
            "select id, header, outcome, checksum from @turns where id > $1 order by id limit $2";
        let params: [Param<'_>; 2] = [(&after, Type::TEXT), (&TURNS, Type::INT8)];
        let turns = server.rows(DOING, text, &params).await?;
        let Some(last) = turns.last() else { break };
        let range: [String; 2] = [after, get(last, "id")?];
        for row in &turns {
            found.check(row, turn_read::bodies(row))?;
        }
        checked.turns += turns.len() as u64;
        let [from, to] = &range;
        let params: [Param<'_>; 2] = [(from, Type::TEXT), (to, Type::TEXT)];
        let messages =
            "select id, body, checksum from @messages where turn_id > $1 and turn_id <= $2";
        for row in &server.rows(DOING, messages, &params).await? {
            found.check(row, turn_read::message(row))?;
            checked.messages += 1;
        }
        let calls =
            "select id, body, checksum from @tool_calls where turn_id > $1 and turn_id <= $2";
        for row in &server.rows(DOING, calls, &params).await? {
            found.check(row, turn_read::call(row))?;
            checked.tool_calls += 1;
        }
        let [_, to] = range;
        after = to;
    }
    let Found { problems, truncated } = found;
    let duration_ms =
        u64::try_from(clock.instant().duration_since(begin).as_millis()).unwrap_or(u64::MAX);
    Ok(LedgerReport { ok: problems.is_empty(), problems, truncated, checked, duration_ms })
}
