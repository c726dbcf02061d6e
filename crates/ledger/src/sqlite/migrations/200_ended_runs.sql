-- The ended runs without a row in `runs`, because that was removed with their events, or their turn was written at once: their ids are
-- still found, and not used again. Runs that ended before this table existed are in it as well.

CREATE TABLE ended_runs (
  run_id TEXT PRIMARY KEY NOT NULL,
  -- The newest turn with this id.
  turn_id TEXT NOT NULL,
  row_checksum INTEGER
) STRICT, WITHOUT ROWID;

INSERT INTO ended_runs (run_id, turn_id, row_checksum)
SELECT run_id, turn_id, checksum_of('run_id, turn_id', run_id, turn_id)
FROM (SELECT run_id, max(id) AS turn_id FROM turns WHERE turn_type = 'normal' GROUP BY run_id) t
WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.run_id = t.run_id AND r.ended_at IS NOT NULL);
