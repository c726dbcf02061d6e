-- What deletions and statistics need.

alter table @ledger add column created_at bigint not null default floor(extract(epoch from clock_timestamp()) * 1000);
alter table @ledger add column engine_version text not null default '';

-- Sessions that are hidden, and whose turns are still being deleted.
create table @pending_deletions (
  session_label text collate "C" primary key,
  threads text[] not null,
  hidden_at bigint not null
);
create index turns_by_end on @turns (completed_at) where n is not null;
create index compactions_retain on @compactions (first_kept_turn_id);
