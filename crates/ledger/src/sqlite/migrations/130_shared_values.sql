-- A value that a message has is not stored again with the call: its arguments, its result, the id of its message. What repeats
-- from message to message is a number of `strings`, or of a fixed list. The views `message_values` and `call_values` have the
-- values as they were, by key; `messages` and `tool_calls` as before.

DROP VIEW blob_references;
DROP VIEW messages;
DROP VIEW tool_calls;
DROP INDEX messages_with_blobs;
DROP INDEX tool_calls_with_blobs;

INSERT INTO strings (text, row_checksum)
SELECT text, checksum_of('text', text) FROM (
  SELECT provider AS text FROM message_rows UNION SELECT api FROM message_rows UNION SELECT model FROM message_rows
  UNION SELECT stop_reason FROM message_rows UNION SELECT tool_name FROM call_rows)
WHERE text IS NOT NULL AND text NOT IN (SELECT text FROM strings);

ALTER TABLE message_rows RENAME TO message_rows_before;
CREATE TABLE message_rows (
  -- The engine's ULID, or the host's own id of its message: a message that is sent again keeps it, so it is unique only
  -- within its turn, which the writer and `verify()` check.
  id TEXT NOT NULL,
  -- 0: user, 1: assistant, 2: system, 3: tool.
  role INTEGER CHECK (role BETWEEN 0 AND 3),
  source TEXT,
  created_at INTEGER NOT NULL,
  tool_call_id TEXT,
  is_error INTEGER CHECK (is_error IN (0, 1)),
  -- A row of `strings`, as every column with this comment: (1).
  provider INTEGER,
  -- (1)
  api INTEGER,
  -- (1)
  model INTEGER,
  response_id TEXT,
  -- (1)
  stop_reason INTEGER,
  -- xxh3 of the values a later request is built from.
  checksum INTEGER NOT NULL,
  context_json TEXT,
  metadata_json TEXT,
  -- All visible text, and all shown reasoning, in order.
  content TEXT NOT NULL,
  thinking TEXT,
  -- The frame of the blocks: their texts stand in the two columns above and are named here by their length in bytes.
  -- NULL for a message that is one plain text block, or one result of one text.
  blocks_json TEXT,
  -- (1): the tool of a message that is one result of one text.
  result_of INTEGER,
  blobs_json TEXT,
  -- Of the values of the view `message_values`.
  row_checksum INTEGER,
  -- The number of the turn times 1,048,576, and the position in the turn.
  key INTEGER PRIMARY KEY
) STRICT;

INSERT INTO message_rows SELECT m.id,
  CASE m.role WHEN 'user' THEN 0 WHEN 'assistant' THEN 1 WHEN 'system' THEN 2 WHEN 'tool' THEN 3 END,
  m.source, m.created_at, m.tool_call_id, m.is_error,
  (SELECT s.id FROM strings s WHERE s.row_checksum = checksum_of('text', m.provider) AND s.text = m.provider),
  (SELECT s.id FROM strings s WHERE s.row_checksum = checksum_of('text', m.api) AND s.text = m.api),
  (SELECT s.id FROM strings s WHERE s.row_checksum = checksum_of('text', m.model) AND s.text = m.model),
  m.response_id,
  (SELECT s.id FROM strings s WHERE s.row_checksum = checksum_of('text', m.stop_reason) AND s.text = m.stop_reason),
  m.checksum, m.context_json, m.metadata_json, m.content, m.thinking, m.blocks_json, NULL, m.blobs_json, m.row_checksum,
  m.key
FROM message_rows_before m ORDER BY m.key;
DROP TABLE message_rows_before;
CREATE INDEX messages_with_blobs ON message_rows (key) WHERE blobs_json IS NOT NULL;

CREATE VIEW message_values (id, role, source, created_at, tool_call_id, is_error, provider, api, model, response_id,
  stop_reason, checksum, context_json, metadata_json, content, thinking, blocks_json, blobs_json, row_checksum, key) AS
