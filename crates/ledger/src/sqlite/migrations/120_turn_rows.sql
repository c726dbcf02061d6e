-- A turn has a narrow row: its parent by number, what repeats from turn to turn by the number of its text, and words of fixed
-- lists as numbers. The view `turns` has the old name, columns and values.

DROP VIEW threads;
DROP VIEW blob_references;
DROP VIEW messages;
DROP VIEW tool_calls;

-- Texts that many turns have. No row is changed. A text is found by its checksum.
CREATE TABLE strings (
  id INTEGER PRIMARY KEY,
  text TEXT NOT NULL,
  row_checksum INTEGER
) STRICT;

INSERT INTO strings (text, row_checksum)
SELECT text, checksum_of('text', text) FROM (
  SELECT model AS text FROM turns UNION SELECT provider FROM turns UNION SELECT toolset_name FROM turns
  UNION SELECT tools_available FROM turns UNION SELECT permissions_granted FROM turns
  UNION SELECT permissions_used FROM turns UNION SELECT workspace_path FROM turns UNION SELECT error_code FROM turns)
WHERE text IS NOT NULL;
-- With the text, so that a second copy of it is on another page.
CREATE INDEX strings_by_checksum ON strings (row_checksum, text);

-- Other tables refer to it by its new name from here on.
ALTER TABLE turns RENAME TO turn_rows;

CREATE TABLE turn_rows_narrow (
  id TEXT NOT NULL UNIQUE,
  parent INTEGER REFERENCES turn_rows_narrow (n),
  -- 0: normal, 1: compaction.
  turn_type INTEGER CHECK (turn_type BETWEEN 0 AND 1),
  -- 0: pending, 1: streaming, 2: completed, 3: aborted, 4: failed.
  status INTEGER CHECK (status BETWEEN 0 AND 4),
  -- 0 for a root, the parent's + 1 otherwise: what makes a cycle impossible (see the triggers).
  depth INTEGER NOT NULL,
  -- The tokens of this turn and all its ancestors.
  thread_tokens INTEGER NOT NULL,
  session_label TEXT NOT NULL REFERENCES sessions (label),
  run_id TEXT NOT NULL,
  started_at INTEGER NOT NULL,
  completed_at INTEGER,
  -- A row of `strings`, as every column with this comment: (1).
  model INTEGER,
  -- (1)
  provider INTEGER,
  -- 0: unified, 1: manager, 2: worker.
  role INTEGER CHECK (role BETWEEN 0 AND 2),
  -- (1)
  toolset_name INTEGER,
  -- (1)
  tools_available INTEGER,
  -- (1)
  permissions_granted INTEGER,
  -- (1)
  permissions_used INTEGER,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cached_input_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  reasoning_tokens INTEGER NOT NULL,
  total_tokens INTEGER NOT NULL,
  usage_estimated INTEGER NOT NULL CHECK (usage_estimated IN (0, 1)),
  -- The size of the context after the last call; NULL while unknown.
  context_tokens INTEGER,
  -- US dollars; NULL where a price is unknown, never 0 for it.
  cost REAL,
  query_message_ids TEXT,
  response_message_id TEXT,
  tool_call_count INTEGER NOT NULL,
  source_event_id TEXT,
  -- (1)
  workspace_path INTEGER,
  -- 0: end_turn, 1: max_tokens, 2: tool_use, 3: timeout, 4: aborted, 5: error.
  stop_reason INTEGER CHECK (stop_reason BETWEEN 0 AND 5),
  -- 0: context_overflow, 1: auth_failure, 2: rate_limit, 3: model_error, 4: timeout, 5: compaction_failure, 6: unknown.
  error_kind INTEGER CHECK (error_kind BETWEEN 0 AND 6),
  error_message TEXT,
  error_retryable INTEGER CHECK (error_retryable IN (0, 1)),
  attempts_json TEXT,
  -- (1)
  error_code INTEGER,
  -- Of the values of the view `turns`.
  row_checksum INTEGER,
  -- The number of the first turn that followed it; the others are in `turn_branches`.
  first_child INTEGER,
  -- In the order in which turns were written.
  n INTEGER PRIMARY KEY CHECK (n > 0),
  CHECK (parent <> n)
) STRICT;

