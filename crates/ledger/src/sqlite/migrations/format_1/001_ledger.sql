-- The ledger: sessions point at turns, turns form a tree, messages and tool calls belong to turns.
-- The column names are those of the interface. Indexes exist only if a query of the API needs them.

CREATE TABLE schema_meta (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  ledger_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  engine_version TEXT NOT NULL
) STRICT;

CREATE TABLE sessions (
  label TEXT PRIMARY KEY NOT NULL CHECK (length(CAST(label AS BLOB)) BETWEEN 1 AND 512),
  thread_id TEXT REFERENCES turns (id),
  persona_id TEXT NOT NULL DEFAULT 'default',
  is_subagent INTEGER NOT NULL DEFAULT 0 CHECK (is_subagent IN (0, 1)),
  parent_session_label TEXT,
  parent_turn_id TEXT REFERENCES turns (id),
  spawn_tool_call_id TEXT,
  task_description TEXT,
  task_status TEXT CHECK (task_status IN ('pending', 'running', 'completed', 'failed', 'aborted')),
  routing_key TEXT,
  origin TEXT,
  origin_session_id TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'archived'))
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (
  id TEXT PRIMARY KEY NOT NULL,
  parent_turn_id TEXT REFERENCES turns (id),
  turn_type TEXT NOT NULL DEFAULT 'normal' CHECK (turn_type IN ('normal', 'compaction')),
  status TEXT NOT NULL DEFAULT 'pending'
    CHECK (status IN ('pending', 'streaming', 'completed', 'aborted', 'failed')),
  has_children INTEGER NOT NULL DEFAULT 0 CHECK (has_children IN (0, 1)),
  -- 0 for a root, the parent's + 1 otherwise: what makes a cycle impossible (see the triggers).
  depth INTEGER NOT NULL,
  -- The tokens of this turn and all its ancestors.
  thread_tokens INTEGER NOT NULL,
  session_label TEXT NOT NULL REFERENCES sessions (label),
  run_id TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  completed_at INTEGER,
  model TEXT,
  provider TEXT,
  role TEXT NOT NULL DEFAULT 'unified' CHECK (role IN ('manager', 'worker', 'unified')),
  toolset_name TEXT,
  tools_available TEXT CHECK (tools_available IS NULL OR json_valid(tools_available)),
  permissions_granted TEXT CHECK (permissions_granted IS NULL OR json_valid(permissions_granted)),
  permissions_used TEXT CHECK (permissions_used IS NULL OR json_valid(permissions_used)),
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cached_input_tokens INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens INTEGER NOT NULL DEFAULT 0,
  total_tokens INTEGER NOT NULL DEFAULT 0,
  usage_estimated INTEGER NOT NULL DEFAULT 0 CHECK (usage_estimated IN (0, 1)),
  -- The size of the context after the last call; NULL while unknown.
  context_tokens INTEGER,
  -- US dollars; NULL where a price is unknown, never 0 for it.
  cost REAL,
  query_message_ids TEXT CHECK (query_message_ids IS NULL OR json_valid(query_message_ids)),
  response_message_id TEXT,
  tool_call_count INTEGER NOT NULL DEFAULT 0,
  source_event_id TEXT,
  workspace_path TEXT,
  stop_reason TEXT
    CHECK (stop_reason IN ('end_turn', 'max_tokens', 'tool_use', 'timeout', 'aborted', 'error')),
  error_kind TEXT
    CHECK (error_kind IN ('context_overflow', 'auth_failure', 'rate_limit', 'model_error', 'timeout',
                          'compaction_failure', 'unknown')),
  error_message TEXT,
  error_retryable INTEGER CHECK (error_retryable IN (0, 1)),
  attempts_json TEXT CHECK (attempts_json IS NULL OR json_valid(attempts_json)),
  CHECK (parent_turn_id <> id)
) STRICT;

-- A child is one deeper than its parent, and a turn with children never moves, so no walk of parents can loop.
CREATE TRIGGER turns_depth_on_insert BEFORE INSERT ON turns
WHEN NEW.depth IS NOT CASE WHEN NEW.parent_turn_id IS NULL THEN 0
  ELSE (SELECT depth + 1 FROM turns WHERE id = NEW.parent_turn_id) END
BEGIN
  SELECT RAISE(ABORT, 'a turn is one deeper than its parent');
END;

CREATE TRIGGER turns_depth_on_update BEFORE UPDATE OF id, parent_turn_id, depth ON turns
WHEN NEW.id <> OLD.id OR OLD.has_children = 1
  OR NEW.depth IS NOT CASE WHEN NEW.parent_turn_id IS NULL THEN 0
    ELSE (SELECT depth + 1 FROM turns WHERE id = NEW.parent_turn_id) END
