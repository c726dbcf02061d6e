-- What lists, sums and the search filter by, and the names of sessions.

alter table @turns add column usage_estimated boolean not null default false;
alter table @turns add column metadata jsonb;
-- Whether the words of its messages are in the index.
alter table @turns add column indexed boolean not null default false;
create index turns_unindexed on @turns (n) where not indexed and n is not null;
create index turns_of_model on @turns (provider, model, id);
create index turns_of_day on @turns ((started_at / 86400000), id);
create index turns_by_metadata on @turns using gin (metadata jsonb_path_ops) where metadata is not null;

alter table @sessions add column metadata text;
alter table @sessions add column metadata_values jsonb;
create index sessions_of_agent on @sessions (agent_id, label);
create index sessions_of_persona on @sessions (persona_id, label);
create index sessions_archived on @sessions (label) where status = 'archived';
create index sessions_by_metadata on @sessions using gin (metadata_values jsonb_path_ops) where metadata_values is not null;

create index tool_calls_of_tool on @tool_calls (tool_name, turn_id, sequence);

create table @message_words (
  id bigint generated always as identity primary key,
  turn_id text collate "C" not null,
  message_id text collate "C" not null,
  session_label text collate "C" not null,
  words tsvector not null
);
create index message_words_found on @message_words using gin (words);
create index message_words_of_turn on @message_words (turn_id);

create table @session_aliases (
  alias text collate "C" primary key,
  session_label text collate "C" not null,
  created_at bigint not null,
  updated_at bigint not null
);
create index aliases_of_session on @session_aliases (session_label, alias);

create table @personas (
  id text collate "C" primary key,
  main_session_label text collate "C" not null unique,
  created_at bigint not null,
  updated_at bigint not null
);
