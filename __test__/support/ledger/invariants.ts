// The invariants of every ledger at every moment, as SQL that finds violations, for each backend. Read in a process of its own, by
// sqlite3 or psql. It must never use the engine, which is under test.

import { expect } from 'vitest'
import { onPostgres, rows } from './named.js'

const finished = "t.status NOT IN ('pending', 'streaming')"

/** Each query finds violations. */
export const INVARIANTS: Record<string, string> = {
  'a turn is one deeper than its parent': `SELECT t.id FROM turns t LEFT JOIN turns p ON p.id = t.parent_turn_id
     WHERE t.depth IS NOT coalesce(p.depth + 1, 0)`,
  'has_children is whether a turn has one': `SELECT t.id FROM turns t
     WHERE t.has_children <> EXISTS (SELECT 1 FROM turns c WHERE c.parent_turn_id = t.id)`,
  'no turn follows one that runs': `SELECT t.id FROM turns t JOIN runs r ON r.turn_id = t.parent_turn_id
     WHERE r.ended_at IS NULL`,
  'the tokens of a thread are those of its turns': `SELECT t.id FROM turns t LEFT JOIN turns p ON p.id = t.parent_turn_id
     WHERE ${finished} AND t.thread_tokens <> coalesce(p.thread_tokens, 0) + t.total_tokens`,
  'total_tokens is the sum of the four': `SELECT id FROM turns
     WHERE total_tokens <> input_tokens + output_tokens + cached_input_tokens + cache_write_tokens`,
  'an ended turn has its time and reason': `SELECT t.id FROM turns t
     WHERE ${finished} <> (t.completed_at IS NOT NULL) OR ${finished} <> (t.stop_reason IS NOT NULL)`,
  'what has not ended is in the journal alone': `SELECT t.id FROM turns t WHERE NOT (${finished})
     OR EXISTS (SELECT 1 FROM runs r WHERE r.turn_id = t.id AND r.ended_at IS NULL)`,
  'a run that has not ended has its first entry': `SELECT r.n FROM runs r WHERE r.ended_at IS NULL
     AND NOT EXISTS (SELECT 1 FROM journal j WHERE j.id = r.n AND j.run = r.n)`,
  'a failed turn has its error, and no other': `SELECT id FROM turns
     WHERE (status = 'failed') <> (error_kind IS NOT NULL)`,
  'messages are numbered without a gap': `SELECT turn_id FROM messages GROUP BY turn_id
     HAVING min(sequence) <> 0 OR max(sequence) <> count(*) - 1`,
  'calls are numbered without a gap': `SELECT turn_id FROM tool_calls GROUP BY turn_id
     HAVING min(sequence) <> 0 OR max(sequence) <> count(*) - 1`,
  'a turn that has ended counts its calls': `SELECT t.id FROM turns t
     WHERE ${finished} AND t.tool_call_count <> (SELECT count(*) FROM tool_calls c WHERE c.turn_id = t.id)`,
  'every call of a turn that has ended has ended': `SELECT c.id FROM tool_calls c JOIN turns t ON t.id = c.turn_id
     WHERE ${finished} AND (c.status NOT IN ('completed', 'failed') OR c.completed_at IS NULL)`,
  'a failed call has its error, and no other': `SELECT id FROM tool_calls WHERE (status = 'failed') <> (error IS NOT NULL)`,
  'a message of a queue that a turn has taken is in an open turn': `SELECT q.id FROM queue_items q
     WHERE q.status = 'processing' AND NOT EXISTS (SELECT 1 FROM runs r
       WHERE r.turn_id = q.turn_id AND r.ended_at IS NULL AND r.epoch IS NOT NULL)`,
  'a delivered message of a queue has its turn': `SELECT q.id FROM queue_items q
     WHERE q.status = 'delivered' AND NOT EXISTS (SELECT 1 FROM turns t WHERE t.id = q.turn_id)`,
  'a dispatch is active as long as its message waits or is in a turn': `SELECT d.id FROM dispatches d
     WHERE (d.status = 'active') <> EXISTS (SELECT 1 FROM queue_items q
       WHERE q.id = d.id AND q.status IN ('pending', 'processing'))`,
  'an ended dispatch has its result as a message, unless a call waits for it': `SELECT d.id FROM dispatches d
     WHERE (d.kind = 'dispatch' AND d.status <> 'active') <> (d.result_item_id IS NOT NULL)
       OR d.result_item_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM queue_items q WHERE q.id = d.result_item_id)`,
  'every call of a turn that has ended is answered once': `SELECT t.id FROM turns t
     WHERE ${finished} AND (SELECT count(*) FROM tool_calls c WHERE c.turn_id = t.id)
       <> (SELECT count(*) FROM messages m WHERE m.turn_id = t.id AND m.role = 'tool')`,
  'a call belongs to an answer of its turn': `SELECT c.id FROM tool_calls c LEFT JOIN messages m
     ON m.turn_id = c.turn_id AND m.id = c.message_id WHERE m.role IS NOT 'assistant'`,
  'the ids of questions are messages of the user': `SELECT t.id FROM turns t, json_each(t.query_message_ids) q
     LEFT JOIN messages m ON m.turn_id = t.id AND m.id = q.value WHERE m.role IS NOT 'user'`,
  'the id of the answer is the last answer': `SELECT t.id FROM turns t WHERE ${finished} AND t.turn_type = 'normal'
     AND t.response_message_id IS NOT (SELECT m.id FROM messages m WHERE m.turn_id = t.id AND m.role = 'assistant'
       ORDER BY m.sequence DESC LIMIT 1)`,
  'a compaction has its row, and no other turn': `SELECT t.id FROM turns t LEFT JOIN compactions c ON c.turn_id = t.id
     WHERE (t.turn_type = 'compaction') <> (c.turn_id IS NOT NULL)`,
  'a session points at a turn that has ended': `SELECT s.label FROM sessions s JOIN turns t ON t.id = s.thread_id
     WHERE NOT (${finished})`,
  'a session is where it last moved to': `SELECT s.label FROM sessions s WHERE s.thread_id IS NOT
     (SELECT h.thread_id FROM session_history h WHERE h.session_label = s.label ORDER BY h.id DESC LIMIT 1)`,
  'a session is unseen only while its first turn is open': `SELECT s.label FROM sessions s WHERE s.opening = 1 AND
     (s.thread_id IS NOT NULL OR NOT EXISTS
       (SELECT 1 FROM runs r WHERE r.session_label = s.label AND r.ended_at IS NULL AND r.epoch IS NOT NULL))`,
  'an open turn was opened under a lease there was': `SELECT r.turn_id FROM runs r
     LEFT JOIN session_leases l ON l.session_label = r.session_label
     WHERE r.ended_at IS NULL AND r.epoch IS NOT NULL AND (l.epoch IS NULL OR l.epoch < r.epoch)`,
  'threads has every turn that has ended, from its root': `SELECT t.id FROM turns t LEFT JOIN threads v ON v.turn_id = t.id
     WHERE ${finished} <> (v.turn_id IS NOT NULL)
       OR v.turn_id IS NOT NULL AND (v.depth <> t.depth OR v.total_tokens <> t.thread_tokens
         OR json_array_length(v.ancestry) <> t.depth + 1 OR json_extract(v.ancestry, '$[#-1]') <> t.id
         OR json_extract(v.ancestry, '$[#-2]') IS NOT t.parent_turn_id
         OR v.thread_key <> t.session_label || '/' || t.id)`,
}

