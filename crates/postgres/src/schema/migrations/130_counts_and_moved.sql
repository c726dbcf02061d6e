-- What the cap of a session's queue counts, without a look at the rows.
create index queue_items_counted on @queue_items (session_label, n) include (mode, id)
  where status = 'pending' and turn_id is null and not is_system;

-- A ledger that was moved takes no new session either. Those of turns under way are none of a host, so that no trigger knows them:
-- what makes one for a host calls this. The row stays as it is read until the transaction ends.
create function @is_open() returns boolean language plpgsql as $$
declare place text;
begin
  select moved_to into place from @ledger for share;
  if place is not null then
    raise exception using errcode = 'NX001', message = 'the ledger was moved to ' || place || '; open that one';
  end if;
  return true;
end $$;

-- The result of a task that ends is part of its turn, which is under way.
drop trigger refuse_moved on @queue_items;
create trigger refuse_moved before insert on @queue_items for each row
  when (new.sender_json is null or new.sender_json::jsonb->>'kind' is distinct from 'worker_result')
  execute function @refuse_moved();
