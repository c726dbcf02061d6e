-- Every turn has a number, and the lists of turns by day, model, tool and parent cost a commit nothing, or nearly nothing: they
-- name blocks of 64 turns by their numbers, and a reader looks at each turn of a block. Only `id` and the session have an index.

DROP VIEW threads;

CREATE TABLE turns_numbered (
  id TEXT NOT NULL UNIQUE,
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
  -- The stable code in addition to the kind: `interrupted`, `run_timeout`, the provider's.
  error_code TEXT,
  row_checksum INTEGER,
  -- In the order in which turns were written. Last, so that the columns before it are where they were.
  n INTEGER PRIMARY KEY CHECK (n > 0),
  -- The number of the first turn that followed it; the others are in `turn_branches`.
  first_child INTEGER,
  CHECK (parent_turn_id <> id)
) STRICT;

INSERT INTO turns_numbered SELECT id, parent_turn_id, turn_type, status, has_children, depth, thread_tokens, session_label,
  run_id, started_at, completed_at, model, provider, role, toolset_name, tools_available, permissions_granted,
  permissions_used, input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens, total_tokens,
  usage_estimated, context_tokens, cost, query_message_ids, response_message_id, tool_call_count, source_event_id,
  workspace_path, stop_reason, error_kind, error_message, error_retryable, attempts_json, error_code, row_checksum, rowid,
  (SELECT min(c.rowid) FROM turns c WHERE c.parent_turn_id = turns.id)
FROM turns ORDER BY rowid;

-- The children of a turn without the first.
CREATE TABLE turn_branches (
  parent_turn_id TEXT NOT NULL,
  id TEXT NOT NULL,
  PRIMARY KEY (parent_turn_id, id)
) STRICT, WITHOUT ROWID;
INSERT INTO turn_branches SELECT c.parent_turn_id, c.id FROM turns_numbered p JOIN turns c ON c.parent_turn_id = p.id
WHERE c.rowid <> p.first_child;

DROP TABLE turns;
ALTER TABLE turns_numbered RENAME TO turns;
-- Declared unique, which the key implies, so that an order by it and by rows of a turn needs no sorting.
CREATE UNIQUE INDEX turns_by_session ON turns (session_label, id);

-- The blocks with turns that were started on a day, counted from 1970 in UTC.
CREATE TABLE turns_of_days (
  day INTEGER NOT NULL,
  block INTEGER NOT NULL,
  PRIMARY KEY (day, block)
) STRICT, WITHOUT ROWID;
INSERT INTO turns_of_days
SELECT DISTINCT (started_at - (started_at % 86400000 + 86400000) % 86400000) / 86400000, n >> 6 FROM turns;

-- The blocks with turns of a model.
CREATE TABLE turns_of_models (
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  block INTEGER NOT NULL,
  PRIMARY KEY (provider, model, block)
) STRICT, WITHOUT ROWID;
INSERT INTO turns_of_models
SELECT DISTINCT provider, model, n >> 6 FROM turns WHERE provider IS NOT NULL AND model IS NOT NULL;

-- The blocks with turns that called a tool.
CREATE TABLE turns_of_tools (
  tool_name TEXT NOT NULL,
  block INTEGER NOT NULL,
  PRIMARY KEY (tool_name, block)
) STRICT, WITHOUT ROWID;
INSERT INTO turns_of_tools
SELECT DISTINCT c.tool_name, t.n >> 6 FROM tool_calls c JOIN turns t ON t.id = c.turn_id;
DROP INDEX tool_calls_by_tool;

CREATE TRIGGER turns_list_blocks AFTER INSERT ON turns
BEGIN
  INSERT OR IGNORE INTO turns_of_days (day, block)
  VALUES ((NEW.started_at - (NEW.started_at % 86400000 + 86400000) % 86400000) / 86400000, NEW.n >> 6);
  INSERT OR IGNORE INTO turns_of_models (provider, model, block)
  SELECT NEW.provider, NEW.model, NEW.n >> 6 WHERE NEW.provider IS NOT NULL AND NEW.model IS NOT NULL;
END;

CREATE TRIGGER tool_calls_list_blocks AFTER INSERT ON tool_calls
BEGIN
  INSERT OR IGNORE INTO turns_of_tools (tool_name, block) SELECT NEW.tool_name, n >> 6 FROM turns WHERE id = NEW.turn_id;
END;

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
  INSERT INTO turn_branches (parent_turn_id, id)
  SELECT id, NEW.id FROM turns WHERE id = NEW.parent_turn_id AND has_children = 1;
  UPDATE turns SET has_children = 1, first_child = NEW.n WHERE id = NEW.parent_turn_id AND has_children = 0;
END;

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
FROM turns t
WHERE t.status NOT IN ('pending', 'streaming');
