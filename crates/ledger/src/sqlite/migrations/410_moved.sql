-- Where the ledger was moved to: from then on it takes nothing new.
CREATE TABLE moved (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  place TEXT NOT NULL
) STRICT;