-- An altered row stays one: its checksum does not change, and a word that is in no list becomes NULL.
INSERT INTO turn_rows_narrow
SELECT t.id, p.n,
  CASE t.turn_type WHEN 'normal' THEN 0 WHEN 'compaction' THEN 1 END,
  CASE t.status WHEN 'pending' THEN 0 WHEN 'streaming' THEN 1 WHEN 'completed' THEN 2 WHEN 'aborted' THEN 3
    WHEN 'failed' THEN 4 END,
  t.depth, t.thread_tokens, t.session_label, t.run_id, t.started_at, t.completed_at,
  (SELECT s.id FROM strings s WHERE s.row_checksum = checksum_of('text', t.model) AND s.text = t.model),
  (SELECT s.id FROM strings s WHERE s.row_checksum = checksum_of('text', t.provider) AND s.text = t.provider),
  CASE t.role WHEN 'unified' THEN 0 WHEN 'manager' THEN 1 WHEN 'worker' THEN 2 END,
  (SELECT s.id FROM strings s WHERE s.row_checksum = checksum_of('text', t.toolset_name) AND s.text = t.toolset_name),
  (SELECT s.id FROM strings s WHERE s.row_checksum = checksum_of('text', t.tools_available) AND s.text = t.tools_available),
  (SELECT s.id FROM strings s
     WHERE s.row_checksum = checksum_of('text', t.permissions_granted) AND s.text = t.permissions_granted),
  (SELECT s.id FROM strings s WHERE s.row_checksum = checksum_of('text', t.permissions_used) AND s.text = t.permissions_used),
  t.input_tokens, t.output_tokens, t.cached_input_tokens, t.cache_write_tokens, t.reasoning_tokens, t.total_tokens,
  t.usage_estimated, t.context_tokens, t.cost, t.query_message_ids, t.response_message_id, t.tool_call_count,
  t.source_event_id,
  (SELECT s.id FROM strings s WHERE s.row_checksum = checksum_of('text', t.workspace_path) AND s.text = t.workspace_path),
  CASE t.stop_reason WHEN 'end_turn' THEN 0 WHEN 'max_tokens' THEN 1 WHEN 'tool_use' THEN 2 WHEN 'timeout' THEN 3
    WHEN 'aborted' THEN 4 WHEN 'error' THEN 5 END,
  CASE t.error_kind WHEN 'context_overflow' THEN 0 WHEN 'auth_failure' THEN 1 WHEN 'rate_limit' THEN 2
    WHEN 'model_error' THEN 3 WHEN 'timeout' THEN 4 WHEN 'compaction_failure' THEN 5 WHEN 'unknown' THEN 6 END,
  t.error_message, t.error_retryable, t.attempts_json,
  (SELECT s.id FROM strings s WHERE s.row_checksum = checksum_of('text', t.error_code) AND s.text = t.error_code),
  t.row_checksum, t.first_child, t.n
FROM turn_rows t LEFT JOIN turn_rows p ON p.id = t.parent_turn_id ORDER BY t.n;

DROP TABLE turn_rows;
ALTER TABLE turn_rows_narrow RENAME TO turn_rows;
-- Declared unique, which the key implies, so that an order by it and by rows of a turn needs no sorting.
CREATE UNIQUE INDEX turns_by_session ON turn_rows (session_label, id);
CREATE INDEX turns_by_run ON turn_rows (run_id);

-- The columns of a list are in the order in which the table had them.
CREATE VIEW turns (id, parent_turn_id, turn_type, status, has_children, depth, thread_tokens, session_label, run_id,
  started_at, completed_at, model, provider, role, toolset_name, tools_available, permissions_granted, permissions_used,
  input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens, total_tokens, usage_estimated,
  context_tokens, cost, query_message_ids, response_message_id, tool_call_count, source_event_id, workspace_path,
  stop_reason, error_kind, error_message, error_retryable, attempts_json, error_code, row_checksum, n, first_child) AS
