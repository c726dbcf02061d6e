-- What a broker stores: queues, the outbox, schedules, tasks of agents, approvals, budgets, and the files of prompts.
--
-- A row changes in the statement or the transaction of the commit point that it belongs to.

-- The turn that waits for a decision: in the row that decides who may begin a turn.
alter table @sessions add column if not exists parked text collate "C";
alter table @sessions add column if not exists is_subagent boolean not null default false;
alter table @sessions add column if not exists parent_session_label text collate "C";
alter table @sessions add column if not exists parent_turn_id text collate "C";
alter table @sessions add column if not exists spawn_tool_call_id text collate "C";
alter table @sessions add column if not exists task_description text;
alter table @sessions add column if not exists task_status text collate "C";
alter table @sessions add column if not exists origin text;
alter table @sessions add column if not exists origin_session_id text collate "C";

-- Ends the statement, and all that it has changed, where a condition does not hold.
create function @expect(holds boolean, code text, why text) returns boolean language plpgsql as $$
begin
  if holds is not true then raise exception using errcode = code, message = why; end if;
  return true;
end $$;

create table @queue_items (
  -- The order of arrival.
  n bigint generated always as identity primary key,
  id text collate "C" not null unique,
  session_label text collate "C" not null,
  source text not null,
  mode text not null,
  channel text,
  account text,
  thread text,
  principal text not null,
  is_system boolean not null,
  message_json text not null,
  request_json text not null,
  event_id text,
  sender_json text,
  status text not null check (status in ('pending', 'processing', 'delivered', 'failed')),
  reason text,
  detail text,
  tries integer not null,
  failures integer not null,
  not_before bigint not null,
  -- The turn that has taken it; of a pending one the running turn that it was offered to; of a dropped one the turn that named it.
  turn_id text collate "C",
  -- A dropped message of which the next turn has a line.
  is_summarized boolean not null default false,
  created_at bigint not null,
  claimed_at bigint,
  delivered_at bigint,
  check ((status = 'failed') = (reason is not null)),
  check (status <> 'processing' or turn_id is not null)
) with (fillfactor = 80);
create index queue_items_waiting on @queue_items (session_label, n) where status in ('pending', 'processing');
create index queue_items_unnamed on @queue_items (session_label, n) where is_summarized and turn_id is null;
create index queue_items_by_turn on @queue_items (turn_id) where turn_id is not null;
create index queue_items_by_session on @queue_items (session_label, n);

-- The events of the last days: a second message of one is a duplicate, wherever it would go.
create table @queue_events (
  channel text collate "C" not null,
  account text collate "C" not null,
  event_id text collate "C" not null,
  item_id text collate "C" not null,
  created_at bigint not null,
  primary key (channel, account, event_id)
);
create index queue_events_by_time on @queue_events (created_at);

create table @queue_suspensions (
  session_label text collate "C" primary key,
  created_at bigint not null
);

create table @deliveries (
  -- The order in which the turns ended.
  n bigint generated always as identity primary key,
  turn_id text collate "C" not null unique,
  session_label text collate "C" not null,
  target_json text not null,
  status text not null check (status in ('pending', 'delivered', 'parked')),
  tries integer not null default 0,
  failures integer not null default 0,
  not_before bigint not null,
  error text,
  created_at bigint not null,
  delivered_at bigint,
  -- The process that has it; the epoch grows with each claim.
  epoch bigint not null default 0,
  owner text collate "C",
  expires_at bigint
) with (fillfactor = 80);
create index deliveries_pending on @deliveries (session_label, n) where status = 'pending';
create index deliveries_by_status on @deliveries (status, n);
create index deliveries_by_session on @deliveries (session_label, status, n);

create table @schedules (
  id text collate "C" primary key,
  spec_json text not null,
  item_json text not null,
  next_at bigint,
  last_at bigint,
  created_at bigint not null
);
create index schedules_by_time on @schedules (next_at, id) where next_at is not null;

create table @session_prompts (
  session_label text collate "C" primary key,
  request text not null,
  files text not null,
  created_at bigint not null
);

create table @dispatches (
  -- The call that made it, and its message in the queue.
  id text collate "C" primary key,
  kind text not null,
  status text not null,
  parent_session text collate "C" not null,
  parent_turn_id text collate "C" not null,
  root_turn_id text collate "C" not null,
  session_label text collate "C" not null,
  agent_id text collate "C" not null,
  is_new boolean not null,
  cancelled text,
  deadline bigint,
  max_tokens bigint,
  max_nanos bigint,
  -- The account in which its budget is reserved.
  parent_account text collate "C",
  -- The dispatch as it was made and as it ended, and what its result inherits: JSON.
  body text not null,
  inherited text not null,
  created_at bigint not null,
  ended_at bigint,
  check ((status = 'active') = (ended_at is null))
);
create index dispatches_by_parent on @dispatches (parent_session, id);
create index dispatches_by_parent_turn on @dispatches (parent_turn_id, id);
create index dispatches_by_session on @dispatches (session_label, id);
create index dispatches_active on @dispatches (parent_session, id) where status = 'active';
create index dispatches_cancelled on @dispatches (id) where status = 'active' and cancelled is not null;
create index dispatches_timed on @dispatches (deadline) where status = 'active' and deadline is not null;
create index dispatches_reserved on @dispatches (parent_account) where status = 'active' and parent_account is not null;
create index dispatches_in_tree on @dispatches (root_turn_id) where status = 'active';

