-- The journal of a turn under way (W0 to W3), and the leases of sessions.
-- Values that only a running turn needs are in separate tables and are deleted in W4, so that an ended turn costs nothing more.

-- The stable code in addition to the kind: `interrupted`, `run_timeout`, the provider's.
ALTER TABLE turns ADD COLUMN error_code TEXT;

-- 1 while the session's first turn runs: until that ends, readers do not see the session.
ALTER TABLE sessions ADD COLUMN opening INTEGER NOT NULL DEFAULT 0 CHECK (opening IN (0, 1));

-- The replay class of the tool when the call was written, and from W2 on the hash of its canonical arguments: with a hash,
-- the side effect may have begun.
ALTER TABLE tool_calls ADD COLUMN replay TEXT CHECK (replay IN ('pure', 'idempotent', 'reconcilable', 'unsafe'));
ALTER TABLE tool_calls ADD COLUMN arguments_hash TEXT;

-- The contexts of open turns, without history and headers, by the hash of their text: runs of one session share them.
CREATE TABLE run_contexts (
  id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,
  context_json TEXT NOT NULL CHECK (json_valid(context_json))
) STRICT;

-- The turns with status `streaming`.
CREATE TABLE open_turns (
  turn_id TEXT PRIMARY KEY NOT NULL REFERENCES turns (id),
  -- The epoch of the lease it was last written under.
  epoch INTEGER NOT NULL,
  -- The session's head that its commit must find.
  expected_head TEXT,
  context_id INTEGER NOT NULL REFERENCES run_contexts (id),
  target_json TEXT CHECK (target_json IS NULL OR json_valid(target_json)),
  -- What the run has counted: iterations, usage, attempts.
  progress_json TEXT CHECK (progress_json IS NULL OR json_valid(progress_json))
) STRICT, WITHOUT ROWID;

-- The right to write a session's running turn. The row stays and its epoch only grows, which identifies earlier leases.
CREATE TABLE session_leases (
  session_label TEXT PRIMARY KEY NOT NULL REFERENCES sessions (label),
  epoch INTEGER NOT NULL CHECK (epoch > 0),
  -- The ULID of the process's open ledger; NULL while nobody runs the session.
  owner TEXT,
  pid INTEGER,
  -- When the process began, in the system's own ticks: a pid is used again.
  pid_started INTEGER,
  -- Whose pids these are: two containers have a process 1 each.
  pid_space TEXT,
  -- The boot whose clock `expires_at` and `heartbeat_at` are read from, in milliseconds.
  boot_id TEXT,
  expires_at INTEGER,
  heartbeat_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE TRIGGER session_leases_epoch_grows BEFORE UPDATE OF epoch ON session_leases WHEN NEW.epoch < OLD.epoch
BEGIN
  SELECT RAISE(ABORT, 'a lease''s epoch only grows');
END;

-- As before, without running turns: a turn is visible to readers when it has ended.
DROP VIEW threads;
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
