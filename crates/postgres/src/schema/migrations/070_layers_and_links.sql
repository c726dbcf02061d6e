-- The layers of messages, and what deletions find by an index.

-- What a host has composed the context of a message of: JSON, never read to build a request.
alter table @messages add column context_json text;

create index moves_to_turn on @session_moves (thread_id);
create index sessions_of_parent on @sessions (parent_session_label, label) where parent_session_label is not null;
create index sessions_of_parent_turn on @sessions (parent_turn_id) where parent_turn_id is not null;
