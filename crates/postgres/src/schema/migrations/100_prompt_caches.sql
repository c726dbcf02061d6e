-- The hashes of the parts of a session's last call, and the breaks of a provider's prompt cache. No text of a conversation.

create table @cache_chains (
  session_label text collate "C" primary key,
  turn_id text collate "C" not null,
  -- Unix milliseconds.
  called_at bigint not null,
  -- How many messages have a link.
  messages integer not null,
  -- How many of them are sent again unchanged.
  comparable integer not null,
  state text not null,
  -- Eight bytes for each message after the whole parts.
  tail bytea not null
) with (fillfactor = 80);

-- The links before the tail, 128 to a part.
create table @cache_links (
  session_label text collate "C" not null,
  part integer not null,
  links bytea not null,
  primary key (session_label, part)
);

create table @cache_breaks (
  turn_id text collate "C" not null,
  attempt integer not null,
  cause text collate "C" not null,
  part text collate "C",
  change text collate "C",
  name text collate "C",
  position integer,
  message_id text collate "C",
  role text collate "C",
  expected_tokens bigint not null,
  read_tokens bigint not null,
  tokens bigint not null,
  -- US dollars; null where a price is unknown.
  cost double precision,
  idle_ms bigint not null,
  primary key (turn_id, attempt)
);
