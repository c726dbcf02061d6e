-- What an import brings from other ledgers: turns without a model, and the routing data of sessions.

alter table @turns alter column provider drop not null;
alter table @turns alter column model drop not null;
alter table @sessions add column routing_key text;
