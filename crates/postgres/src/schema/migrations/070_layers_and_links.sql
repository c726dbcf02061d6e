-- The layers of messages, and what deletions find by an index.

-- What a host has composed the context of a message of: JSON, never read to build a request.
alter table @messages add column context_json text;

-- The sessions that point at a turn, or have pointed: every pointer has its move.
create index moves_to_turn on @session_moves (thread_id);
create index sessions_of_parent on @sessions (parent_session_label, label) where parent_session_label is not null;
create index sessions_of_parent_turn on @sessions (parent_turn_id) where parent_turn_id is not null;
create index memory_facts_by_scope on @memory_facts (scope);
