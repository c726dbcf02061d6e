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
            commit: a_stale_head_writes_nothing, a_second_commit_of_a_turn_doubles_nothing, a_commit_that_fails_at_its_last_row_leaves_nothing, an_unknown_parent_is_refused_by_name, a_compaction_becomes_the_head_even_when_its_run_failed, a_fork_is_one_session_and_inherits_its_persona, a_broker_commits_after_the_head_it_names_or_the_one_there_is;
            history: history_is_the_chain_of_parents_oldest_first, history_after_a_known_head_is_only_what_is_new, after_a_compaction_come_the_summary_the_kept_turns_and_the_new_ones, what_a_turn_said_before_its_own_compaction_is_told_apart_by_the_ids_of_its_answers, messages_are_read_by_session_or_by_turn;
            journal: a_failed_first_turn_shows_its_session_without_a_turn, a_head_that_a_host_moved_meanwhile_leaves_the_turn_beside, an_interrupted_turn_whose_session_went_on_says_so, what_is_open_and_runs_nowhere_is_interrupted_and_can_be_taken_over;
            naming: an_alias_stands_for_its_session_wherever_a_label_is_taken, aliases_make_no_cycle_no_long_chain_and_hide_no_session_in_use, an_archived_session_gives_way_to_an_alias_and_a_turn_brings_one_back, a_persona_has_one_main_session_which_has_that_persona, a_fork_at_a_tool_call_says_the_same_up_to_its_result_and_leaves_the_turn_alone;
            reading: the_ancestry_goes_up_to_the_root_page_by_page, the_children_of_a_turn_are_all_that_follow_it_in_whatever_session, a_session_is_seen_as_it_was_at_any_time, a_search_finds_what_was_said_newest_first_and_no_tool_results, usage_is_added_up_by_each_key_and_a_price_that_is_unknown_is_no_0, sessions_and_tool_calls_are_listed_by_what_is_asked_of_them;
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