create table @approvals (
  id text collate "C" primary key,
  status text not null,
  turn_id text collate "C" not null,
  run_id text collate "C" not null,
  session_label text collate "C" not null,
  call_id text collate "C" not null unique,
  reason text,
  expires_at bigint,
  decided_at bigint,
  result text,
  -- The approval: JSON, in which the columns above are not current.
  body text not null
);
create index approvals_by_turn on @approvals (turn_id, id);
create index approvals_by_run on @approvals (run_id, id);
create index approvals_by_session on @approvals (session_label, id);
create index approvals_pending on @approvals (id) where status = 'pending';

-- What budgets have spent, in tokens and in billionths of a US dollar, and what calls under way may cost at most.
create table @budget_accounts (
  id text collate "C" primary key,
  tokens bigint not null,
  nanos bigint not null
);
create table @budget_reservations (
  call_id text collate "C" not null,
  account text collate "C" not null,
  tokens bigint not null,
  nanos bigint not null,
  primary key (call_id, account)
);
create index budget_reservations_by_account on @budget_reservations (account);

-- Who looks at accounts or adds to them waits for others that do: the locks end with the transaction.
create function @lock_accounts(ids text[]) returns void language plpgsql as $$
declare next text;
begin
  for next in select distinct x from unnest(ids) x where x is not null order by x loop
    perform pg_advisory_xact_lock(hashtextextended(next, 1651663988));
  end loop;
end $$;

-- What of an account is spent or reserved: by calls under way, and by active tasks in that of a turn.
create function @account_used(account text) returns table (tokens bigint, nanos bigint) language sql volatile as $$
  select coalesce(sum(u.tokens), 0)::bigint, coalesce(sum(u.nanos), 0)::bigint from (
    select a.tokens, a.nanos from @budget_accounts a where a.id = $1
    union all select r.tokens, r.nanos from @budget_reservations r where r.account = $1
    union all select coalesce(d.max_tokens, 0), coalesce(d.max_nanos, 0) from @dispatches d
      where d.parent_account = $1 and d.status = 'active' and ($1 like 'turn:%' or $1 like 'task:%')) u
$$;

-- Reserves the most that a call may use in all accounts, or in none. Returns the first account without enough, and what is left there.
create function @reserve(call text, most_tokens bigint, most_nanos bigint, ids text[], spent_tokens bigint[], spent_nanos bigint[],
  max_tokens bigint[], max_nanos bigint[], out account integer, out rest bigint, out is_cost boolean)
language plpgsql as $$
declare used record;
begin
  perform @lock_accounts(ids);
  if exists (select from @budget_reservations r where r.call_id = call) then return; end if;
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
  insert into @budget_reservations (call_id, account, tokens, nanos)
    select call, id, most_tokens, most_nanos from unnest(ids) id;
end $$;

-- Settles a call at what it has used.
create function @settle(call text, used_tokens bigint, used_nanos bigint) returns void language plpgsql as $$
begin
  perform @lock_accounts(array(select r.account from @budget_reservations r where r.call_id = call));
  update @budget_accounts a set tokens = a.tokens + used_tokens, nanos = a.nanos + used_nanos
    from @budget_reservations r where r.call_id = call and a.id = r.account;
  delete from @budget_reservations r where r.call_id = call;
end $$;

-- Adds what was spent of an account to another one, if that exists, and removes it.
create function @fold_account(account text, parent text) returns void language plpgsql as $$
begin
  perform @lock_accounts(array[account, parent]);
  update @budget_accounts a set tokens = a.tokens + s.tokens, nanos = a.nanos + s.nanos from (
    select coalesce(sum(u.tokens), 0) as tokens, coalesce(sum(u.nanos), 0) as nanos from (
      select tokens, nanos from @budget_accounts where id = $1
      union all select tokens, nanos from @budget_reservations r where r.account = $1) u) s
    where a.id = parent;
  delete from @budget_reservations r where r.account = $1;
  delete from @budget_accounts a where a.id = $1;
end $$;

-- Removes the account of a run that has ended, or of a tree in which no agent works any more.
create function @close_account(account text) returns void language sql volatile as $$
  delete from @budget_accounts a where a.id = $1
    and not exists (select from @budget_reservations r where r.account = $1)
    and not ($1 like 'tree:%' and exists (select from @dispatches d
      where d.root_turn_id = substr($1, 6) and d.status = 'active'))
$$;
