-- Images of messages that wait are in `blobs`, as those of messages that were sent.

ALTER TABLE queue_items ADD COLUMN blobs_json TEXT;
CREATE INDEX queue_items_with_blobs ON queue_items (n) WHERE blobs_json IS NOT NULL;

DROP VIEW blob_references;
CREATE VIEW blob_references (hash, turn_id, message_id, tool_call_id, column_name, at, form) AS
SELECT json_extract(p.value, '$.hash'), m.turn_id, m.id, NULL, c.key, json_extract(p.value, '$.at'),
  json_extract(p.value, '$.form')
FROM messages m, json_each(CASE WHEN json_valid(m.blobs_json) THEN m.blobs_json ELSE '{}' END) c, json_each(c.value) p
WHERE m.blobs_json IS NOT NULL
UNION ALL
SELECT json_extract(p.value, '$.hash'), t.turn_id, NULL, t.id, c.key, json_extract(p.value, '$.at'),
  json_extract(p.value, '$.form')
FROM tool_calls t, json_each(CASE WHEN json_valid(t.blobs_json) THEN t.blobs_json ELSE '{}' END) c, json_each(c.value) p
WHERE t.blobs_json IS NOT NULL
UNION ALL
SELECT json_extract(p.value, '$.hash'), q.turn_id, q.id, NULL, c.key, json_extract(p.value, '$.at'),
  json_extract(p.value, '$.form')
FROM queue_items q, json_each(CASE WHEN json_valid(q.blobs_json) THEN q.blobs_json ELSE '{}' END) c, json_each(c.value) p
WHERE q.blobs_json IS NOT NULL;
