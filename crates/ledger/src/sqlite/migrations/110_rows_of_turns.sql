-- Messages and tool calls have a whole number as their key: the number of their turn and their position in it. So the rows of a turn
-- are one range without an index, and no row repeats the id of its turn. Views have the old names and columns.

DROP VIEW blob_references;
DROP INDEX messages_with_blobs;
DROP INDEX tool_calls_with_blobs;

CREATE TABLE message_rows (
  -- The engine's ULID, or the host's own id of its message: a message that is sent again keeps it, so it is unique only
  -- within its turn, which the writer and `verify()` check.
  id TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'system', 'tool')),
  source TEXT,
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
  blobs_json TEXT,
  row_checksum INTEGER,
  -- The number of the turn times 1,048,576, and the position in the turn.
  key INTEGER PRIMARY KEY
) STRICT;

INSERT INTO message_rows SELECT m.id, m.role, m.source, m.created_at, m.tool_call_id, m.is_error, m.provider, m.api, m.model,
  m.response_id, m.stop_reason, m.checksum, m.context_json, m.metadata_json, m.content, m.thinking, m.blocks_json,
  m.blobs_json,
  -- An altered row stays one.
  CASE WHEN m.row_checksum IS checksum_of(
      'id, turn_id, source, sequence, created_at, checksum, context_json, metadata_json, blobs_json',
      m.id, m.turn_id, m.source, m.sequence, m.created_at, m.checksum, m.context_json, m.metadata_json, m.blobs_json)
    THEN checksum_of('key, id, source, created_at, checksum, context_json, metadata_json, blobs_json',
      t.n << 20 | m.sequence, m.id, m.source, m.created_at, m.checksum, m.context_json, m.metadata_json, m.blobs_json) END,
  t.n << 20 | m.sequence
FROM turns t CROSS JOIN messages m ON m.turn_id = t.id ORDER BY t.n, m.sequence;

CREATE TABLE call_rows (
  -- The engine's ULID, which is the tool's idempotency key; providers repeat their ids.
  id TEXT NOT NULL UNIQUE,
  provider_call_id TEXT NOT NULL,
  -- A message of the same turn, which the writer and `verify()` check.
  message_id TEXT,
  tool_name TEXT NOT NULL,
  tool_number INTEGER,
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'running', 'completed', 'failed')),
  spawned_session_label TEXT,
  started_at INTEGER NOT NULL,
  completed_at INTEGER,
  error TEXT,
  params_json TEXT NOT NULL,
  result_json TEXT,
  replay TEXT CHECK (replay IN ('pure', 'idempotent', 'reconcilable', 'unsafe')),
  arguments_hash TEXT,
  blobs_json TEXT,
  row_checksum INTEGER,
  -- As in `message_rows`, with the position among the calls of the turn.
  key INTEGER PRIMARY KEY
) STRICT;

INSERT INTO call_rows SELECT c.id, c.provider_call_id, c.message_id, c.tool_name, c.tool_number, c.status,
  c.spawned_session_label, c.started_at, c.completed_at, c.error, c.params_json, c.result_json, c.replay, c.arguments_hash,
  c.blobs_json,
  CASE WHEN c.row_checksum IS checksum_of(
      'id, provider_call_id, turn_id, message_id, tool_name, tool_number, status, spawned_session_label, started_at, completed_at, sequence, error, params_json, result_json, replay, arguments_hash, blobs_json',
      c.id, c.provider_call_id, c.turn_id, c.message_id, c.tool_name, c.tool_number, c.status, c.spawned_session_label,
      c.started_at, c.completed_at, c.sequence, c.error, c.params_json, c.result_json, c.replay, c.arguments_hash, c.blobs_json)
    THEN checksum_of(
      'key, id, provider_call_id, message_id, tool_name, tool_number, status, spawned_session_label, started_at, completed_at, error, params_json, result_json, replay, arguments_hash, blobs_json',
      t.n << 20 | c.sequence, c.id, c.provider_call_id, c.message_id, c.tool_name, c.tool_number, c.status,
      c.spawned_session_label, c.started_at, c.completed_at, c.error, c.params_json, c.result_json, c.replay,
      c.arguments_hash, c.blobs_json) END,
  t.n << 20 | c.sequence
FROM turns t CROSS JOIN tool_calls c ON c.turn_id = t.id ORDER BY t.n, c.sequence;

DROP TABLE tool_calls;
DROP TABLE messages;

CREATE INDEX messages_with_blobs ON message_rows (key) WHERE blobs_json IS NOT NULL;
CREATE INDEX tool_calls_with_blobs ON call_rows (key) WHERE blobs_json IS NOT NULL;

-- Both conditions say the same: one finds the rows of a turn, the other the turn of a row.
CREATE VIEW messages (id, turn_id, role, source, sequence, created_at, tool_call_id, is_error, provider, api, model,
  response_id, stop_reason, checksum, context_json, metadata_json, content, thinking, blocks_json, blobs_json,
  row_checksum) AS
SELECT m.id, t.id, m.role, m.source, m.key & 1048575, m.created_at, m.tool_call_id, m.is_error, m.provider, m.api,
  m.model, m.response_id, m.stop_reason, m.checksum, m.context_json, m.metadata_json, m.content, m.thinking,
  m.blocks_json, m.blobs_json, m.row_checksum
FROM message_rows m JOIN turns t ON t.n = m.key >> 20 AND m.key BETWEEN t.n << 20 AND t.n << 20 | 1048575;

CREATE VIEW tool_calls (id, provider_call_id, turn_id, message_id, tool_name, tool_number, status, spawned_session_label,
  started_at, completed_at, sequence, error, params_json, result_json, replay, arguments_hash, blobs_json,
  row_checksum) AS
SELECT c.id, c.provider_call_id, t.id, c.message_id, c.tool_name, c.tool_number, c.status, c.spawned_session_label,
  c.started_at, c.completed_at, c.key & 1048575, c.error, c.params_json, c.result_json, c.replay, c.arguments_hash,
  c.blobs_json, c.row_checksum
FROM call_rows c JOIN turns t ON t.n = c.key >> 20 AND c.key BETWEEN t.n << 20 AND t.n << 20 | 1048575;

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

CREATE TRIGGER call_rows_list_blocks AFTER INSERT ON call_rows
BEGIN
  INSERT OR IGNORE INTO turns_of_tools (tool_name, block) VALUES (NEW.tool_name, NEW.key >> 26);
END;

-- The words of messages are indexed again, by the new keys.
INSERT INTO message_words (message_words) VALUES ('delete-all');
UPDATE search_progress SET indexed_through = 0, row_checksum = checksum_of('indexed_through', 0);
