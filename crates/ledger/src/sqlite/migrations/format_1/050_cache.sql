-- The hashes of the parts of a session's last call, and the breaks of a provider's prompt cache. No text of a conversation.

CREATE TABLE cache_chains (
  session_label TEXT PRIMARY KEY NOT NULL,
  turn_id TEXT NOT NULL,
  who INTEGER NOT NULL,
  way INTEGER NOT NULL,
  base INTEGER NOT NULL,
  -- Unix milliseconds.
  called_at INTEGER NOT NULL,
  system_hash INTEGER NOT NULL,
  thinking_hash INTEGER NOT NULL,
  choice_hash INTEGER NOT NULL,
  -- `[[name, hash]]`.
  tools_json TEXT NOT NULL CHECK (json_valid(tools_json)),
  messages INTEGER NOT NULL CHECK (messages >= 0),
  comparable INTEGER NOT NULL CHECK (comparable BETWEEN 0 AND messages),
  input_tokens INTEGER NOT NULL,
  read_tokens INTEGER NOT NULL,
  write_tokens INTEGER NOT NULL,
  told INTEGER NOT NULL CHECK (told IN (0, 1)),
  -- Eight bytes for each message after the whole parts.
  tail BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The links before the tail, 128 to a part.
CREATE TABLE cache_links (
  session_label TEXT NOT NULL,
  part INTEGER NOT NULL CHECK (part >= 0),
  links BLOB NOT NULL,
  PRIMARY KEY (session_label, part)
) STRICT, WITHOUT ROWID;

CREATE TABLE cache_breaks (
  turn_id TEXT NOT NULL REFERENCES turns (id),
  attempt INTEGER NOT NULL,
  cause TEXT NOT NULL CHECK (cause IN ('prefix', 'expired', 'unexplained')),
  part TEXT CHECK (part IN ('system', 'tool', 'message', 'setting')),
  change TEXT CHECK (change IN ('changed', 'inserted', 'removed', 'reordered')),
  name TEXT,
  position INTEGER,
  message_id TEXT,
  role TEXT,
  expected_tokens INTEGER NOT NULL,
  read_tokens INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  -- US dollars; NULL where a price is unknown.
  cost REAL,
  idle_ms INTEGER NOT NULL,
  PRIMARY KEY (turn_id, attempt)
) STRICT, WITHOUT ROWID;
