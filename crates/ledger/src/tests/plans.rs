//! Every statement the API runs finds its rows by an index.

use rusqlite::{Connection, StatementStatus};

use super::*;
use crate::events::references;
use crate::journal::{open_turn_reads, profiles, rates};
use crate::journal_rows::{
    approval_rows, archive_rows, budget_rows, entry_rows, event_rows, run_rows,
};
use crate::lease::waits;
use crate::memory_rows::{
    chunk_rows, code_cache, counts, extraction_rows, fact_rows, find, forget, pending, scope_rows,
    turn_texts, usage_rows, vector_rows,
};
use crate::queue::{self, delivery_rows, dispatch_rows, item_rows};
use crate::reading::{history, lists, recall, runs, turn_tree, usage};
use crate::rows::narrow::strings;
use crate::rows::{blobs, message_rows, session_rows, tool_call_rows, turn_rows};
use crate::search::{message_search, search_indexer};
use crate::sessions::{aliases, fork, moves, persona, prompt_files};

pub(super) fn plan(connection: &Connection, sql: &str) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let count = statement.parameter_count();
    let steps = statement
        .query_map(rusqlite::params_from_iter(vec!["x"; count]), |row| row.get::<_, String>(3))
        .unwrap()
        .map(Result::unwrap)
        .collect::<Vec<_>>();
    steps.join("; ")
}

