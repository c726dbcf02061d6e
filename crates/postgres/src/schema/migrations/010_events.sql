-- The events of runs, a piece for each write, and commands to runs of other processes.

-- The order in which runs began whose events are stored; null for the others.
alter table @turns add column run_number bigint;
create sequence @run_numbers;
create index turns_by_run_number on @turns (session_label, run_number) where run_number is not null;

create index turns_in_order_of_runs on @turns (run_number) where run_number is not null;

create table @events (
  turn_id text collate "C" not null,
  -- The number of its last event.
  last bigint not null,
  body bytea not null,
  checksum bigint not null,
  primary key (turn_id, last)
);
alter table @events alter column body set storage external;

create table @commands (
  id bigint generated always as identity primary key,
  session_label text collate "C" not null,
  turn_id text collate "C" not null,
  epoch bigint not null,
  owner text collate "C" not null,
  -- Null for an abort, and once it is answered.
  message text,
  created_at bigint not null,
  taken boolean
);
create index commands_open on @commands (owner, id) where taken is null;

-- The processes that follow runs of others: where there is none, no run sends a notification.
create table @listeners (
  owner text collate "C" primary key,
  expires_at bigint not null
);
