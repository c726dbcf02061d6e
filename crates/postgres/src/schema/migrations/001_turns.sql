-- Sessions with their leases, turns, messages, tool calls, compactions, moves, and the state of profiles.
--
-- `@` stands for the schema. Texts are compared by their bytes, as in the file. Bodies are compressed by the ledger.

create table @ledger (
  only_row boolean primary key check (only_row),
  id text not null,
  version integer not null
);

-- Unix milliseconds by the server's clock: the only clock that leases know.
create function @now_ms() returns bigint language sql volatile
  return floor(extract(epoch from clock_timestamp()) * 1000)::bigint;

-- The pointer and the lease are one row, so that one locked row decides who writes after which head.
create table @sessions (
  label text collate "C" primary key,
  head text collate "C",
  persona_id text collate "C" not null,
  agent_id text collate "C" not null,
  created_at bigint not null,
  updated_at bigint not null,
  status text collate "C" not null default 'active',
  opening boolean not null,
  epoch bigint not null default 0,
  owner text collate "C",
  running text collate "C",
  expires_at bigint
) with (fillfactor = 80);

-- The processes that wait for a session, in the order in which they came.
create table @waits (
  n bigint generated always as identity,
  session_label text collate "C" not null,
  owner text collate "C" not null,
  expires_at bigint not null,
  primary key (session_label, owner)
);

create sequence @turn_numbers;

create table @turns (
  id text collate "C" primary key,
  -- The order in which turns ended.
  n bigint,
  parent_turn_id text collate "C",
  session_label text collate "C" not null,
  run_id text collate "C" not null,
  turn_type text collate "C" not null,
  status text collate "C" not null,
  depth bigint not null,
  thread_tokens bigint not null,
  expected_head text collate "C",
  -- Whether it was begun as a run, whose id is its own then.
  is_run boolean not null default false,
  -- The epoch under which it is open.
  epoch bigint,
  started_at bigint not null,
  completed_at bigint,
  provider text collate "C" not null,
  model text collate "C" not null,
  role text collate "C" not null,
  stop_reason text collate "C",
  tool_call_count bigint not null default 0,
  input_tokens bigint not null default 0,
  output_tokens bigint not null default 0,
  cached_input_tokens bigint not null default 0,
  cache_write_tokens bigint not null default 0,
  reasoning_tokens bigint not null default 0,
  total_tokens bigint not null default 0,
  cost double precision,
  -- What a process needs that takes the turn over; null once it has ended.
  opening bytea,
  opening_checksum bigint,
  progress text,
  header bytea not null,
  outcome bytea,
  checksum bigint not null
) with (fillfactor = 80);
alter table @turns alter column opening set storage external;
alter table @turns alter column header set storage external;
alter table @turns alter column outcome set storage external;
create unique index turns_in_order on @turns (n);
create index turns_of_session on @turns (session_label, id);
create index turns_of_parent on @turns (parent_turn_id, id);
create index turns_of_run on @turns (run_id, id);
create unique index turns_are_runs on @turns (run_id) where is_run;
create index turns_open on @turns (id) where status = 'streaming';

create table @messages (
  turn_id text collate "C" not null,
  sequence integer not null,
  id text collate "C" not null,
  role text collate "C" not null,
  created_at bigint not null,
  body bytea not null,
  checksum bigint not null,
  primary key (turn_id, id)
);
alter table @messages alter column body set storage external;

create table @tool_calls (
  turn_id text collate "C" not null,
  sequence integer not null,
  id text collate "C" not null,
  tool_name text collate "C" not null,
  status text collate "C" not null,
  replay text collate "C",
  arguments_hash text collate "C",
  body bytea not null,
  checksum bigint not null,
  primary key (turn_id, id)
);
alter table @tool_calls alter column body set storage external;

create table @compactions (
  turn_id text collate "C" primary key,
  first_kept_turn_id text collate "C" not null,
  summarized_through_turn_id text collate "C" not null,
  body bytea not null,
  checksum bigint not null
);
alter table @compactions alter column body set storage external;

create table @session_moves (
  id bigint generated always as identity primary key,
  session_label text collate "C" not null,
  thread_id text collate "C" not null,
  changed_at bigint not null
);
create index moves_of_session on @session_moves (session_label, changed_at, id);

create table @auth_profiles (
  id text collate "C" primary key,
  used_at bigint,
  state text not null
);

create table @token_ratios (
  provider text collate "C" not null,
  model text collate "C" not null,
  per_mille bigint not null,
  samples bigint not null,
  updated_at bigint not null,
  primary key (provider, model)
);
