//! The columns of each table that a row's checksum covers, and the name of a row in a report.
//!
//! A column must never be missing here unless another rule of `verify()` checks it: a test compares this list with the
//! schema.

/// A table whose rows have a checksum.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    /// The columns, in the form for `checksum_of`.
    pub(crate) columns: &'static str,
    /// An expression for the name of a row.
    pub(crate) subject: &'static str,
}

/// The columns that the checksum of `table` covers; empty for a table without one.
pub(crate) fn columns(table: &str) -> &'static str {
    TABLES.iter().chain(&REMOVED).find(|it| it.name == table).map_or("", |it| it.columns)
}

/// The tables of older ledgers that are views now: migrations and salvage read them.
const REMOVED: [Table; 2] = [
    Table {
        name: "messages",
        columns: "id, turn_id, source, sequence, created_at, checksum, context_json, metadata_json, blobs_json",
        subject: "id",
    },
    Table {
        name: "tool_calls",
        columns: "id, provider_call_id, turn_id, message_id, tool_name, tool_number, status, spawned_session_label, \
                  started_at, completed_at, sequence, error, params_json, result_json, replay, arguments_hash, blobs_json",
        subject: "id",
    },
];

/// Every table with a checksum.
pub(crate) const TABLES: [Table; 38] = [
    Table {
        name: "schema_meta",
        columns: "ledger_id, created_at, engine_version",
        subject: "ledger_id",
    },
    Table {
        name: "sessions",
        columns: "label, thread_id, persona_id, is_subagent, parent_session_label, parent_turn_id, spawn_tool_call_id, \
                  task_description, task_status, routing_key, origin, origin_session_id, created_at, updated_at, status, \
                  opening, agent_id",
        subject: "label",
    },
    Table {
        // The view of `turn_rows`: a checksum is of the values that readers get. `has_children` and `first_child` are missing,
        // because `verify()` compares them with the children.
        name: "turns",
        columns: "id, parent_turn_id, turn_type, status, depth, thread_tokens, session_label, run_id, started_at, \
                  completed_at, model, provider, role, toolset_name, tools_available, permissions_granted, \
                  permissions_used, input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, \
                  reasoning_tokens, total_tokens, usage_estimated, context_tokens, cost, query_message_ids, \
                  response_message_id, tool_call_count, source_event_id, workspace_path, stop_reason, error_kind, \
                  error_message, error_retryable, attempts_json, error_code",
        subject: "id",
    },
    // A number that names another text makes the checksums of the turns with it wrong.
    Table { name: "strings", columns: "text", subject: "id" },
    Table {
        // The view of `message_rows`. The others are in `checksum`, which is compared whenever a message is read.
        name: "message_values",
        columns: "key, id, source, created_at, checksum, context_json, metadata_json, blobs_json",
        subject: "id",
    },
    Table {
        name: "call_values",
        columns: "key, id, provider_call_id, message_id, tool_name, tool_number, status, spawned_session_label, \
                  started_at, completed_at, error, params_json, result_json, replay, arguments_hash, blobs_json",
        subject: "id",
    },
    Table {
        name: "session_history",
        columns: "session_label, thread_id, changed_at",
        subject: "session_label",
    },
    Table {
        name: "turn_metadata",
        columns: "turn, metadata",
        subject: "(SELECT t.id FROM turns t WHERE t.n = turn)",
    },
    Table {
        name: "session_metadata",
        columns: "session_label, metadata",
        subject: "session_label",
    },
    Table {
        name: "pending_deletions",
        columns: "session_label, threads_json, hidden_at",
        subject: "session_label",
    },
    Table {
        name: "compactions",
        columns: "turn_id, compaction_type, summary, summarized_through_turn_id, first_kept_turn_id, turns_summarized, \
                  model, provider, tokens_before, tokens_after, summary_tokens, summarization_input_tokens, \
                  summarization_output_tokens, duration_ms, trigger",
        subject: "turn_id",
    },
    Table { name: "run_contexts", columns: "hash, context_json", subject: "hash" },
    Table {
        // The times of the heartbeat are missing, because no reader receives them.
        name: "session_leases",
        columns: "session_label, epoch, owner, pid, pid_started, pid_space, boot_id",
        subject: "session_label",
    },
    Table {
        name: "session_aliases",
        columns: "alias, session_label, created_at, updated_at",
        subject: "alias",
    },
    Table {
        name: "personas",
        columns: "id, main_session_label, created_at, updated_at",
        subject: "id",
    },
    Table {
        name: "runs",
        columns: "n, turn_id, run_id, session_label, created_at, ended_at, epoch, context_id, keeps_events, last_entry, \
                  in_journal, owner, pid, pid_started, pid_space, boot_id",
        subject: "turn_id",
    },
    Table {
        name: "event_archive",
        columns: "key, seq, events",
        subject: "(SELECT r.turn_id FROM runs r WHERE r.n = key >> 20)",
    },
    Table {
        name: "session_commands",
        columns: "session_label, epoch, command, message, taken, created_at, turn_id",
        subject: "session_label",
    },
    Table {
        name: "session_waits",
        columns: "session_label, owner, pid, pid_started, pid_space, boot_id, expires_at, heartbeat_at",
        subject: "session_label",
    },
    Table {
        name: "approvals",
        columns: "id, kind, status, turn_id, run_id, session_label, call_id, tool_call_id, message_id, tool_name, \
                  params_json, params_hash, requested_params_json, question, decided_by, reason, created_at, \
                  expires_at, decided_at, result_json, parked",
        subject: "id",
    },
    Table {
        name: "auth_profile_usage",
        columns: "profile_id, last_used_at, last_failure_at, failures, refusals, windows_json",
        subject: "profile_id",
    },
    Table {
        name: "session_prompts",
        columns: "session_label, request_json, files_json, created_at",
        subject: "session_label",
    },
    Table {
        // `n` is missing, because only the order of the rows is used.
        name: "queue_items",
        columns: "id, session_label, source, mode, channel, account, thread, principal, is_system, message_json, \
                  request_json, event_id, sender_json, status, reason, detail, tries, failures, not_before, turn_id, is_summarized, \
                  created_at, claimed_at, delivered_at, blobs_json",
        subject: "id",
    },
    Table {
        name: "queue_events",
        columns: "channel, account, event_id, item_id, created_at",
        subject: "event_id",
    },
    Table {
        name: "queue_suspensions",
        columns: "session_label, created_at",
        subject: "session_label",
    },
    Table {
        // The times of the heartbeat and `n` are missing, as above.
        name: "deliveries",
        columns: "turn_id, session_label, target_json, status, tries, failures, not_before, error, created_at, \
                  delivered_at, epoch, owner, pid, pid_started, pid_space, boot_id",
        subject: "turn_id",
    },
    Table {
        name: "schedules",
        columns: "id, spec_json, item_json, next_at, last_at, created_at",
        subject: "id",
    },
    Table {
        name: "dispatches",
        columns: "id, kind, status, parent_session, parent_turn_id, root_turn_id, session_label, agent_id, model, is_new, depth, \
                  hops, is_detached, cancelled, deadline, turn_id, text, usage_json, cost, result_item_id, channel, \
                  account, thread, principal, request_json, created_at, ended_at, max_tokens, max_nanos, parent_account",
        subject: "id",
    },
    Table { name: "budget_accounts", columns: "id, tokens, nanos", subject: "id" },
    Table {
        name: "budget_reservations",
        columns: "call_id, account, tokens, nanos, owner, pid, pid_started, pid_space, boot_id",
        subject: "call_id",
    },
    Table { name: "memory_scopes", columns: "kind, id", subject: "id" },
    Table {
        name: "memory_chunks",
        columns: "kind, scope, session_label, turn_id, part, role, fact_id, text, created_at",
        subject: "n",
    },
    Table {
        // `n` is missing, as above.
        name: "memory_facts",
        columns: "id, entity, fact_type, content_json, scope, turn_id, call_id, confidence, valid_from, valid_to, superseded_by, \
                  created_at",
        subject: "id",
    },
    Table { name: "search_progress", columns: "indexed_through", subject: "NULL" },
    Table {
        name: "cache_chains",
        columns: "session_label, turn_id, who, way, base, called_at, system_hash, thinking_hash, choice_hash, \
                  tools_json, messages, comparable, input_tokens, read_tokens, write_tokens, told, tail",
        subject: "session_label",
    },
    Table {
        name: "model_calibration",
        columns: "provider, model, per_mille, samples, updated_at",
        subject: "provider || '/' || model",
    },
    Table { name: "cache_links", columns: "session_label, part, links", subject: "session_label" },
    Table {
        name: "cache_breaks",
        columns: "turn_id, attempt, cause, part, change, name, position, message_id, role, expected_tokens, \
                  read_tokens, tokens, cost, idle_ms",
        subject: "turn_id",
    },
];
