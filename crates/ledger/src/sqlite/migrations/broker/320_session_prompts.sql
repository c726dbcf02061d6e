-- The files of a workspace as the system prompt of a session has them. They stay the same until a compaction, so that a provider's
-- prompt cache has the prompt, also after a restart.

CREATE TABLE session_prompts (
  -- No reference: a session is made by its first turn.
  session_label TEXT PRIMARY KEY NOT NULL,
  -- What was read: the folder, the names, the limits. For anything else they are read again.
  request_json TEXT NOT NULL,
  files_json TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  row_checksum INTEGER
) STRICT, WITHOUT ROWID;
