-- The host's own data on turns and sessions: one JSON object each, in tables of their own, so that a turn without any costs
-- nothing. A host indexes the keys that it looks up.

CREATE TABLE turn_metadata (
  metadata TEXT NOT NULL CHECK (json_valid(metadata)),
  row_checksum INTEGER,
  -- The number of the turn.
  turn INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE session_metadata (
  session_label TEXT PRIMARY KEY NOT NULL,
  metadata TEXT NOT NULL CHECK (json_valid(metadata)),
  row_checksum INTEGER
) STRICT, WITHOUT ROWID;
