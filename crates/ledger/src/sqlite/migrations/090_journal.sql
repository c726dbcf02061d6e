-- One append-only journal for the records of a running turn and for its events; a turn's own rows are written once, at its
-- end. Events of ended runs are compressed.

-- A run while its turn is open or its events are stored.
CREATE TABLE runs (
  -- The id of its first entry, so it is never used again.
  n INTEGER PRIMARY KEY,
  turn_id TEXT NOT NULL UNIQUE,
  run_id TEXT NOT NULL,
  session_label TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  -- When the run ended; NULL while it runs, waits, or is interrupted.
  ended_at INTEGER,
  -- The epoch of its lease; NULL before its turn is opened.
  epoch INTEGER,
  -- Its context in `run_contexts`; NULL before its turn is opened.
  context_id INTEGER,
  keeps_events INTEGER NOT NULL CHECK (keeps_events IN (0, 1)),
  -- The newest entry of an ended run, negative where its events cannot be read. NULL before.
  last_entry INTEGER,
  -- Whether something of it is in the journal alone.
  in_journal INTEGER NOT NULL CHECK (in_journal IN (0, 1)),
  -- Who runs it while no lease says so.
  owner TEXT,
  pid INTEGER,
  pid_started INTEGER,
  pid_space TEXT,
  boot_id TEXT,
  row_checksum INTEGER
) STRICT;

CREATE INDEX runs_by_run ON runs (run_id, n);
-- The end of a run changes no column of it.
CREATE INDEX runs_in_journal ON runs (n) WHERE in_journal = 1;

-- No row is ever changed, and the newest is never deleted, so that no id is used again.
CREATE TABLE journal (
  id INTEGER PRIMARY KEY,
  run INTEGER NOT NULL,
  -- 0: events. 1: a commit point of the turn.
  kind INTEGER NOT NULL CHECK (kind IN (0, 1)),
  -- Behind it stands a checksum of everything in the row.
  entry BLOB NOT NULL
) STRICT;

-- The events of ended runs, in pieces.
CREATE TABLE event_archive (
  -- The run's number times 1,048,576, and the number of the piece.
  key INTEGER PRIMARY KEY,
  -- The number of the last event in it.
  seq INTEGER NOT NULL,
  events BLOB NOT NULL,
  row_checksum INTEGER
) STRICT;

-- A compaction may retain only the turn for which it is made, which is not a row of `turns` before its end. So the first
-- retained turn is no longer a reference.
CREATE TABLE compactions_moved (
  turn_id TEXT PRIMARY KEY NOT NULL REFERENCES turns (id),
  compaction_type TEXT NOT NULL DEFAULT 'summary'
    CHECK (compaction_type IN ('summary', 'sliding_window', 'hard_clear', 'tool_result_truncation')),
  summary TEXT NOT NULL,
  summarized_through_turn_id TEXT NOT NULL REFERENCES turns (id),
  first_kept_turn_id TEXT NOT NULL,
  turns_summarized INTEGER NOT NULL,
  model TEXT NOT NULL,
  provider TEXT NOT NULL,
  tokens_before INTEGER NOT NULL,
  tokens_after INTEGER NOT NULL,
  summary_tokens INTEGER NOT NULL,
  summarization_input_tokens INTEGER NOT NULL,
  summarization_output_tokens INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  "trigger" TEXT NOT NULL CHECK ("trigger" IN ('context_limit', 'overflow_recovery')),
  row_checksum INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO compactions_moved SELECT turn_id, compaction_type, summary, summarized_through_turn_id, first_kept_turn_id,
  turns_summarized, model, provider, tokens_before, tokens_after, summary_tokens, summarization_input_tokens,
  summarization_output_tokens, duration_ms, "trigger", row_checksum FROM compactions;
DROP TABLE compactions;
ALTER TABLE compactions_moved RENAME TO compactions;
