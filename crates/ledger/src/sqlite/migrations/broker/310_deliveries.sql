-- The outbox of a broker: ended turns whose answer a host passes on, each row written with the end of its turn.

CREATE TABLE deliveries (
  -- The order in which the turns ended.
  n INTEGER PRIMARY KEY,
  turn_id TEXT NOT NULL UNIQUE,
  session_label TEXT NOT NULL,
  target_json TEXT NOT NULL CHECK (json_valid(target_json)),
  status TEXT NOT NULL CHECK (status IN ('pending', 'delivered', 'parked')),
  -- How often it was handed out, and how often that failed.
  tries INTEGER NOT NULL CHECK (tries >= 0),
  failures INTEGER NOT NULL CHECK (failures >= 0),
  not_before INTEGER NOT NULL,
  -- The last failure.
  error TEXT,
  created_at INTEGER NOT NULL,
  delivered_at INTEGER,
  -- The process that has it, as in `session_leases`; the epoch grows with each claim.
  epoch INTEGER NOT NULL,
  owner TEXT,
  pid INTEGER,
  pid_started INTEGER,
  pid_space TEXT,
  boot_id TEXT,
  expires_at INTEGER,
  heartbeat_at INTEGER,
  row_checksum INTEGER,
  CHECK ((status = 'delivered') = (delivered_at IS NOT NULL))
) STRICT;

CREATE INDEX deliveries_pending ON deliveries (session_label, n) WHERE status = 'pending';
CREATE INDEX deliveries_by_status ON deliveries (status, n);
CREATE INDEX deliveries_by_session ON deliveries (session_label, status, n);
