-- The index of words is filled after the commits, in batches: a commit writes nothing for it. A message is identified by its
-- rowid: messages are never deleted, so rowids have no gaps, and a VACUUM does not change them. Messages that were
-- indexed before are indexed again. `_` belongs to a word.
DROP TABLE searchable;
DROP TABLE message_words;
CREATE VIRTUAL TABLE message_words USING fts5 (
  words, content = '', detail = 'none', columnsize = 0, tokenize = "ascii tokenchars '_'"
);

-- The last message whose words are in the index, which includes those of running turns: a search skips them.
CREATE TABLE search_progress (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  indexed_through INTEGER NOT NULL
) STRICT;
INSERT INTO search_progress (id, indexed_through) VALUES (1, 0);
