//! What every backend of the ledger must do, as tests through the ports of `model` only.
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
    reason = "a library of tests: what is missing here should stop them"
)]

pub mod cases;
pub mod live_run;
pub mod oracle;
pub mod store;
pub mod turns;

/// A test for each case: `cases!(crate::tests::fresh, tokio::test)`. The path is a function that makes a
/// [`store::Fixture`] of a fresh store; the attribute runs a future to its end.
#[macro_export]
macro_rules! cases {
    ($fresh:path, $test:meta) => {
        $crate::cases! {
            $fresh, $test;
            cache: a_chain_is_read_back_as_it_grew_shrank_and_was_replaced, a_turn_that_moves_no_pointer_leaves_the_chain;
            commands: a_command_of_any_process_reaches_the_run_once_and_is_answered, a_run_that_takes_no_message_refuses_it_from_any_process, a_command_reaches_no_run_that_has_ended_and_none_of_another_session, a_command_to_a_run_whose_process_is_gone_is_refused;
            commit: a_stale_head_writes_nothing, a_second_commit_of_a_turn_doubles_nothing, a_commit_that_fails_at_its_last_row_leaves_nothing, an_unknown_parent_is_refused_by_name, a_compaction_becomes_the_head_even_when_its_run_failed, a_fork_is_one_session_and_inherits_its_persona, a_broker_commits_after_the_head_it_names_or_the_one_there_is;
            events: what_a_follower_has_seen_is_a_prefix_of_what_a_later_one_gets_after_a_kill, a_resumed_turn_goes_on_behind_the_events_that_were_seen, an_end_that_is_refused_is_no_event, a_session_is_watched_from_run_to_run_without_a_gap, a_run_without_events_is_refused_by_what_is_known_of_it;
            history: history_is_the_chain_of_parents_oldest_first, history_after_a_known_head_is_only_what_is_new, after_a_compaction_come_the_summary_the_kept_turns_and_the_new_ones, answers_from_before_the_compaction_of_their_own_turn_are_known_by_their_ids, messages_are_read_by_session_or_by_turn;
            journal: a_failed_first_turn_shows_its_session_without_a_turn, a_head_that_a_host_moved_meanwhile_leaves_the_turn_beside, an_interrupted_turn_is_marked_where_its_session_has_moved_on, what_is_open_and_runs_nowhere_is_interrupted_and_can_be_taken_over;
            leases: a_lease_is_taken_over_when_its_time_is_up_and_its_process_writes_nothing_more, a_lease_whose_time_is_up_is_its_owners_until_it_is_taken_over, a_write_in_the_second_half_of_a_lease_renews_it, a_lease_that_was_given_back_is_free_for_every_process_at_once;
            naming: an_alias_names_its_session_wherever_a_label_is_accepted, aliases_make_no_cycle_no_long_chain_and_hide_no_session_in_use, an_archived_session_gives_way_to_an_alias_and_a_turn_brings_one_back, a_persona_has_one_main_session_which_has_that_persona, a_fork_at_a_tool_call_has_the_same_messages_up_to_its_result_and_leaves_the_turn_alone;
            profiles: the_state_of_a_profile_is_there_for_every_process_and_the_next, changes_of_a_profile_in_two_processes_are_all_counted, a_submitted_change_takes_effect_without_being_awaited, a_use_is_written_with_what_comes_next_and_never_goes_back, a_token_ratio_replaces_the_one_before_of_its_model_in_every_process;
            reading: the_ancestry_goes_up_to_the_root_page_by_page, the_children_of_a_turn_are_all_that_follow_it_in_whatever_session, a_session_is_seen_as_it_was_at_any_time, a_search_finds_messages_newest_first_and_no_tool_results, usage_is_added_up_by_each_key_and_a_price_that_is_unknown_is_no_0, sessions_and_tool_calls_are_listed_by_their_filters;
            recall: what_precedes_the_first_kept_turn_is_found_newest_first, without_a_compaction_nothing_is_missing, a_session_that_begins_at_a_turn_has_that_turns_thread, another_sessions_thread_is_not_searched, words_apart_come_by_how_many_of_them_a_message_holds;
            transfer: what_is_closed_refuses_everything_and_is_there_for_the_next_process;
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