SELECT m.id,
  CASE m.role WHEN 0 THEN 'user' WHEN 1 THEN 'assistant' WHEN 2 THEN 'system' WHEN 3 THEN 'tool' END,
  m.source, m.created_at, m.tool_call_id, m.is_error,
  (SELECT s.text FROM strings s WHERE s.id = m.provider),
  (SELECT s.text FROM strings s WHERE s.id = m.api),
  (SELECT s.text FROM strings s WHERE s.id = m.model),
  m.response_id,
  (SELECT s.text FROM strings s WHERE s.id = m.stop_reason),
  m.checksum, m.context_json, m.metadata_json, m.content, m.thinking,
  CASE WHEN m.result_of IS NULL THEN m.blocks_json ELSE
    (SELECT '[{"type":"tool_result","toolName":' || json_quote(s.text) || ',"content":[{"type":"text","textBytes":'
       || length(CAST(m.content AS BLOB)) || '}]}]' FROM strings s WHERE s.id = m.result_of) END,
  m.blobs_json, m.row_checksum, m.key
FROM message_rows m;

ALTER TABLE call_rows RENAME TO call_rows_before;
CREATE TABLE call_rows (
  -- The engine's ULID, which is the tool's idempotency key; providers repeat their ids.
  id TEXT NOT NULL UNIQUE,
  provider_call_id TEXT NOT NULL,
  -- The position of its message in the turn.
  message INTEGER,
  -- The block of that message that has the arguments; NULL where they are in `params_json`.
  block INTEGER,
  -- (1)
  tool_name INTEGER,
  tool_number INTEGER,
  -- 0: pending, 1: running, 2: completed, 3: failed.
  status INTEGER CHECK (status BETWEEN 0 AND 3),
  spawned_session_label TEXT,
  started_at INTEGER NOT NULL,
  completed_at INTEGER,
  error TEXT,
  params_json TEXT,
  -- Without the text that is the content of the message at `result_message`.
  result_json TEXT,
  result_message INTEGER,
  -- Where that text belongs as a JSON string, in characters. NULL where it is the whole result as it is.
  result_at INTEGER,
  -- 0: pure, 1: idempotent, 2: reconcilable, 3: unsafe.
  replay INTEGER CHECK (replay BETWEEN 0 AND 3),
  -- The bytes of a hexadecimal text, or a text.
  arguments_hash ANY,
  blobs_json TEXT,
  -- Of the values of the view `call_values`.
  row_checksum INTEGER,
  -- As in `message_rows`, with the position among the calls of the turn.
  key INTEGER PRIMARY KEY
) STRICT;

-- Calls that exist keep their values.
INSERT INTO call_rows SELECT c.id, c.provider_call_id,
  (SELECT m.key & 1048575 FROM message_rows m
     WHERE m.key BETWEEN c.key >> 20 << 20 AND c.key >> 20 << 20 | 1048575 AND m.id = c.message_id),
  NULL,
  (SELECT s.id FROM strings s WHERE s.row_checksum = checksum_of('text', c.tool_name) AND s.text = c.tool_name),
  c.tool_number,
  CASE c.status WHEN 'pending' THEN 0 WHEN 'running' THEN 1 WHEN 'completed' THEN 2 WHEN 'failed' THEN 3 END,
  c.spawned_session_label, c.started_at, c.completed_at, c.error, c.params_json, c.result_json, NULL, NULL,
  CASE c.replay WHEN 'pure' THEN 0 WHEN 'idempotent' THEN 1 WHEN 'reconcilable' THEN 2 WHEN 'unsafe' THEN 3 END,
  c.arguments_hash, c.blobs_json, c.row_checksum, c.key
FROM call_rows_before c ORDER BY c.key;
DROP TABLE call_rows_before;
CREATE INDEX tool_calls_with_blobs ON call_rows (key) WHERE blobs_json IS NOT NULL;

