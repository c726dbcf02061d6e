-- A checksum for every row that readers use: the sum of a hash of each column. Existing rows are taken as they are, because
-- earlier damage cannot be detected.

ALTER TABLE schema_meta ADD COLUMN row_checksum INTEGER;
UPDATE schema_meta SET row_checksum = checksum_of('ledger_id, created_at, engine_version', ledger_id, created_at, engine_version);

ALTER TABLE sessions ADD COLUMN row_checksum INTEGER;
UPDATE sessions SET row_checksum = checksum_of(
  'label, thread_id, persona_id, is_subagent, parent_session_label, parent_turn_id, spawn_tool_call_id, task_description, task_status, routing_key, origin, origin_session_id, created_at, updated_at, status, opening, agent_id',
  label, thread_id, persona_id, is_subagent, parent_session_label, parent_turn_id, spawn_tool_call_id,
  task_description, task_status, routing_key, origin, origin_session_id, created_at, updated_at, status, opening,
  agent_id);

ALTER TABLE turns ADD COLUMN row_checksum INTEGER;
UPDATE turns SET row_checksum = checksum_of(
  'id, parent_turn_id, turn_type, status, depth, thread_tokens, session_label, run_id, started_at, completed_at, model, provider, role, toolset_name, tools_available, permissions_granted, permissions_used, input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens, total_tokens, usage_estimated, context_tokens, cost, query_message_ids, response_message_id, tool_call_count, source_event_id, workspace_path, stop_reason, error_kind, error_message, error_retryable, attempts_json, error_code',
  id, parent_turn_id, turn_type, status, depth, thread_tokens, session_label, run_id, started_at, completed_at,
  model, provider, role, toolset_name, tools_available, permissions_granted, permissions_used, input_tokens,
  output_tokens, cached_input_tokens, cache_write_tokens, reasoning_tokens, total_tokens, usage_estimated,
  context_tokens, cost, query_message_ids, response_message_id, tool_call_count, source_event_id, workspace_path,
  stop_reason, error_kind, error_message, error_retryable, attempts_json, error_code);

ALTER TABLE messages ADD COLUMN row_checksum INTEGER;
UPDATE messages SET row_checksum = checksum_of(
  'id, turn_id, source, sequence, created_at, checksum, context_json, metadata_json, blobs_json',
  id, turn_id, source, sequence, created_at, checksum, context_json, metadata_json, blobs_json);

ALTER TABLE tool_calls ADD COLUMN row_checksum INTEGER;
UPDATE tool_calls SET row_checksum = checksum_of(
  'id, provider_call_id, turn_id, message_id, tool_name, tool_number, status, spawned_session_label, started_at, completed_at, sequence, error, params_json, result_json, replay, arguments_hash, blobs_json',
  id, provider_call_id, turn_id, message_id, tool_name, tool_number, status, spawned_session_label, started_at,
  completed_at, sequence, error, params_json, result_json, replay, arguments_hash, blobs_json);

ALTER TABLE session_history ADD COLUMN row_checksum INTEGER;
UPDATE session_history SET row_checksum = checksum_of('session_label, thread_id, changed_at', session_label, thread_id, changed_at);

ALTER TABLE compactions ADD COLUMN row_checksum INTEGER;
UPDATE compactions SET row_checksum = checksum_of(
  'turn_id, compaction_type, summary, summarized_through_turn_id, first_kept_turn_id, turns_summarized, model, provider, tokens_before, tokens_after, summary_tokens, summarization_input_tokens, summarization_output_tokens, duration_ms, trigger',
  turn_id, compaction_type, summary, summarized_through_turn_id, first_kept_turn_id, turns_summarized, model,
  provider, tokens_before, tokens_after, summary_tokens, summarization_input_tokens, summarization_output_tokens,
  duration_ms, trigger);

ALTER TABLE run_contexts ADD COLUMN row_checksum INTEGER;
UPDATE run_contexts SET row_checksum = checksum_of('hash, context_json', hash, context_json);

ALTER TABLE open_turns ADD COLUMN row_checksum INTEGER;
UPDATE open_turns SET row_checksum = checksum_of(
  'turn_id, epoch, expected_head, context_id, target_json, progress_json',
  turn_id, epoch, expected_head, context_id, target_json, progress_json);

ALTER TABLE session_leases ADD COLUMN row_checksum INTEGER;
UPDATE session_leases SET row_checksum = checksum_of(
  'session_label, epoch, owner, pid, pid_started, pid_space, boot_id',
  session_label, epoch, owner, pid, pid_started, pid_space, boot_id);

ALTER TABLE session_aliases ADD COLUMN row_checksum INTEGER;
UPDATE session_aliases SET row_checksum = checksum_of('alias, session_label, created_at, updated_at', alias, session_label, created_at, updated_at);

ALTER TABLE personas ADD COLUMN row_checksum INTEGER;
UPDATE personas SET row_checksum = checksum_of('id, main_session_label, created_at, updated_at', id, main_session_label, created_at, updated_at);

ALTER TABLE event_logs ADD COLUMN row_checksum INTEGER;
UPDATE event_logs SET row_checksum = checksum_of(
  'turn_id, run_id, session_label, created_at, ended_at, owner, pid, pid_started, pid_space, boot_id',
  turn_id, run_id, session_label, created_at, ended_at, owner, pid, pid_started, pid_space, boot_id);

ALTER TABLE run_events ADD COLUMN row_checksum INTEGER;
UPDATE run_events SET row_checksum = checksum_of('log_id, seq_from, seq, message_id, events', log_id, seq_from, seq, message_id, events);

ALTER TABLE session_commands ADD COLUMN row_checksum INTEGER;
UPDATE session_commands SET row_checksum = checksum_of('session_label, epoch, command, message, taken, created_at', session_label, epoch, command, message, taken, created_at);

ALTER TABLE auth_profile_usage ADD COLUMN row_checksum INTEGER;
UPDATE auth_profile_usage SET row_checksum = checksum_of(
  'profile_id, last_used_at, last_failure_at, failures, refusals, windows_json',
  profile_id, last_used_at, last_failure_at, failures, refusals, windows_json);

ALTER TABLE search_progress ADD COLUMN row_checksum INTEGER;
UPDATE search_progress SET row_checksum = checksum_of('indexed_through', indexed_through);

ALTER TABLE cache_chains ADD COLUMN row_checksum INTEGER;
UPDATE cache_chains SET row_checksum = checksum_of(
  'session_label, turn_id, who, way, base, called_at, system_hash, thinking_hash, choice_hash, tools_json, messages, comparable, input_tokens, read_tokens, write_tokens, told, tail',
  session_label, turn_id, who, way, base, called_at, system_hash, thinking_hash, choice_hash, tools_json,
  messages, comparable, input_tokens, read_tokens, write_tokens, told, tail);

ALTER TABLE model_calibration ADD COLUMN row_checksum INTEGER;
UPDATE model_calibration SET row_checksum = checksum_of('provider, model, per_mille, samples, updated_at', provider, model, per_mille, samples, updated_at);

ALTER TABLE cache_links ADD COLUMN row_checksum INTEGER;
UPDATE cache_links SET row_checksum = checksum_of('session_label, part, links', session_label, part, links);

ALTER TABLE cache_breaks ADD COLUMN row_checksum INTEGER;
UPDATE cache_breaks SET row_checksum = checksum_of(
  'turn_id, attempt, cause, part, change, name, position, message_id, role, expected_tokens, read_tokens, tokens, cost, idle_ms',
  turn_id, attempt, cause, part, change, name, position, message_id, role, expected_tokens, read_tokens, tokens,
  cost, idle_ms);
