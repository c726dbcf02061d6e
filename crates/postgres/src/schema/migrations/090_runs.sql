-- Runs that wait for their session: a run that is opened has its turn, and no row here.

create table @runs (
  run_id text collate "C" primary key,
  turn_id text collate "C" not null unique,
  session_label text collate "C" not null,
  -- Among those of turns, which its turn then has.
  run_number bigint not null,
  started_at bigint not null,
  owner text collate "C" not null,
  -- A process that has ended renews it no more: the run has ended with it, and its id may be used again.
  expires_at bigint not null
);
