-- For reading: an index for every list, the words of messages, aliases and personas.

CREATE INDEX turns_by_parent ON turns (parent_turn_id, id) WHERE parent_turn_id IS NOT NULL;
-- Declared unique, which the key implies, so that an order by it and by rows of a turn needs no sorting.
CREATE UNIQUE INDEX turns_by_session ON turns (session_label, id);
CREATE INDEX turns_by_model ON turns (provider, model);
CREATE INDEX turns_by_start ON turns (started_at);
CREATE INDEX tool_calls_by_tool ON tool_calls (tool_name, turn_id, sequence);
CREATE INDEX session_history_by_session ON session_history (session_label, changed_at);

-- The agent of a session: the one that the label names, else that of the turn at which it began, else the persona. For an
-- existing session only label and persona are known.
ALTER TABLE sessions ADD COLUMN agent_id TEXT NOT NULL DEFAULT 'default';
UPDATE sessions SET agent_id = agent_of(label, persona_id);
CREATE INDEX sessions_by_agent ON sessions (agent_id, label);
CREATE INDEX sessions_by_persona ON sessions (persona_id, label);
CREATE INDEX sessions_by_parent ON sessions (parent_session_label, label) WHERE parent_session_label IS NOT NULL;
CREATE INDEX sessions_archived ON sessions (label) WHERE status = 'archived';

-- Another name of a session, or of another alias. The session may not exist yet: it is created on first use.
CREATE TABLE session_aliases (
  alias TEXT PRIMARY KEY NOT NULL CHECK (length(CAST(alias AS BLOB)) BETWEEN 1 AND 512),
  session_label TEXT NOT NULL CHECK (length(CAST(session_label AS BLOB)) BETWEEN 1 AND 512),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  CHECK (alias <> session_label)
) STRICT, WITHOUT ROWID;
CREATE INDEX session_aliases_by_session ON session_aliases (session_label, alias);

CREATE TABLE personas (
  id TEXT PRIMARY KEY NOT NULL CHECK (length(CAST(id AS BLOB)) BETWEEN 1 AND 512),
  main_session_label TEXT NOT NULL UNIQUE CHECK (length(CAST(main_session_label AS BLOB)) BETWEEN 1 AND 512),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The words of messages in ended turns, without the text itself and without the words' positions, which would cost five
-- times as much. A message has a number of its own here, because a rowid that is not a column may change.
CREATE TABLE searchable (
  id INTEGER PRIMARY KEY,
  turn_id TEXT NOT NULL,
  sequence INTEGER NOT NULL
) STRICT;
CREATE VIRTUAL TABLE message_words USING fts5 (words, content = '', detail = 'none', columnsize = 0, tokenize = 'ascii');

INSERT INTO searchable (turn_id, sequence)
SELECT m.turn_id, m.sequence FROM turns t JOIN messages m ON m.turn_id = t.id
WHERE t.status NOT IN ('pending', 'streaming') AND t.turn_type = 'normal'
  AND m.role IN ('user', 'assistant', 'system') AND m.content <> ''
ORDER BY m.turn_id, m.sequence;
INSERT INTO message_words (rowid, words)
SELECT s.id, search_words(m.content) FROM searchable s
JOIN messages m ON m.turn_id = s.turn_id AND m.sequence = s.sequence;
