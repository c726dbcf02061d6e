//! The eleven invariants of a ledger and its lists of turns, most of them one statement that finds the violations.
//!
//! It must never repair anything.

use model::LedgerCheck;

/// The invariants that are statements: each selects a subject and what is wrong with it.
pub(super) const CHECKS: [(LedgerCheck, &str); 12] = [
    (
        LedgerCheck::References,
        "SELECT id, 'is a message of a turn that does not exist' FROM message_rows
         WHERE key >> 20 NOT IN (SELECT n FROM turns)
         UNION ALL
         SELECT id, 'is a tool call of a turn that does not exist' FROM call_rows WHERE key >> 20 NOT IN (SELECT n FROM turns)
         UNION ALL
         SELECT turn, 'is the number of a turn that has metadata and does not exist' FROM turn_metadata
         WHERE turn NOT IN (SELECT n FROM turns)
         UNION ALL
         SELECT session_label, 'has metadata, and is no session' FROM session_metadata
         WHERE session_label NOT IN (SELECT label FROM sessions)
         UNION ALL
         SELECT c.id, 'is a tool call of a message that its turn does not have' FROM call_rows c
         WHERE c.message IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM message_rows m WHERE m.key = (c.key >> 20 << 20 | c.message))
         UNION ALL
         SELECT id, 'is the id of more than one message of turn `' || turn_id || '`' FROM messages
         GROUP BY turn_id, id HAVING count(*) > 1",
    ),
    (
        LedgerCheck::Integrity,
        "SELECT 'turns_of_days', 'does not list the turns of each day' WHERE EXISTS (
           SELECT day, block FROM turns_of_days EXCEPT
           SELECT (started_at - (started_at % 86400000 + 86400000) % 86400000) / 86400000, n >> 6 FROM turns)
         OR EXISTS (
           SELECT (started_at - (started_at % 86400000 + 86400000) % 86400000) / 86400000, n >> 6 FROM turns EXCEPT
           SELECT day, block FROM turns_of_days)
         UNION ALL
         SELECT 'turns_of_models', 'does not list the turns of each model' WHERE EXISTS (
           SELECT provider, model, block FROM turns_of_models EXCEPT SELECT provider, model, n >> 6 FROM turns)
         OR EXISTS (
           SELECT provider, model, n >> 6 FROM turns WHERE provider IS NOT NULL AND model IS NOT NULL EXCEPT
           SELECT provider, model, block FROM turns_of_models)
         UNION ALL
         SELECT 'turns_of_tools', 'does not list the turns of each tool' WHERE EXISTS (
           SELECT tool_name, block FROM turns_of_tools EXCEPT
           SELECT tool_name, key >> 26 FROM call_values)
         OR EXISTS (
           SELECT tool_name, key >> 26 FROM call_values EXCEPT
           SELECT tool_name, block FROM turns_of_tools)",
    ),
    (
        LedgerCheck::Tree,
        "SELECT t.id, 'has depth ' || t.depth || ', and its parent has ' || coalesce(p.depth, 'none')
         FROM turns t LEFT JOIN turns p ON p.id = t.parent_turn_id
         WHERE t.depth IS NOT CASE WHEN t.parent_turn_id IS NULL THEN 0 ELSE p.depth + 1 END",
    ),
    (
        LedgerCheck::ThreadTokens,
        "SELECT t.id, 'has ' || t.thread_tokens || ' thread tokens and not '
           || (coalesce(p.thread_tokens, 0) + t.total_tokens)
         FROM turns t LEFT JOIN turns p ON p.id = t.parent_turn_id
         WHERE t.status NOT IN ('pending', 'streaming')
           AND t.thread_tokens <> coalesce(p.thread_tokens, 0) + t.total_tokens
           AND t.thread_tokens <> 9223372036854775807",
    ),
    (
        LedgerCheck::Children,
        "SELECT t.id, CASE t.has_children WHEN 1 THEN 'is marked as a turn with children and has none'
           ELSE 'has children and is not marked as such' END
         FROM turns t LEFT JOIN (SELECT DISTINCT parent_turn_id AS id FROM turns) c ON c.id = t.id
         WHERE t.has_children <> (c.id IS NOT NULL)
         UNION ALL
         SELECT t.id, 'has a first child that is not its child' FROM turns t LEFT JOIN turns c ON c.n = t.first_child
         WHERE t.first_child IS NOT NULL AND c.parent_turn_id IS NOT t.id
         UNION ALL
         SELECT c.id, 'is not listed as a child of its parent' FROM turns c JOIN turns p ON p.id = c.parent_turn_id
         WHERE c.n IS NOT p.first_child
           AND NOT EXISTS (SELECT 1 FROM turn_branches b WHERE b.parent_turn_id = p.id AND b.id = c.id)
         UNION ALL
         SELECT b.parent_turn_id, 'lists a turn that is not one of its later children' FROM turn_branches b
         LEFT JOIN turns c ON c.id = b.id LEFT JOIN turns p ON p.id = b.parent_turn_id
         WHERE c.parent_turn_id IS NOT b.parent_turn_id OR p.first_child IS c.n",
    ),
    (
        LedgerCheck::Pointer,
        "SELECT s.label, CASE WHEN t.status IN ('pending', 'streaming') THEN 'points at a turn that has not ended'
           ELSE 'points at ' || coalesce('`' || s.thread_id || '`', 'no turn') || ', and its log ends with '
             || coalesce('`' || h.thread_id || '`', 'nothing') END
         FROM sessions s
         LEFT JOIN turns t ON t.id = s.thread_id
         LEFT JOIN (SELECT session_label, thread_id, max(id) FROM session_history GROUP BY session_label) h
           ON h.session_label = s.label
         WHERE t.status IN ('pending', 'streaming') OR s.thread_id IS NOT h.thread_id",
    ),
    (
        LedgerCheck::OpenTurns,
        "SELECT t.id, CASE WHEN t.status IN ('pending', 'streaming') THEN 'has not ended, and is not in the journal'
           WHEN coalesce(t.status, '') NOT IN ('completed', 'aborted', 'failed') THEN 'has a status that is none'
           WHEN r.n IS NOT NULL THEN 'has ended, and its journal is still open'
           ELSE 'has ended without a time or a stop reason' END
         FROM turns t LEFT JOIN runs r ON r.turn_id = t.id AND r.ended_at IS NULL
         WHERE coalesce(t.status, '') NOT IN ('completed', 'aborted', 'failed') OR r.n IS NOT NULL
           OR t.completed_at IS NULL OR t.stop_reason IS NULL",
    ),
    (
        LedgerCheck::OpenTurns,
        "SELECT session_label, 'has a lease that ends before its last heartbeat, or never began' FROM session_leases
         WHERE coalesce(heartbeat_at < 0 OR expires_at < heartbeat_at, 1)",
    ),
    (
        LedgerCheck::Messages,
        "SELECT t.id, 'names `' || q.value || '` as its question, which is no message of it'
         FROM turns t, json_each(t.query_message_ids) q
         WHERE t.status NOT IN ('pending', 'streaming')
           AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.turn_id = t.id AND m.id = q.value)
         UNION ALL
         SELECT t.id, 'names `' || t.response_message_id || '` as its answer, which is no message of it'
         FROM turns t
         WHERE t.status NOT IN ('pending', 'streaming') AND t.response_message_id IS NOT NULL
           AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.turn_id = t.id AND m.id = t.response_message_id
             AND m.role = 'assistant')",
    ),
    (
        LedgerCheck::ToolCalls,
        "SELECT t.id, 'has ' || count(c.id) || ' tool calls, and its row counts ' || t.tool_call_count
         FROM turns t LEFT JOIN tool_calls c ON c.turn_id = t.id
         WHERE t.status NOT IN ('pending', 'streaming')
         GROUP BY t.id HAVING count(c.id) <> t.tool_call_count
         UNION ALL
         SELECT id, 'has arguments or a result that are no JSON' FROM tool_calls
         WHERE blobs_json IS NULL AND NOT (json_valid(params_json) AND coalesce(json_valid(result_json), 1))",
    ),
    (
        LedgerCheck::Compactions,
        "SELECT t.id, 'is a compaction without its row' FROM turns t LEFT JOIN compactions c ON c.turn_id = t.id
         WHERE t.turn_type = 'compaction' AND c.turn_id IS NULL
         UNION ALL
         SELECT c.turn_id, 'is no compaction, and has the row of one' FROM compactions c JOIN turns t ON t.id = c.turn_id
         WHERE t.turn_type <> 'compaction'
         UNION ALL
         SELECT c.turn_id, 'has ' || count(m.id) || ' messages and not its summary alone' FROM compactions c
         LEFT JOIN messages m ON m.turn_id = c.turn_id GROUP BY c.turn_id HAVING count(m.id) <> 1
         UNION ALL
         SELECT c.turn_id, 'retains turn `' || c.first_kept_turn_id || '`, which does not exist' FROM compactions c
         WHERE NOT EXISTS (SELECT 1 FROM turns t WHERE t.id = c.first_kept_turn_id)
           AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.turn_id = c.first_kept_turn_id AND r.ended_at IS NULL)
         UNION ALL
         SELECT c.turn_id, 'names a turn of another thread' FROM compactions c
         WHERE NOT EXISTS (
           WITH RECURSIVE up (id, parent) AS (
             SELECT t.id, t.parent_turn_id FROM turns t WHERE t.id = c.turn_id
             UNION SELECT p.id, p.parent_turn_id FROM up JOIN turns p ON p.id = up.parent
           ) SELECT 1 FROM up WHERE up.id = c.summarized_through_turn_id)",
    ),
    (
        LedgerCheck::Blobs,
        "SELECT coalesce(r.tool_call_id, r.message_id), 'names blob `' || r.hash || '`, which does not exist'
         FROM blob_references r WHERE NOT EXISTS (SELECT 1 FROM blobs b WHERE b.hash = r.hash)
         UNION ALL
         SELECT b.hash, 'is named by no row; `vacuum()` takes it away' FROM blobs b
         WHERE b.hash NOT IN (SELECT r.hash FROM blob_references r)",
    ),
];