SELECT t.id,
  (SELECT p.id FROM turn_rows p WHERE p.n = t.parent),
  CASE t.turn_type WHEN 0 THEN 'normal' WHEN 1 THEN 'compaction' END,
  CASE t.status WHEN 0 THEN 'pending' WHEN 1 THEN 'streaming' WHEN 2 THEN 'completed' WHEN 3 THEN 'aborted'
    WHEN 4 THEN 'failed' END,
  t.first_child IS NOT NULL,
  t.depth, t.thread_tokens, t.session_label, t.run_id, t.started_at, t.completed_at,
  (SELECT s.text FROM strings s WHERE s.id = t.model),
  (SELECT s.text FROM strings s WHERE s.id = t.provider),
  CASE t.role WHEN 0 THEN 'unified' WHEN 1 THEN 'manager' WHEN 2 THEN 'worker' END,
  (SELECT s.text FROM strings s WHERE s.id = t.toolset_name),
  (SELECT s.text FROM strings s WHERE s.id = t.tools_available),
  (SELECT s.text FROM strings s WHERE s.id = t.permissions_granted),
  (SELECT s.text FROM strings s WHERE s.id = t.permissions_used),
  t.input_tokens, t.output_tokens, t.cached_input_tokens, t.cache_write_tokens, t.reasoning_tokens, t.total_tokens,
  t.usage_estimated, t.context_tokens, t.cost, t.query_message_ids, t.response_message_id, t.tool_call_count,
  t.source_event_id,
  (SELECT s.text FROM strings s WHERE s.id = t.workspace_path),
  CASE t.stop_reason WHEN 0 THEN 'end_turn' WHEN 1 THEN 'max_tokens' WHEN 2 THEN 'tool_use' WHEN 3 THEN 'timeout'
    WHEN 4 THEN 'aborted' WHEN 5 THEN 'error' END,
  CASE t.error_kind WHEN 0 THEN 'context_overflow' WHEN 1 THEN 'auth_failure' WHEN 2 THEN 'rate_limit'
    WHEN 3 THEN 'model_error' WHEN 4 THEN 'timeout' WHEN 5 THEN 'compaction_failure' WHEN 6 THEN 'unknown' END,
  t.error_message, t.error_retryable, t.attempts_json,
  (SELECT s.text FROM strings s WHERE s.id = t.error_code),
  t.row_checksum, t.n, t.first_child
FROM turn_rows t;

CREATE TRIGGER turns_list_blocks AFTER INSERT ON turn_rows
BEGIN
  INSERT OR IGNORE INTO turns_of_days (day, block)
  VALUES ((NEW.started_at - (NEW.started_at % 86400000 + 86400000) % 86400000) / 86400000, NEW.n >> 6);
  INSERT OR IGNORE INTO turns_of_models (provider, model, block)
  SELECT p.text, m.text, NEW.n >> 6 FROM strings p CROSS JOIN strings m WHERE p.id = NEW.provider AND m.id = NEW.model;
END;

-- A child is one deeper than its parent, and a turn never moves, so no walk of parents can loop.
CREATE TRIGGER turns_depth_on_insert BEFORE INSERT ON turn_rows
WHEN NEW.depth IS NOT CASE WHEN NEW.parent IS NULL THEN 0 ELSE (SELECT depth + 1 FROM turn_rows WHERE n = NEW.parent) END
BEGIN
  SELECT RAISE(ABORT, 'a turn is one deeper than its parent');
END;

CREATE TRIGGER turns_stay BEFORE UPDATE OF n, id, parent, depth ON turn_rows
BEGIN
  SELECT RAISE(ABORT, 'a turn keeps its parent');
END;

