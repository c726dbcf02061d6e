-- Facts are found by their entity whatever the case of its letters, as they are stored.
CREATE INDEX memory_facts_by_name ON memory_facts (lower(entity), n);
DROP INDEX memory_facts_by_entity;