BEGIN
  SELECT RAISE(ABORT, 'a turn with children keeps its parent');
END;

-- A parent stays a parent: the trigger above relies on this flag.
CREATE TRIGGER turns_keep_has_children BEFORE UPDATE OF has_children ON turns
WHEN OLD.has_children = 1 AND NEW.has_children = 0
BEGIN
  SELECT RAISE(ABORT, 'a turn with children stays one');
END;

CREATE TRIGGER turns_mark_parent AFTER INSERT ON turns WHEN NEW.parent_turn_id IS NOT NULL
BEGIN
  UPDATE turns SET has_children = 1 WHERE id = NEW.parent_turn_id AND has_children = 0;
END;

CREATE TABLE messages (
  -- The engine's ULID, or the host's own id of its message: a message that is sent again keeps it, so it is unique only
  -- within its turn.
  id TEXT NOT NULL,
  turn_id TEXT NOT NULL REFERENCES turns (id),
  role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
  source TEXT,
  sequence INTEGER NOT NULL CHECK (sequence >= 0),
  created_at INTEGER NOT NULL,
  tool_call_id TEXT,
  is_error INTEGER CHECK (is_error IN (0, 1)),
  provider TEXT,
  api TEXT,
  model TEXT,
  response_id TEXT,
  stop_reason TEXT,
  -- xxh3 of the columns a later request is built from.
  checksum INTEGER NOT NULL,
  context_json TEXT,
  metadata_json TEXT,
  -- All visible text, and all shown reasoning, in order.
  content TEXT NOT NULL,
  thinking TEXT,
  -- The frame of the blocks: their texts stand in the two columns above and are named here by their length in bytes.
  -- NULL for a message that is one plain text block.
  blocks_json TEXT,
  UNIQUE (turn_id, id),
  UNIQUE (turn_id, sequence)
) STRICT;

CREATE TABLE tool_calls (
  -- The engine's ULID, which is the tool's idempotency key; providers repeat their ids.
  id TEXT PRIMARY KEY NOT NULL,
  provider_call_id TEXT NOT NULL,
  turn_id TEXT NOT NULL REFERENCES turns (id),
  message_id TEXT,
  tool_name TEXT NOT NULL,
  tool_number INTEGER,
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'running', 'completed', 'failed')),
  spawned_session_label TEXT,
  started_at INTEGER NOT NULL,
  completed_at INTEGER,
  sequence INTEGER NOT NULL CHECK (sequence >= 0),
  error TEXT,
  params_json TEXT NOT NULL,
  result_json TEXT,
  UNIQUE (turn_id, sequence),
  FOREIGN KEY (turn_id, message_id) REFERENCES messages (turn_id, id)
) STRICT;

CREATE TABLE session_history (
  id INTEGER PRIMARY KEY,
  session_label TEXT NOT NULL REFERENCES sessions (label),
  thread_id TEXT NOT NULL REFERENCES turns (id),
  changed_at INTEGER NOT NULL
) STRICT;

CREATE TABLE compactions (
  turn_id TEXT PRIMARY KEY NOT NULL REFERENCES turns (id),
  compaction_type TEXT NOT NULL DEFAULT 'summary'
    CHECK (compaction_type IN ('summary', 'sliding_window', 'hard_clear', 'tool_result_truncation')),
  summary TEXT NOT NULL,
  summarized_through_turn_id TEXT NOT NULL REFERENCES turns (id),
  first_kept_turn_id TEXT NOT NULL REFERENCES turns (id),
  turns_summarized INTEGER NOT NULL,
  model TEXT NOT NULL,
  provider TEXT NOT NULL,
  tokens_before INTEGER NOT NULL,
  tokens_after INTEGER NOT NULL,
  summary_tokens INTEGER NOT NULL,
  summarization_input_tokens INTEGER NOT NULL,
  summarization_output_tokens INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  "trigger" TEXT NOT NULL CHECK ("trigger" IN ('context_limit', 'overflow_recovery'))
) STRICT, WITHOUT ROWID;

-- The threads of the interface, one per turn. The ancestry is computed: stored, it would grow with the square of the length.
CREATE VIEW threads (turn_id, ancestry, total_tokens, depth, persona_id, thread_key) AS
SELECT
  t.id,
  (WITH RECURSIVE up (id, parent, distance) AS (
     SELECT t.id, t.parent_turn_id, 0
     UNION ALL
     SELECT p.id, p.parent_turn_id, up.distance + 1 FROM up JOIN turns p ON p.id = up.parent
   ) SELECT json_group_array(id) FROM (SELECT id FROM up ORDER BY distance DESC)),
  t.thread_tokens,
  t.depth,
  (SELECT s.persona_id FROM sessions s WHERE s.label = t.session_label),
  t.session_label || '/' || t.id
FROM turns t;
