-- The events of runs, and the commands of other processes to a run.

CREATE TABLE event_logs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  -- No reference: a run that waits for its session tells something before its turn is there.
  turn_id TEXT NOT NULL UNIQUE,
  run_id TEXT NOT NULL,
  session_label TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  -- When the run ended; NULL while it runs, waits, or is interrupted.
  ended_at INTEGER,
  -- Who runs it while no lease says so.
  owner TEXT,
  pid INTEGER,
  pid_started INTEGER,
  pid_space TEXT,
  boot_id TEXT
) STRICT;

CREATE INDEX event_logs_by_run ON event_logs (run_id, id);
CREATE INDEX event_logs_by_session ON event_logs (session_label, id);
CREATE INDEX event_logs_by_end ON event_logs (ended_at, id) WHERE ended_at IS NOT NULL;

-- The events `seq_from` to `seq` of a run, a line each: `t` and the JSON string of a token, `r` and that of a piece of
-- reasoning, `e` and the JSON of any other event. The deltas of a row belong to one message.
CREATE TABLE run_events (
  log_id INTEGER NOT NULL REFERENCES event_logs (id),
  seq_from INTEGER NOT NULL,
  seq INTEGER NOT NULL CHECK (seq >= seq_from),
  message_id TEXT,
  events TEXT NOT NULL,
  PRIMARY KEY (log_id, seq_from)
) STRICT, WITHOUT ROWID;

-- The commands of a process to the one that runs a session. Their sender deletes answered rows.
CREATE TABLE session_commands (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session_label TEXT NOT NULL,
  -- The lease of the run that is meant.
  epoch INTEGER NOT NULL,
  command TEXT NOT NULL CHECK (command IN ('abort', 'steer')),
  message TEXT,
  -- 1: it was handed to the run; 0: the run takes no more. NULL while nobody has looked.
  taken INTEGER CHECK (taken IN (0, 1)),
  created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX session_commands_open ON session_commands (id) WHERE taken IS NULL;
