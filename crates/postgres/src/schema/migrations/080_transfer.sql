-- What an import brings from other ledgers: turns without a model, and the routing data of sessions.

alter table @turns alter column provider drop not null;
alter table @turns alter column model drop not null;
alter table @sessions add column routing_key text;

-- Where the ledger was moved to: from then on it takes no new turn, message, schedule, name or fact; a turn under way ends. The
-- tables are locked while it is set, so that a statement has either written before or sees it.
alter table @ledger add column moved_to text;
-- False while a copy is cut over: a failed one allows turns again.
alter table @ledger add column moved_for_good boolean not null default false;
create function @refuse_moved() returns trigger language plpgsql as $$
declare place text;
begin
  select moved_to into place from @ledger;
  if place is not null then
    raise exception using errcode = 'NX001', message = 'the ledger was moved to ' || place || '; open that one';
  end if;
  return new;
end $$;
create trigger refuse_moved before insert on @turns for each row when (new.turn_type = 'normal') execute function @refuse_moved();
create trigger refuse_moved before insert on @queue_items for each row execute function @refuse_moved();
create trigger refuse_moved before insert or update on @schedules for each row execute function @refuse_moved();
create trigger refuse_moved before insert or update on @session_aliases for each row execute function @refuse_moved();
create trigger refuse_moved before insert or update on @personas for each row execute function @refuse_moved();
create trigger refuse_moved before insert on @memory_facts for each row execute function @refuse_moved();
