-- The index of words is filled behind the commits, in batches: a commit writes nothing for it. A message is named by its
-- rowid: nothing deletes one, so rowids have no gaps, and not even a VACUUM has a reason to change them. What was
-- indexed before is indexed again. `_` belongs to a word.
DROP TABLE searchable;
DROP TABLE message_words;
CREATE VIRTUAL TABLE message_words USING fts5 (
  words, content = '', detail = 'none', columnsize = 0, tokenize = "ascii tokenchars '_'"
);

-- The last message whose words are in the index. Those of turns that still run are, too: a search leaves them out.
CREATE TABLE search_progress (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  indexed_through INTEGER NOT NULL
) STRICT;
INSERT INTO search_progress (id, indexed_through) VALUES (1, 0);
