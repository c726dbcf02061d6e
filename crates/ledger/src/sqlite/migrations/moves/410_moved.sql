-- Where the ledger was moved to: from then on it takes nothing new.
CREATE TABLE moved (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  place TEXT NOT NULL,
  -- 0 while a copy is cut over: a failed one allows turns again.
  is_final INTEGER NOT NULL DEFAULT 0
) STRICT;
