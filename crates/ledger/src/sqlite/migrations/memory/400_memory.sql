-- What is remembered of ended turns and of facts: chunks of texts, their words and their vectors. Only an engine with a memory writes
-- here.

-- The ended turns that are not indexed yet, written with the end of each turn.
CREATE TABLE memory_pending (
  turn_id TEXT PRIMARY KEY NOT NULL
) STRICT, WITHOUT ROWID;

-- The turns that are indexed, also those without a text.
CREATE TABLE memory_turns (
  turn_id TEXT PRIMARY KEY NOT NULL,
  session_label TEXT NOT NULL,
  -- Some of its text was left out.
  is_clipped INTEGER NOT NULL CHECK (is_clipped IN (0, 1))
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_turns_by_session ON memory_turns (session_label);

CREATE TABLE memory_scopes (
  n INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('session', 'persona', 'agent', 'global')),
  id TEXT NOT NULL,
  row_checksum INTEGER,
  UNIQUE (kind, id)
) STRICT;

CREATE TABLE memory_chunks (
  -- Never given again: indexers read in this order, and words are deleted by it.
  n INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL CHECK (kind IN ('turn', 'fact', 'summary')),
  scope INTEGER NOT NULL REFERENCES memory_scopes (n),
  session_label TEXT,
  turn_id TEXT,
  -- The position in the turn.
  part INTEGER,
  role TEXT,
  fact_id TEXT,
  text TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  row_checksum INTEGER,
  CHECK ((kind = 'fact') = (fact_id IS NOT NULL)),
  CHECK ((kind = 'fact') = (turn_id IS NULL))
) STRICT;
CREATE UNIQUE INDEX memory_chunks_by_turn ON memory_chunks (turn_id, part) WHERE turn_id IS NOT NULL;
CREATE INDEX memory_chunks_by_fact ON memory_chunks (fact_id) WHERE fact_id IS NOT NULL;
CREATE INDEX memory_chunks_by_session ON memory_chunks (session_label, n) WHERE session_label IS NOT NULL;

-- The words of chunks. What is deleted is removed from the index at once and leaves no trace in it.
CREATE VIRTUAL TABLE memory_words USING fts5 (
  words, content = '', tokenize = "ascii tokenchars '_'"
);
INSERT INTO memory_words (memory_words, rank) VALUES ('secure-delete', 1);

CREATE TABLE memory_models (
  n INTEGER PRIMARY KEY,
  name TEXT NOT NULL,
  dimensions INTEGER NOT NULL CHECK (dimensions > 0),
  -- Every chunk up to this one has a vector of the model or was skipped.
  embedded_through INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  -- The cost in billionths of a dollar, and the tokens without a price.
  nanos INTEGER NOT NULL,
  unpriced_tokens INTEGER NOT NULL,
  UNIQUE (name, dimensions)
) STRICT;

-- Vectors have no checksum: a wrong one costs a rank, and `reindex` makes it anew.
CREATE TABLE memory_vectors (
  -- Never given again: a process reads the vectors after the last one that it has.
  n INTEGER PRIMARY KEY AUTOINCREMENT,
  model INTEGER NOT NULL REFERENCES memory_models (n),
  chunk INTEGER NOT NULL,
  vector BLOB NOT NULL,
  UNIQUE (chunk, model)
) STRICT;

-- The chunks that an embedder has refused.
CREATE TABLE memory_skipped (
  chunk INTEGER NOT NULL,
  model INTEGER NOT NULL REFERENCES memory_models (n),
  problem TEXT NOT NULL,
  PRIMARY KEY (chunk, model)
) STRICT, WITHOUT ROWID;

CREATE TABLE memory_facts (
  n INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  entity TEXT NOT NULL,
  fact_type TEXT NOT NULL,
  content_json TEXT NOT NULL CHECK (json_valid(content_json)),
  scope INTEGER NOT NULL REFERENCES memory_scopes (n),
  turn_id TEXT,
  call_id TEXT,
  confidence REAL NOT NULL CHECK (confidence BETWEEN 0 AND 1),
  valid_from INTEGER NOT NULL,
  valid_to INTEGER,
  superseded_by TEXT,
  created_at INTEGER NOT NULL,
  row_checksum INTEGER
) STRICT;
CREATE INDEX memory_facts_by_entity ON memory_facts (entity, n);
CREATE INDEX memory_facts_by_turn ON memory_facts (turn_id) WHERE turn_id IS NOT NULL;

-- What was forgotten stays so: it is not indexed again, and not imported.
CREATE TABLE memory_forgotten (
  kind TEXT NOT NULL CHECK (kind IN ('turn', 'fact')),
  id TEXT NOT NULL,
  forgotten_at INTEGER NOT NULL,
  PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;

-- Grows whenever vectors were deleted: processes drop those that they hold.
CREATE TABLE memory_state (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  generation INTEGER NOT NULL
) STRICT;
INSERT INTO memory_state (id, generation) VALUES (1, 0);
