-- The id of a run is used once. Ledgers of earlier versions may have an id several times, so no index is unique.

CREATE TRIGGER runs_have_ids_of_their_own BEFORE INSERT ON runs
WHEN EXISTS (SELECT 1 FROM runs WHERE run_id = NEW.run_id) OR EXISTS (SELECT 1 FROM turn_rows WHERE run_id = NEW.run_id)
BEGIN
  SELECT RAISE(ABORT, 'duplicate_run');
END;
