-- What budgets have spent, and what calls under way have reserved: over all processes.

CREATE TABLE budget_accounts (
  -- What is limited: `run:…`, `session:…`, `agent:…`, `day:…`.
  id TEXT PRIMARY KEY,
  tokens INTEGER NOT NULL CHECK (tokens >= 0),
  -- Billionths of a US dollar.
  nanos INTEGER NOT NULL CHECK (nanos >= 0),
  row_checksum INTEGER
) STRICT, WITHOUT ROWID;

-- Rows of calls under way. Those of a process that has ended count as spent, at their maximum.
CREATE TABLE budget_reservations (
  call_id TEXT NOT NULL,
  account TEXT NOT NULL,
  tokens INTEGER NOT NULL CHECK (tokens >= 0),
  nanos INTEGER NOT NULL CHECK (nanos >= 0),
  owner TEXT NOT NULL,
  pid INTEGER NOT NULL,
  pid_started INTEGER,
  pid_space TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  row_checksum INTEGER,
  PRIMARY KEY (call_id, account)
) STRICT, WITHOUT ROWID;

CREATE INDEX budget_reservations_by_account ON budget_reservations (account);
