-- The ledger under the names of the broker interface, for readers of the file: what readers of the API see, without the columns
-- that only the engine needs.

CREATE VIEW agent_sessions (label, thread_id, persona_id, agent_id, is_subagent, parent_session_label, parent_turn_id,
  spawn_tool_call_id, task_description, task_status, routing_key, origin, origin_session_id, created_at, updated_at,
  status, metadata) AS
SELECT s.label, s.thread_id, s.persona_id, s.agent_id, s.is_subagent, s.parent_session_label, s.parent_turn_id,
  s.spawn_tool_call_id, s.task_description, s.task_status, s.routing_key, s.origin, s.origin_session_id, s.created_at,
  s.updated_at, s.status, (SELECT m.metadata FROM session_metadata m WHERE m.session_label = s.label)
FROM sessions s
WHERE s.opening = 0
  AND s.label NOT GLOB 'run:[0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z][0-9A-HJKMNP-TV-Z]';

CREATE VIEW agent_turns (id, parent_turn_id, turn_type, status, has_children, depth, thread_tokens, session_label, run_id,
  started_at, completed_at, model, provider, role, toolset_name, tools_available, permissions_granted, permissions_used,
  input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens, total_tokens, usage_estimated,
  context_tokens, cost, query_message_ids, response_message_id, tool_call_count, source_event_id, workspace_path,
  stop_reason, error_kind, error_message, error_retryable, error_code, attempts_json, metadata) AS
SELECT t.id, t.parent_turn_id, t.turn_type, t.status, t.has_children, t.depth, t.thread_tokens, t.session_label, t.run_id,
  t.started_at, t.completed_at, t.model, t.provider, t.role, t.toolset_name, t.tools_available, t.permissions_granted,
  t.permissions_used, t.input_tokens, t.output_tokens, t.cached_input_tokens, t.cache_write_tokens, t.reasoning_tokens,
  t.total_tokens, t.usage_estimated, t.context_tokens, t.cost, t.query_message_ids, t.response_message_id,
  t.tool_call_count, t.source_event_id, t.workspace_path, t.stop_reason, t.error_kind, t.error_message,
  t.error_retryable, t.error_code, t.attempts_json, (SELECT m.metadata FROM turn_metadata m WHERE m.turn = t.n)
FROM turns t
WHERE t.status NOT IN ('pending', 'streaming');

CREATE VIEW agent_messages (id, turn_id, role, source, sequence, created_at, tool_call_id, is_error, provider, api, model,
  response_id, stop_reason, context_json, metadata_json, content, thinking, blocks_json, blobs_json) AS
SELECT id, turn_id, role, source, sequence, created_at, tool_call_id, is_error, provider, api, model, response_id,
  stop_reason, context_json, metadata_json, content, thinking, blocks_json, blobs_json
FROM messages;

CREATE VIEW agent_tool_calls (id, provider_call_id, turn_id, message_id, tool_name, status, spawned_session_label,
  started_at, completed_at, sequence, error, params_json, result_json, replay, blobs_json) AS
SELECT id, provider_call_id, turn_id, message_id, tool_name, status, spawned_session_label, started_at, completed_at,
  sequence, error, params_json, result_json, replay, blobs_json
FROM tool_calls;