#[test]
fn no_statement_scans_a_table_or_sorts() {
    let fixture = Fixture::new();
    let core = fixture.ledger.core().unwrap();
    core.readers
        .with(|connection| {
            for sql in [
                &session_rows::SESSION,
                &turn_rows::TURN,
                &tool_call_rows::TOOL_CALLS,
                &turn_rows::COMPACTION,
                &message_rows::MESSAGES,
                &open_turn_reads::CONTEXT,
                &run_rows::OF_TURN,
                &run_rows::CHECKED_OF_TURN,
                &run_rows::WITH_LEASE,
                &run_rows::OF_RUN,
                &run_rows::OF_SESSION,
                runs::OF_RUN,
                &runs::RUNS,
                &runs::RUNS_OF_SESSION,
                turn_tree::WAS_HEAD,
                entry_rows::COMMIT_POINTS,
                event_rows::NEWEST,
                event_rows::LAST,
                event_rows::LAST_ARCHIVED,
                &event_rows::ARCHIVED,
                event_rows::IN_JOURNAL,
                references::NEWEST_FIRST,
                &references::CALL,
                &references::MESSAGE,
                archive_rows::OLDEST,
                archive_rows::EXCESS,
                run_rows::NEWEST,
                &approval_rows::OF_TURN,
                &approval_rows::OF_RUN,
                &approval_rows::OF_SESSION,
                &approval_rows::OF_ID,
                &approval_rows::OF_CALL,
                approval_rows::PARKED,
                &waits::OF_SESSION,
                "SELECT epoch, owner FROM session_leases WHERE session_label = ?1",
                "SELECT id FROM run_contexts WHERE hash = ?1",
                "SELECT thread_id FROM sessions WHERE label = ?1",
                "SELECT parent_turn_id, status, turn_type FROM turns WHERE id = ?1",
                "SELECT depth, thread_tokens FROM turns WHERE id = ?1",
                moves::BORROWED,
                moves::IS_OWN,
                persona::OF_TURN,
                persona::OF_MAIN,
                &persona::PERSONA,
                &persona::PERSONAS,
                aliases::STATUS,
                aliases::TARGET,
                &aliases::ALIASES,
                &aliases::ALIASES_OF,
                &turn_tree::ONE,
                &turn_tree::FIRST_CHILD,
                &turn_tree::OTHER_CHILDREN,
                &turn_tree::MOVES,
                turn_tree::MOVE,
                &turn_tree::AS_OF,
                search_indexer::INDEXED_THROUGH,
                search_indexer::LAST,
                search_indexer::END_OF_SLICE,
                "SELECT content FROM messages WHERE turn_id = ?1",
                "SELECT content FROM agent_messages WHERE turn_id = ?1",
                "SELECT status FROM agent_tool_calls WHERE turn_id = ?1",
                "SELECT metadata FROM agent_turns WHERE id = ?1",
                "SELECT metadata FROM agent_turns WHERE session_label = ?1",
                "SELECT metadata FROM agent_sessions WHERE label = ?1",
                "SELECT status FROM tool_calls WHERE turn_id = ?1",
                "SELECT status FROM tool_calls WHERE id = ?1",
                "SELECT status FROM turns WHERE id = ?1",
                "SELECT status FROM turns WHERE session_label = ?1",
                "SELECT status, model, parent_turn_id FROM turns WHERE run_id = ?1",
                "SELECT 1 FROM turns WHERE run_id = ?1 LIMIT 1",
                strings::ID,
                search_indexer::TO_INDEX,
                message_search::UNINDEXED,
                recall::UNINDEXED,
                &blobs::store::READ,
                blobs::store::THERE,
                &lists::SESSIONS,
                &lists::SESSIONS_OF_PARENT,
                &lists::SESSIONS_OF_AGENT,
                &lists::SESSIONS_OF_PERSONA,
                &lists::SESSIONS_ARCHIVED,
                &lists::CALLS,
                &lists::CALLS_OF_TURN,
                &lists::CALLS_OF_SESSION,
                &lists::CALLS_OF_TOOL,
                lists::CALL_POSITION,
                persona::AGENT,
                profiles::ATTEMPTS,
                rates::STATE,
                usage::OF_TURN,
                usage::NEXT_TURN,
                usage::NEXT_TURN_OF_SESSION,
                usage::OF_SESSION,
                usage::OF_AGENT,
                usage::OF_MODEL,
                usage::OF_DAY,
                usage::NEXT_SESSION,
                usage::NEXT_AGENT,
                usage::NEXT_MODEL,
                usage::NEXT_DAY,
                usage::HAS_MODEL,
                usage_rows::OF_SESSION,
                usage_rows::OF_AGENT,
                usage_rows::OF_MODEL,
                usage_rows::OF_DAY,
                usage_rows::NEXT_SESSION,
                usage_rows::NEXT_MODEL,
                usage_rows::NEXT_DAY,
                usage_rows::HAS_MODEL,
                usage_rows::EXTRACTED_ON,
                &fact_rows::OF_SUBJECT,
                fork::CALLED_AT,
                &item_rows::OF_ID,
                &item_rows::WAITING,
                &item_rows::OF_RUNNING_TURN,
                &item_rows::UNNAMED,
                &item_rows::OF_TURN,
                item_rows::WAITS,
                item_rows::OVER,
                item_rows::OVER_INTERRUPTS,
                item_rows::NEXT_SESSION,
                &prompt_files::FILES,
                &budget_rows::OF_ACCOUNT,
                &budget_rows::OF_CALL,
                budget_rows::SETTLED,
                budget_rows::IN_TREE,
                budget_rows::OF_TASKS,
                dispatch_rows::ROOT,
                &dispatch_rows::OF_ID,
                &dispatch_rows::OF_PARENT_TURN,
                &dispatch_rows::OF_PARENT,
                &dispatch_rows::OF_SESSION,
                &dispatch_rows::SPAWNED,
                &dispatch_rows::ACTIVE_IN_SESSION,
                &dispatch_rows::OVERDUE,
                dispatch_rows::HAS_OVERDUE,
                dispatch_rows::ACTIVE,
                dispatch_rows::CHILDREN,
                queue::reads::SUSPENDED,
                delivery_rows::NEXT_SESSION,
                &delivery_rows::OLDEST,
                &delivery_rows::OF_TURN,
                &delivery_rows::OF_STATUS,
                &delivery_rows::OF_SESSION,
                delivery_rows::NUMBER,
                &queue::schedules::OF_ID,
                &queue::schedules::DUE,
                queue::schedules::NEXT,
                queue::enqueue::EVENT,
                queue::enqueue::OWN_SESSION,
                fork::RESULTS_END,
                turn_texts::TEXTS,
                scope_rows::NUMBER,
                scope_rows::SESSION,
                &chunk_rows::CHUNK,
                chunk_rows::OF_TURN,
                chunk_rows::OF_FACT,
                chunk_rows::OF_SESSION,
                &fact_rows::OF_ID,
                &fact_rows::LIST_OF_ENTITY,
                &fact_rows::LIST_OF_ID,
                fact_rows::SAME,
                forget::FACTS_OF_TURN,
                vector_rows::MODEL,
                vector_rows::UNEMBEDDED,
                vector_rows::LEFT,
                code_cache::GENERATION,
                code_cache::DIMENSIONS,
                code_cache::NEW,
                find::VECTOR,
                "SELECT first_kept_turn_id, summarized_through_turn_id FROM compactions WHERE turn_id = ?1",
                "SELECT total_tokens, depth, persona_id, thread_key FROM threads WHERE turn_id = ?1",
            ] {
                // The runs with entries in the journal are those under way: they are few.
                // So are the scopes that a host gives as a list.
                let plan = plan(connection, sql)
                    .replace("SCAN runs USING INDEX runs_in_journal", "")
                    .replace("SCAN json_each VIRTUAL TABLE", "");
                assert!(plan.contains("SEARCH"), "{sql}: {plan}");
                assert!(!plan.contains("SCAN") && !plan.contains("TEMP B-TREE"), "{sql}: {plan}");
            }
            // Only the index of words is scanned, newest first; all other rows are found by their keys.
            for sql in [message_search::FOUND, recall::INDEXED] {
                let words = plan(connection, sql);
                let (first, rest) = words.split_once("; ").unwrap();
                assert!(first.starts_with("SCAN w VIRTUAL TABLE INDEX") && first.contains('M'), "{words}");
                assert!(!rest.contains("SCAN") && !rest.contains("TEMP B-TREE"), "{words}");
            }
            // Turns that wait for the memory are read by their ids, chunks by the numbers that the index of words names.
            let waiting = plan(connection, pending::OLDEST);
            assert!(waiting.starts_with("SCAN p;") && !waiting.contains("TEMP"), "{waiting}");
            let unextracted = plan(connection, extraction_rows::OLDEST);
            assert!(unextracted.starts_with("SCAN e USING"), "{unextracted}");
            assert!(!unextracted.contains("TEMP") && unextracted.contains("SEARCH"), "{unextracted}");
            let remembered = plan(connection, find::BY_WORDS);
            assert!(remembered.starts_with("SCAN w VIRTUAL TABLE INDEX"), "{remembered}");
            assert!(remembered.contains("SEARCH c USING INTEGER PRIMARY KEY"), "{remembered}");
            let summary = plan(connection, counts::SUMMARY);
            assert!(!summary.contains("SCAN t"), "{summary}");
            let alike = plan(connection, &fact_rows::ALIKE);
            assert!(alike.contains("SEARCH f USING INDEX memory_facts_by_name"), "{alike}");
            let chain = plan(connection, aliases::LEADING);
            assert!(!chain.contains("SCAN a") && !chain.contains("SCAN session_aliases"), "{chain}");
            // The ancestry is walked by the key; only its own queue is scanned.
            let walk = plan(connection, "SELECT ancestry FROM threads WHERE turn_id = ?1");
            assert!(!walk.contains("SCAN turns") && !walk.contains("SCAN p"), "{walk}");
            // Only rows with blobs are read for the names of blobs.
            let names = plan(connection, "SELECT hash FROM blob_references");
            for index in ["messages_with_blobs", "tool_calls_with_blobs", "queue_items_with_blobs"] {
                assert!(names.contains(&format!("INDEX {index}")), "{names}");
            }
            // Only runs with entries in the journal are read.
            for sql in
                [&*run_rows::OPEN, &*run_rows::NOT_ENDED, &*run_rows::OPEN_OF_SESSION, &*run_rows::ENDED, run_rows::OPEN_UNDER]
            {
                let runs = plan(connection, sql);
                assert!(runs.contains("INDEX runs_in_journal"), "{runs}");
            }
            let pending = plan(connection, &approval_rows::PENDING);
            assert!(pending.contains("INDEX approvals_pending") && !pending.contains("TEMP"), "{pending}");
            // The cancelled dispatches that are active are few.
            let cancelled = plan(connection, &dispatch_rows::CANCELLED);
            assert!(cancelled.contains("INDEX dispatches_cancelled") && !cancelled.contains("TEMP"), "{cancelled}");
            let parked = plan(connection, dispatch_rows::PARKED);
            for index in ["dispatches_active", "approvals_parked"] {
                assert!(parked.contains(&format!("INDEX {index}")), "{parked}");
            }
            let thread = plan(connection, recall::THREAD);
            assert!(!thread.contains("SCAN turns") && !thread.contains("SCAN above"), "{thread}");
            Ok(())
        })
        .unwrap();
}

#[tokio::test]
async fn a_statement_is_compiled_once_however_often_it_runs() {
    let fixture = Fixture::new();
    fixture.commit(turn("t0", "main", None)).await.unwrap();
    for number in 1..10 {
        let parent = format!("t{}", number - 1);
        fixture.commit(turn(&format!("t{number}"), "main", Some(&parent))).await.unwrap();
    }
    fixture
        .ledger
        .core()
        .unwrap()
        .readers
        .with(|connection| {
            history::session_history(connection, "main", None, None).unwrap();
            let statement = connection.prepare_cached(&message_rows::MESSAGES).unwrap();
            assert_eq!(statement.get_status(StatementStatus::Run), 10);
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
            Ok(())
        })
        .unwrap();
}
