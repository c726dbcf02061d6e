//! The contract of every backend of the ledger, as tests through the ports of `model` only.
//!
//! A backend implements [`store::Store`], and its tests expand [`cases!`] and call [`oracle::agrees_with_a_model_in_memory`].
//! It must never name a backend, nor sleep.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::missing_panics_doc,
    clippy::cast_possible_truncation,
    reason = "a library of tests: a missing value should end the test"
)]

pub mod cases;
pub mod live_run;
pub mod oracle;
pub mod store;
pub mod turns;

/// A test for each case: `cases!(crate::tests::fresh, tokio::test)`. The path is a function that creates a
/// [`store::Fixture`] with a fresh store; the attribute runs a future to completion.
#[macro_export]
macro_rules! cases {
    ($fresh:path, $test:meta) => {
        $crate::cases! {
            $fresh, $test;
            approvals: a_parked_turn_waits_in_its_session_until_it_is_taken_over, a_turn_that_is_taken_over_leaves_another_one_of_its_session_parked, of_two_decisions_the_first_is_made_whichever_process_makes_it, a_decision_persists_and_is_taken_over_with_the_turn, a_parked_turn_wakes_for_a_decision_of_any_process_and_for_its_end, an_approval_expires_also_while_no_process_lives, the_end_of_a_turn_cancels_what_nobody_has_decided;
            cache: a_chain_is_read_back_as_it_grew_shrank_and_was_replaced, a_turn_that_moves_no_pointer_leaves_the_chain;
            commands: a_command_of_any_process_reaches_the_run_once_and_is_answered, a_run_that_takes_no_message_refuses_it_from_any_process, a_command_reaches_no_run_that_has_ended_and_none_of_another_session, a_command_to_a_run_whose_process_has_ended_is_refused, a_command_to_a_run_never_reaches_the_next_run_of_its_process;
            commit: a_stale_head_writes_nothing, a_second_commit_of_a_turn_doubles_nothing, a_commit_that_fails_at_its_last_row_leaves_nothing, an_unknown_parent_is_refused_by_name, another_head_is_refused_before_an_unknown_parent, two_calls_of_one_provider_id_have_ids_of_their_own, a_compaction_becomes_the_head_even_when_its_run_failed, a_fork_is_one_session_and_inherits_its_persona, a_broker_commits_after_the_head_it_names_or_the_current_one;
            deletion: after_any_deletions_the_ledger_is_sound_and_every_other_turn_is_as_it_was, after_other_deletions_the_ledger_is_sound_as_well, after_more_deletions_the_ledger_is_sound_as_well, turns_that_another_session_reaches_stay_with_a_deleted_session, a_session_in_which_a_turn_is_open_is_refused, a_deleted_session_ends_its_tasks_and_answers_those_who_gave_them, a_deleted_session_leaves_no_link_and_no_task_behind, the_label_of_a_deleted_session_is_free;
            deliveries: a_turn_with_a_target_has_one_delivery_and_a_silent_one_has_none, the_deliveries_of_a_session_are_claimed_in_the_order_of_its_turns, a_delivery_that_fails_is_tried_again_and_parked_after_the_seventh_time, a_delivery_is_taken_over_from_a_process_that_has_ended_and_from_no_other, a_claim_that_is_not_renewed_expires, a_host_acknowledges_a_delivery_itself_whoever_has_it;
            events: after_a_kill_the_events_of_a_follower_are_a_prefix_of_a_later_followers, a_resumed_turn_continues_after_the_events_that_were_seen, a_refused_end_is_no_event, a_session_is_watched_from_run_to_run_without_a_gap, a_run_without_events_is_refused_with_the_reason, a_run_that_waits_for_its_session_is_known_to_every_process, the_id_of_a_run_that_waited_is_free_after_the_end_of_its_process;
            history: history_is_the_chain_of_parents_oldest_first, history_after_a_known_head_is_only_what_is_new, after_a_compaction_the_history_is_the_summary_the_retained_turns_and_the_new_ones, answers_from_before_the_compaction_of_their_own_turn_are_known_by_their_ids, messages_are_read_by_session_or_by_turn;
            journal: a_failed_first_turn_shows_its_session_without_a_turn, a_turn_becomes_a_branch_after_a_host_moved_the_head, an_interrupted_turn_is_marked_if_its_session_has_moved, an_open_turn_without_a_process_is_interrupted_and_can_be_taken_over, a_turn_that_has_compacted_compacts_again_in_the_process_that_takes_it_over;
            leases: an_expired_lease_is_taken_over_and_its_former_process_writes_nothing_more, an_expired_lease_is_valid_for_its_owner_until_it_is_taken_over, a_write_in_the_second_half_of_a_lease_renews_it, a_session_is_free_for_every_process_as_soon_as_its_turn_has_ended, a_process_that_waits_for_a_session_has_it_after_the_turn_that_runs, a_process_that_stops_waiting_delays_no_other, three_processes_share_a_session_in_any_order_of_events;
            moves: a_moved_session_continues_from_the_turn_and_loses_none, a_session_moves_within_its_own_tree_only, a_session_is_not_moved_from_another_head_nor_while_a_turn_runs_or_waits;
            naming: an_alias_names_its_session_in_every_call_with_a_label, aliases_make_no_cycle_no_long_chain_and_hide_no_session_in_use, an_alias_replaces_an_archived_session_and_a_turn_reactivates_one, a_persona_has_one_main_session_which_has_that_persona, a_fork_at_a_tool_call_has_the_same_messages_up_to_its_result_and_leaves_the_turn_alone;
            profiles: the_state_of_a_profile_is_shared_by_all_processes_and_persists, changes_of_a_profile_in_two_processes_are_all_counted, the_limits_of_a_queue_are_changed_by_one_process_after_the_other, a_submitted_change_takes_effect_without_being_awaited, a_use_is_written_with_the_next_change_and_never_decreases, a_token_ratio_replaces_the_previous_one_of_its_model_in_every_process;
            queue: an_event_is_queued_once_wherever_it_would_go, a_rejected_message_leaves_its_event_free, a_turn_takes_its_messages_as_it_begins_and_delivers_them_as_it_ends, a_message_is_in_one_turn_only, a_failed_turn_without_an_effect_returns_its_messages_until_they_are_poisoned, a_turn_that_cannot_be_tried_again_fails_its_messages, the_messages_of_a_killed_process_stay_in_their_turn_until_it_is_taken_over, a_steered_message_is_the_turns_with_the_step_that_stores_it, a_message_that_was_offered_and_not_taken_waits_again, a_full_queue_drops_a_message_that_the_next_turn_names_once, a_thread_is_continued_in_its_session_or_in_a_fork, a_queue_is_suspended_and_cancelled_by_any_process, of_a_long_queue_the_messages_of_a_running_turn_are_read_alone, the_layers_of_messages_are_stored_with_them;
            reading: a_run_in_no_session_has_its_turn_and_no_session, the_ancestry_goes_up_to_the_root_page_by_page, the_children_of_a_turn_are_all_turns_that_follow_it_in_any_session, a_session_is_read_as_of_any_time, a_search_finds_messages_newest_first_and_no_tool_results, usage_is_summed_by_each_key_and_an_unknown_price_is_not_0, the_calls_of_the_memory_are_in_the_usage_and_in_what_was_spent, sessions_and_tool_calls_are_listed_by_their_filters;
            recall: messages_before_the_first_retained_turn_are_found_newest_first, without_a_compaction_nothing_is_missing, a_session_that_begins_at_a_turn_has_that_turns_thread, another_sessions_thread_is_not_searched, partial_matches_are_ordered_by_the_number_of_matching_words;
            reservations: a_turn_begins_with_the_reservation_of_its_call_or_without_it, results_are_stored_with_the_reservation_of_the_next_call_or_without_it, what_a_killed_process_had_reserved_is_spent_at_its_maximum;
            transfer: a_closed_ledger_refuses_every_call_and_is_intact_for_the_next_process;
        }
    };
    ($fresh:path, $test:meta; $($about:ident: $($case:ident),+;)+) => {
        $(mod $about {
            $(#[$test]
            async fn $case() {
                $crate::cases::$about::$case($fresh()).await;
            })+
        })+
    };
}
