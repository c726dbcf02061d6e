-- Tasks that agents give each other, and the senders of messages between agents.

ALTER TABLE queue_items ADD COLUMN sender_json TEXT;

CREATE TABLE dispatches (
  -- The call that made it, and its message in the queue.
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('spawn', 'dispatch')),
  status TEXT NOT NULL CHECK (status IN ('active', 'ok', 'error', 'timeout', 'aborted')),
  parent_session TEXT NOT NULL,
  parent_turn_id TEXT NOT NULL,
  -- The turn at the top: no dispatch began it.
  root_turn_id TEXT NOT NULL,
  session_label TEXT NOT NULL,
  agent_id TEXT NOT NULL,
  model TEXT,
  -- 1 where the session was made for it.
  is_new INTEGER NOT NULL CHECK (is_new IN (0, 1)),
  depth INTEGER NOT NULL CHECK (depth >= 1),
  hops INTEGER NOT NULL CHECK (hops >= 0),
  is_detached INTEGER NOT NULL CHECK (is_detached IN (0, 1)),
  cancelled TEXT CHECK (cancelled IN ('requested', 'parent_ended')),
  deadline INTEGER,
  turn_id TEXT,
  text TEXT,
  usage_json TEXT CHECK (usage_json IS NULL OR json_valid(usage_json)),
  cost REAL,
  result_item_id TEXT,
  -- For the message with its result: that of the turn that made it.
  channel TEXT,
  account TEXT,
  thread TEXT,
  principal TEXT NOT NULL,
  request_json TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  row_checksum INTEGER,
  CHECK ((status = 'active') = (ended_at IS NULL))
) STRICT, WITHOUT ROWID;

CREATE INDEX dispatches_by_parent ON dispatches (parent_session, id);
CREATE INDEX dispatches_by_parent_turn ON dispatches (parent_turn_id, id);
CREATE INDEX dispatches_by_session ON dispatches (session_label, id);
CREATE INDEX dispatches_active ON dispatches (parent_session, id) WHERE status = 'active';
CREATE INDEX dispatches_cancelled ON dispatches (id) WHERE status = 'active' AND cancelled IS NOT NULL;
CREATE INDEX dispatches_timed ON dispatches (deadline) WHERE status = 'active' AND deadline IS NOT NULL;
