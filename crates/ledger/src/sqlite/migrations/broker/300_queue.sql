-- The queues of a broker: messages that wait for their sessions, and the events from which they came.

CREATE TABLE queue_items (
  -- The order of arrival.
  n INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  -- No reference: a session is made by its first turn.
  session_label TEXT NOT NULL,
  source TEXT NOT NULL,
  mode TEXT NOT NULL CHECK (mode IN ('queue', 'followup', 'collect', 'interrupt', 'steer', 'steer-backlog')),
  -- The route: only messages of one route are collected in one turn.
  channel TEXT,
  account TEXT,
  thread TEXT,
  -- Who sent it, with which permissions: only messages of one principal share a turn.
  principal TEXT NOT NULL,
  is_system INTEGER NOT NULL CHECK (is_system IN (0, 1)),
  message_json TEXT NOT NULL,
  request_json TEXT NOT NULL,
  event_id TEXT,
  status TEXT NOT NULL CHECK (status IN ('pending', 'processing', 'delivered', 'failed')),
  reason TEXT CHECK (reason IN ('run_failed', 'interrupted', 'poisoned', 'dropped', 'cancelled', 'rejected')),
  detail TEXT,
  tries INTEGER NOT NULL CHECK (tries >= 0),
  failures INTEGER NOT NULL CHECK (failures >= 0),
  not_before INTEGER NOT NULL,
  -- The turn that has taken it; of a pending one the running turn that it was offered to; of a dropped one the turn that named it.
  turn_id TEXT,
  -- A dropped message of which the next turn has a line.
  is_summarized INTEGER NOT NULL CHECK (is_summarized IN (0, 1)),
  created_at INTEGER NOT NULL,
  claimed_at INTEGER,
  delivered_at INTEGER,
  row_checksum INTEGER,
  CHECK ((status = 'failed') = (reason IS NOT NULL)),
  CHECK (status <> 'processing' OR turn_id IS NOT NULL)
) STRICT;

CREATE INDEX queue_items_waiting ON queue_items (session_label, n) WHERE status IN ('pending', 'processing');
CREATE INDEX queue_items_unnamed ON queue_items (session_label, n) WHERE is_summarized = 1 AND turn_id IS NULL;
CREATE INDEX queue_items_by_turn ON queue_items (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX queue_items_by_session ON queue_items (session_label, n);

-- The events of the last days: a second message of one is a duplicate, wherever it would go.
CREATE TABLE queue_events (
  channel TEXT NOT NULL,
  account TEXT NOT NULL,
  event_id TEXT NOT NULL,
  item_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  row_checksum INTEGER,
  PRIMARY KEY (channel, account, event_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX queue_events_by_time ON queue_events (created_at);
CREATE INDEX queue_events_by_item ON queue_events (item_id);

-- The sessions whose queues the host has suspended.
CREATE TABLE queue_suspensions (
  session_label TEXT PRIMARY KEY,
  created_at INTEGER NOT NULL,
  row_checksum INTEGER
) STRICT, WITHOUT ROWID;