-- A parent stays a parent.
CREATE TRIGGER turns_keep_first_child BEFORE UPDATE OF first_child ON turn_rows WHEN OLD.first_child IS NOT NULL
BEGIN
  SELECT RAISE(ABORT, 'a turn with children stays one');
END;

CREATE TRIGGER turns_mark_parent AFTER INSERT ON turn_rows WHEN NEW.parent IS NOT NULL
BEGIN
  INSERT INTO turn_branches (parent_turn_id, id)
  SELECT id, NEW.id FROM turn_rows WHERE n = NEW.parent AND first_child IS NOT NULL;
  UPDATE turn_rows SET first_child = NEW.n WHERE n = NEW.parent AND first_child IS NULL;
END;

CREATE VIEW threads (turn_id, ancestry, total_tokens, depth, persona_id, thread_key) AS
SELECT
  t.id,
  (WITH RECURSIVE up (id, parent, distance) AS (
     SELECT t.id, t.parent, 0
     UNION ALL
     SELECT p.id, p.parent, up.distance + 1 FROM up JOIN turn_rows p ON p.n = up.parent
   ) SELECT json_group_array(id) FROM (SELECT id FROM up ORDER BY distance DESC)),
  t.thread_tokens,
  t.depth,
  (SELECT s.persona_id FROM sessions s WHERE s.label = t.session_label),
  t.session_label || '/' || t.id
FROM turn_rows t
WHERE t.status NOT IN (0, 1);

-- As before: both conditions say the same; one finds the rows of a turn, the other the turn of a row.
CREATE VIEW messages (id, turn_id, role, source, sequence, created_at, tool_call_id, is_error, provider, api, model,
  response_id, stop_reason, checksum, context_json, metadata_json, content, thinking, blocks_json, blobs_json,
  row_checksum) AS
SELECT m.id, t.id, m.role, m.source, m.key & 1048575, m.created_at, m.tool_call_id, m.is_error, m.provider, m.api,
  m.model, m.response_id, m.stop_reason, m.checksum, m.context_json, m.metadata_json, m.content, m.thinking,
  m.blocks_json, m.blobs_json, m.row_checksum
FROM message_rows m JOIN turn_rows t ON t.n = m.key >> 20 AND m.key BETWEEN t.n << 20 AND t.n << 20 | 1048575;

CREATE VIEW tool_calls (id, provider_call_id, turn_id, message_id, tool_name, tool_number, status, spawned_session_label,
  started_at, completed_at, sequence, error, params_json, result_json, replay, arguments_hash, blobs_json,
  row_checksum) AS
SELECT c.id, c.provider_call_id, t.id, c.message_id, c.tool_name, c.tool_number, c.status, c.spawned_session_label,
  c.started_at, c.completed_at, c.key & 1048575, c.error, c.params_json, c.result_json, c.replay, c.arguments_hash,
  c.blobs_json, c.row_checksum
FROM call_rows c JOIN turn_rows t ON t.n = c.key >> 20 AND c.key BETWEEN t.n << 20 AND t.n << 20 | 1048575;

CREATE VIEW blob_references (hash, turn_id, message_id, tool_call_id, column_name, at, form) AS
SELECT json_extract(p.value, '$.hash'), m.turn_id, m.id, NULL, c.key, json_extract(p.value, '$.at'),
  json_extract(p.value, '$.form')
FROM messages m, json_each(CASE WHEN json_valid(m.blobs_json) THEN m.blobs_json ELSE '{}' END) c, json_each(c.value) p
WHERE m.blobs_json IS NOT NULL
UNION ALL
SELECT json_extract(p.value, '$.hash'), t.turn_id, NULL, t.id, c.key, json_extract(p.value, '$.at'),
  json_extract(p.value, '$.form')
FROM tool_calls t, json_each(CASE WHEN json_valid(t.blobs_json) THEN t.blobs_json ELSE '{}' END) c, json_each(c.value) p
WHERE t.blobs_json IS NOT NULL;
