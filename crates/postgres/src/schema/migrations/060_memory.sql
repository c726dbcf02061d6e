-- What is remembered of ended turns and of facts: chunks of texts, their words and their vectors. Only an engine with a memory writes
-- here, one transaction after the other, so that numbers become visible in their order.

-- The ended turns that are not indexed yet, written with the end of each turn.
create table @memory_pending (turn_id text collate "C" primary key);

-- The turns that are indexed, also those without a text.
create table @memory_turns (
  turn_id text collate "C" primary key,
  session_label text collate "C" not null,
  -- Some of its text was left out.
  is_clipped boolean not null
);
create index memory_turns_by_session on @memory_turns (session_label);

create table @memory_scopes (
  n bigint generated always as identity primary key,
  kind text collate "C" not null,
  id text collate "C" not null,
  unique (kind, id)
);

create table @memory_facts (
  n bigint generated always as identity primary key,
  id text collate "C" not null unique,
  scope bigint not null references @memory_scopes (n),
  entity text collate "C" not null,
  fact_type text collate "C" not null,
  turn_id text collate "C",
  valid_to bigint,
  superseded_by text collate "C",
  -- The fact: JSON, in which the two columns above are not current.
  body text not null,
  content text not null
);
create index memory_facts_by_entity on @memory_facts (entity, n);
create index memory_facts_by_turn on @memory_facts (turn_id) where turn_id is not null;
create index memory_facts_by_subject on @memory_facts (scope, lower(entity), fact_type) where valid_to is null;

create table @memory_chunks (
  n bigint generated always as identity primary key,
  kind text collate "C" not null,
  scope bigint not null references @memory_scopes (n),
  session_label text collate "C",
  turn_id text collate "C",
  -- The position in the turn.
  part integer,
  role text,
  fact_id text collate "C",
  text text not null,
  words tsvector not null,
  created_at bigint not null
);
create unique index memory_chunks_by_turn on @memory_chunks (turn_id, part) where turn_id is not null;
create index memory_chunks_by_fact on @memory_chunks (fact_id) where fact_id is not null;
create index memory_chunks_by_session on @memory_chunks (session_label, n) where session_label is not null;
create index memory_chunks_by_words on @memory_chunks using gin (words);

create table @memory_models (
  n bigint generated always as identity primary key,
  name text collate "C" not null,
  dimensions integer not null,
  -- Every chunk up to this one has a vector of the model or was skipped.
  embedded_through bigint not null default 0,
  tokens bigint not null default 0,
  -- The cost in billionths of a dollar, and the tokens without a price.
  nanos bigint not null default 0,
  unpriced_tokens bigint not null default 0,
  unique (name, dimensions)
);

create table @memory_vectors (
  -- A process reads the vectors after the last one that it has.
  n bigint generated always as identity primary key,
  model bigint not null,
  chunk bigint not null references @memory_chunks (n) on delete cascade,
  vector bytea not null,
  unique (chunk, model)
);
alter table @memory_vectors alter column vector set storage external;
create index memory_vectors_by_model on @memory_vectors (model, n);

-- The chunks that an embedder has refused.
create table @memory_skipped (
  chunk bigint not null references @memory_chunks (n) on delete cascade,
  model bigint not null,
  problem text not null,
  primary key (chunk, model)
);

-- What was forgotten stays so: it is not indexed again, and not imported.
create table @memory_forgotten (
  kind text collate "C" not null,
  id text collate "C" not null,
  forgotten_at bigint not null,
  primary key (kind, id)
);

-- Grows whenever vectors were deleted: processes drop those that they hold.
create sequence @memory_generation;

-- The indexed turns whose facts are not extracted yet, written with their chunks.
create table @memory_extractions (
  turn_id text collate "C" primary key,
  session_label text collate "C" not null,
  attempts integer not null default 0,
  problem text,
  -- There is no other attempt.
  is_skipped boolean not null default false
);
create index memory_extractions_open on @memory_extractions (turn_id) where not is_skipped;
create index memory_extractions_by_session on @memory_extractions (session_label);

-- Sums, by UTC day.
create table @memory_usage (
  session_label text collate "C" not null,
  day bigint not null,
  provider text collate "C" not null,
  model text collate "C" not null,
  purpose text collate "C" not null,
  calls bigint not null,
  unpriced_calls bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cached_input_tokens bigint not null,
  cache_write_tokens bigint not null,
  reasoning_tokens bigint not null,
  total_tokens bigint not null,
  nanos bigint not null,
  primary key (session_label, day, provider, model, purpose)
);
create index memory_usage_by_day on @memory_usage (day);
