-- The call of `copyTo` that has closed the ledger: only that one finishes the move, or opens the ledger again.
alter table @ledger add column moved_token text;
-- What the last copy wrote that had to know whether its target is this ledger.
alter table @ledger add column copy_mark text;

-- For a statement that has a lock of a table which is locked while the mark is set: it must not wait for the row of the mark.
create function @takes_turns() returns boolean language plpgsql as $$
declare place text;
begin
  select moved_to into place from @ledger;
  if place is not null then
    raise exception using errcode = 'NX001', message = 'the ledger was moved to ' || place || '; open that one';
  end if;
  return true;
end $$;
