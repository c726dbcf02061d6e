-- The turns whose facts a model extracts, and what the memory's calls of models have used.

-- The indexed turns whose facts are not extracted yet, written with their chunks. Without a checksum: a wrong row costs one call.
CREATE TABLE memory_extractions (
  turn_id TEXT PRIMARY KEY NOT NULL,
  session_label TEXT NOT NULL,
  -- The answers that could not be used so far, and why the last one could not.
  attempts INTEGER NOT NULL,
  problem TEXT,
  -- There is no other attempt.
  is_skipped INTEGER NOT NULL CHECK (is_skipped IN (0, 1))
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_extractions_open ON memory_extractions (turn_id) WHERE is_skipped = 0;
CREATE INDEX memory_extractions_by_session ON memory_extractions (session_label);

-- The facts that hold, as an extracted fact finds those that it repeats or replaces.
CREATE INDEX memory_facts_by_subject ON memory_facts (scope, lower(entity), fact_type) WHERE valid_to IS NULL;

-- Sums, by UTC day. Without a checksum: a wrong one costs a report.
CREATE TABLE memory_usage (
  session_label TEXT NOT NULL,
  -- Days since 1970.
  day INTEGER NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  purpose TEXT NOT NULL CHECK (purpose IN ('embed', 'extract')),
  calls INTEGER NOT NULL,
  unpriced_calls INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cached_input_tokens INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  reasoning_tokens INTEGER NOT NULL,
  total_tokens INTEGER NOT NULL,
  -- Billionths of a US dollar.
  nanos INTEGER NOT NULL,
  PRIMARY KEY (session_label, day, provider, model, purpose)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_usage_by_day ON memory_usage (day);
CREATE INDEX memory_usage_by_model ON memory_usage (provider, model);
