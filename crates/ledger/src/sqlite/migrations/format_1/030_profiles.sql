-- The state of auth profiles, shared by processes and persistent. It never contains a key.
CREATE TABLE auth_profile_usage (
  profile_id TEXT PRIMARY KEY NOT NULL,
  -- Unix milliseconds.
  last_used_at INTEGER,
  last_failure_at INTEGER,
  -- Failures since nothing was cooling down; billing and permanent refusals in a row.
  failures INTEGER NOT NULL DEFAULT 0 CHECK (failures >= 0),
  refusals INTEGER NOT NULL DEFAULT 0 CHECK (refusals >= 0),
  -- `[{ model, reason, from, until }]`; the model is null for all of the profile's.
  windows_json TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(windows_json))
) STRICT, WITHOUT ROWID;
