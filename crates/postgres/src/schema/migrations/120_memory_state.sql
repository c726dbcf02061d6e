-- Grows with each transaction that deletes vectors, and with it: processes drop those that they hold.
create table @memory_state (
  id integer primary key check (id = 1),
  generation bigint not null
);
insert into @memory_state (id, generation) values (1, 0);
drop sequence @memory_generation;

-- Facts are found by their entity whatever the case of its letters.
create index memory_facts_by_name on @memory_facts (lower(entity), n);
drop index @memory_facts_by_entity;
