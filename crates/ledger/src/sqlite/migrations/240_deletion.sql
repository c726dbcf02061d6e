-- Turns can be deleted, those that follow others first: a parent then has another first child, or none.

DROP TRIGGER turns_keep_first_child;
CREATE TRIGGER turns_keep_first_child BEFORE UPDATE OF first_child ON turn_rows
WHEN EXISTS (SELECT 1 FROM turn_rows WHERE n = OLD.first_child)
BEGIN
  SELECT RAISE(ABORT, 'a turn with children stays one');
END;

-- The deleted sessions whose turns are still being deleted, with the turns of others at which they have pointed.
CREATE TABLE pending_deletions (
  session_label TEXT PRIMARY KEY NOT NULL,
  threads_json TEXT NOT NULL CHECK (json_valid(threads_json)),
  -- Unix milliseconds. A session that has the label since then is another one.
  hidden_at INTEGER NOT NULL,
  row_checksum INTEGER
) STRICT, WITHOUT ROWID;
