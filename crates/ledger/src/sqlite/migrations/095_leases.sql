-- A lease outlives the turn that took it, so a command names the turn that it is for. Processes wait for a session in a queue.

-- A command whose turn is not known reaches no run.
DELETE FROM session_commands;
ALTER TABLE session_commands ADD COLUMN turn_id TEXT NOT NULL DEFAULT '';

-- The open ledgers that wait for a session, first come first served.
CREATE TABLE session_waits (
  id INTEGER PRIMARY KEY,
  session_label TEXT NOT NULL,
  owner TEXT NOT NULL,
  pid INTEGER NOT NULL,
  pid_started INTEGER,
  pid_space TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  -- As those of a lease.
  expires_at INTEGER NOT NULL,
  heartbeat_at INTEGER NOT NULL,
  row_checksum INTEGER
) STRICT;

CREATE INDEX session_waits_by_session ON session_waits (session_label);
