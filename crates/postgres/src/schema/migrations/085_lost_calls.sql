-- What a file does too: reservations that end with their process, and sums of the memory by model.

create index memory_usage_by_model on @memory_usage (provider, model);

-- The process of a reservation renews it; after that time it is lost.
alter table @budget_reservations add column owner text collate "C";
alter table @budget_reservations add column expires_at bigint not null default 0;
create index budget_reservations_by_end on @budget_reservations (expires_at);
create index budget_reservations_by_owner on @budget_reservations (owner);

-- What a process had reserved that has ended is spent, as far as anybody knows: in the accounts `ids`, or in all.
create function @settle_lost(ids text[]) returns void language plpgsql as $$
declare
  lost text[];
  now bigint := @now_ms();
begin
  if ids is null then
    lost := array(select distinct r.account from @budget_reservations r where r.expires_at <= now);
  else
    lost := array(select distinct r.account from @budget_reservations r where r.account = any(ids) and r.expires_at <= now);
  end if;
  if cardinality(lost) = 0 then return; end if;
  perform @lock_accounts(lost);
  with gone as (
    delete from @budget_reservations r where r.account = any(lost) and r.expires_at <= now
    returning r.account, r.tokens, r.nanos)
  update @budget_accounts a set tokens = a.tokens + s.tokens, nanos = a.nanos + s.nanos
    from (select g.account, sum(g.tokens)::bigint as tokens, sum(g.nanos)::bigint as nanos from gone g group by g.account) s
    where a.id = s.account;
end $$;

drop function @reserve(text, bigint, bigint, text[], bigint[], bigint[], bigint[], bigint[]);
-- Reserves the most that a call may use in all accounts, or in none. Returns the first account without enough, and what is left there.
create function @reserve(call text, most_tokens bigint, most_nanos bigint, ids text[], spent_tokens bigint[], spent_nanos bigint[],
  max_tokens bigint[], max_nanos bigint[], process text, lease_ms bigint, out account integer, out rest bigint, out is_cost boolean)
language plpgsql as $$
declare used record;
begin
  perform @lock_accounts(ids);
  if exists (select from @budget_reservations r where r.call_id = call) then return; end if;
  perform @settle_lost(ids);
  for i in 1 .. coalesce(array_length(ids, 1), 0) loop
    insert into @budget_accounts as a (id, tokens, nanos) values (ids[i], spent_tokens[i], spent_nanos[i])
      on conflict (id) do update set tokens = greatest(a.tokens, excluded.tokens), nanos = greatest(a.nanos, excluded.nanos)
      where a.tokens < excluded.tokens or a.nanos < excluded.nanos;
    select * into used from @account_used(ids[i]);
    if max_tokens[i] is not null and most_tokens > max_tokens[i] - used.tokens then
      account := i - 1; rest := max_tokens[i] - used.tokens; is_cost := false; return;
    end if;
    if max_nanos[i] is not null and most_nanos > max_nanos[i] - used.nanos then
      account := i - 1; rest := max_nanos[i] - used.nanos; is_cost := true; return;
    end if;
  end loop;
  insert into @budget_reservations (call_id, account, tokens, nanos, owner, expires_at)
    select call, id, most_tokens, most_nanos, process, @now_ms() + lease_ms from unnest(ids) id;
end $$;
