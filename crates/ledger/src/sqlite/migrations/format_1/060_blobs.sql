-- Values over 64 KiB, each distinct one once, under the SHA-256 of its text in hex. Values that were stored before stay in
-- their rows.
CREATE TABLE blobs (
  hash TEXT PRIMARY KEY NOT NULL CHECK (length(hash) = 64),
  -- Bytes of the text.
  size INTEGER NOT NULL CHECK (size >= 0),
  -- How `data` holds it: as it is, as an LZ4 block, or as the bytes whose base64 it is.
  codec TEXT NOT NULL CHECK (codec IN ('raw', 'lz4', 'base64')),
  data BLOB NOT NULL
) STRICT;

-- The values that were moved out of a row's columns: `{column: [{at, form, hash}]}`. The blob's text belongs at byte `at` of
-- the column's rest, with form `json` as the inside of a JSON string. NULL if every value is in its row.
ALTER TABLE messages ADD COLUMN blobs_json TEXT;
ALTER TABLE tool_calls ADD COLUMN blobs_json TEXT;
CREATE INDEX messages_with_blobs ON messages (turn_id, sequence) WHERE blobs_json IS NOT NULL;
CREATE INDEX tool_calls_with_blobs ON tool_calls (turn_id, sequence) WHERE blobs_json IS NOT NULL;

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