CREATE VIEW call_values (id, provider_call_id, message_id, tool_name, tool_number, status, spawned_session_label,
  started_at, completed_at, error, params_json, result_json, replay, arguments_hash, blobs_json, row_checksum, key) AS
SELECT c.id, c.provider_call_id,
  (SELECT m.id FROM message_rows m WHERE m.key = (c.key >> 20 << 20 | c.message)),
  (SELECT s.text FROM strings s WHERE s.id = c.tool_name),
  c.tool_number,
  CASE c.status WHEN 0 THEN 'pending' WHEN 1 THEN 'running' WHEN 2 THEN 'completed' WHEN 3 THEN 'failed' END,
  c.spawned_session_label, c.started_at, c.completed_at, c.error,
  CASE WHEN c.block IS NULL THEN c.params_json ELSE
    (SELECT CASE WHEN json_valid(m.blocks_json) THEN json_extract(m.blocks_json, '$[' || c.block || '].argumentsJson') END
     FROM message_rows m WHERE m.key = (c.key >> 20 << 20 | c.message)) END,
  CASE WHEN c.result_message IS NULL THEN c.result_json ELSE
    (SELECT CASE WHEN c.result_at IS NULL THEN m.content WHEN c.result_at BETWEEN 0 AND length(c.result_json)
       THEN substr(c.result_json, 1, c.result_at) || json_quote(m.content) || substr(c.result_json, c.result_at + 1) END
     FROM message_rows m WHERE m.key = (c.key >> 20 << 20 | c.result_message)) END,
  CASE c.replay WHEN 0 THEN 'pure' WHEN 1 THEN 'idempotent' WHEN 2 THEN 'reconcilable' WHEN 3 THEN 'unsafe' END,
  CASE typeof(c.arguments_hash) WHEN 'blob' THEN lower(hex(c.arguments_hash)) ELSE c.arguments_hash END,
  c.blobs_json, c.row_checksum, c.key
FROM call_rows c;

CREATE TRIGGER call_rows_list_blocks AFTER INSERT ON call_rows
BEGIN
  INSERT OR IGNORE INTO turns_of_tools (tool_name, block)
  SELECT s.text, NEW.key >> 26 FROM strings s WHERE s.id = NEW.tool_name;
END;

-- Both conditions say the same: one finds the rows of a turn, the other the turn of a row.
CREATE VIEW messages (id, turn_id, role, source, sequence, created_at, tool_call_id, is_error, provider, api, model,
  response_id, stop_reason, checksum, context_json, metadata_json, content, thinking, blocks_json, blobs_json,
  row_checksum) AS
SELECT m.id, t.id, m.role, m.source, m.key & 1048575, m.created_at, m.tool_call_id, m.is_error, m.provider, m.api,
  m.model, m.response_id, m.stop_reason, m.checksum, m.context_json, m.metadata_json, m.content, m.thinking,
  m.blocks_json, m.blobs_json, m.row_checksum
FROM message_values m JOIN turn_rows t ON t.n = m.key >> 20 AND m.key BETWEEN t.n << 20 AND t.n << 20 | 1048575;

CREATE VIEW tool_calls (id, provider_call_id, turn_id, message_id, tool_name, tool_number, status, spawned_session_label,
  started_at, completed_at, sequence, error, params_json, result_json, replay, arguments_hash, blobs_json,
  row_checksum) AS
SELECT c.id, c.provider_call_id, t.id, c.message_id, c.tool_name, c.tool_number, c.status, c.spawned_session_label,
  c.started_at, c.completed_at, c.key & 1048575, c.error, c.params_json, c.result_json, c.replay, c.arguments_hash,
  c.blobs_json, c.row_checksum
FROM call_values c JOIN turn_rows t ON t.n = c.key >> 20 AND c.key BETWEEN t.n << 20 AND t.n << 20 | 1048575;

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
