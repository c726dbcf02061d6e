-- The schedules of a broker: messages that are sent at times. Each due time is taken once, in the transaction that queues its message.

CREATE TABLE schedules (
  id TEXT PRIMARY KEY,
  -- When: a cron expression, a time or an interval, with its zone and its misfire policy.
  spec_json TEXT NOT NULL CHECK (json_valid(spec_json)),
  -- The message: what `send` takes.
  item_json TEXT NOT NULL CHECK (json_valid(item_json)),
  -- The next due time; NULL where none comes.
  next_at INTEGER,
  -- The last due time for which a message was queued.
  last_at INTEGER,
  created_at INTEGER NOT NULL,
  row_checksum INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX schedules_by_time ON schedules (next_at, id) WHERE next_at IS NOT NULL;
