-- The call of `copyTo` that has closed the ledger: only that one finishes the move, or opens the ledger again.
ALTER TABLE moved ADD COLUMN token TEXT;

-- What the last copy wrote that had to know whether its target is this ledger.
CREATE TABLE copy_mark (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  mark TEXT NOT NULL
) STRICT;