/** The same for the tables of a ledger on a server. */
const ON_SERVER: Record<string, string> = {
  'a turn is one deeper than its parent': `select t.id from turns t left join turns p on p.id = t.parent_turn_id
     where t.depth <> coalesce(p.depth + 1, 0) or (t.parent_turn_id is null) <> (p.id is null)`,
  'no turn follows one that runs': `select t.id from turns t join turns p on p.id = t.parent_turn_id
     where p.status = 'streaming'`,
  'the tokens of a thread are those of its turns': `select t.id from turns t left join turns p on p.id = t.parent_turn_id
     where t.status <> 'streaming' and t.thread_tokens <> coalesce(p.thread_tokens, 0) + t.total_tokens`,
  'total_tokens is the sum of the four': `select id from turns
     where total_tokens <> input_tokens + output_tokens + cached_input_tokens + cache_write_tokens`,
  'an ended turn has its time, its place and its outcome': `select id from turns where status <> 'streaming'
     and (completed_at is null or stop_reason is null or n is null or outcome is null)`,
  'messages are numbered without a gap': `select turn_id from messages group by turn_id
     having min(sequence) <> 0 or max(sequence) <> count(*) - 1`,
  'calls are numbered without a gap': `select turn_id from tool_calls group by turn_id
     having min(sequence) <> 0 or max(sequence) <> count(*) - 1`,
  'every call of a turn that has ended has ended': `select c.id from tool_calls c join turns t on t.id = c.turn_id
     where t.status <> 'streaming' and c.status not in ('completed', 'failed')`,
  'every call of a turn that has ended is answered once': `select t.id from turns t where t.status <> 'streaming'
     and (t.tool_call_count, t.tool_call_count) <> ((select count(*) from tool_calls c where c.turn_id = t.id),
       (select count(*) from messages m where m.turn_id = t.id and m.role = 'tool'))`,
  'a compaction has its row, and no other turn': `select t.id from turns t left join compactions c on c.turn_id = t.id
     where (t.turn_type = 'compaction') <> (c.turn_id is not null)`,
  'a session points at a turn that has ended': `select s.label from sessions s join turns t on t.id = s.head
     where t.status = 'streaming'`,
  'a session is where it last moved to': `select s.label from sessions s where s.head is distinct from
     (select m.thread_id from session_moves m where m.session_label = s.label order by m.id desc limit 1)`,
  'a message of a queue that a turn has taken is in an open turn': `select q.id from queue_items q
     where q.status = 'processing' and not exists (select from turns t where t.id = q.turn_id and t.status = 'streaming')`,
  'a delivered message of a queue has its turn': `select q.id from queue_items q
     where q.status = 'delivered' and not exists (select from turns t where t.id = q.turn_id)`,
  'a dispatch is active as long as its message waits or is in a turn': `select d.id from dispatches d
     where (d.status = 'active') <> exists (select from queue_items q
       where q.id = d.id and q.status in ('pending', 'processing'))`,
}

/**
 * Checks that every invariant holds; and of a file, that it passes SQLite's integrity check and that every reference finds its row.
 */
export function expectSound(name: string): void {
  const invariants = Object.entries(onPostgres ? ON_SERVER : INVARIANTS)
  const checks = invariants.map(
    ([name, sql]) =>
      `SELECT '${name}' AS broken, count(*) AS n FROM (${sql}) x HAVING count(*) > 0`,
  )
  expect({
    ...(!onPostgres && {
      integrity: rows(name, 'PRAGMA integrity_check'),
      references: rows(name, 'PRAGMA foreign_key_check'),
    }),
    broken: rows(name, checks.join('\nUNION ALL ')),
  }).toEqual({
    ...(!onPostgres && { integrity: [{ integrity_check: 'ok' }], references: [] }),
    broken: [],
  })
}
