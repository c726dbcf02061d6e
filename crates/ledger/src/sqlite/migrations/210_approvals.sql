-- Tool calls that wait for a decision, and the decisions. The rows of an ended turn stay: they say who allowed what.

CREATE TABLE approvals (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('approval', 'result')),
  status TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'denied', 'expired', 'provided', 'cancelled')),
  turn_id TEXT NOT NULL,
  run_id TEXT NOT NULL,
  session_label TEXT NOT NULL,
  call_id TEXT NOT NULL UNIQUE,
  tool_call_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  -- The arguments that the decision is about; once approved with others, those.
  params_json TEXT NOT NULL CHECK (json_valid(params_json)),
  params_hash TEXT NOT NULL,
  requested_params_json TEXT CHECK (requested_params_json IS NULL OR json_valid(requested_params_json)),
  question TEXT,
  decided_by TEXT,
  reason TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  decided_at INTEGER,
  result_json TEXT CHECK (result_json IS NULL OR json_valid(result_json)),
  -- 1 while its turn has given up its lease and waits for it.
  parked INTEGER NOT NULL CHECK (parked IN (0, 1)),
  row_checksum INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX approvals_by_turn ON approvals (turn_id, id);
CREATE INDEX approvals_by_run ON approvals (run_id, id);
CREATE INDEX approvals_by_session ON approvals (session_label, id);
CREATE INDEX approvals_pending ON approvals (id) WHERE status = 'pending';
CREATE INDEX approvals_parked ON approvals (session_label, turn_id) WHERE parked = 1;
