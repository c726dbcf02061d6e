//! The rules of compaction as tables and properties; no model, no ledger, no time.

use proptest::prelude::*;

use super::*;
use crate::estimate;
use model::samples::{message, result_of};
use model::{Block, BlockOrigin, Message, Role};

fn result(text: &str, is_error: bool) -> Message {
    result_of("bash", "c", vec![Block::text(text)], is_error)
}

fn call(name: &str, arguments: &str) -> Block {
    Block::ToolCall {
        id: "c".to_owned(),
        name: name.to_owned(),
        arguments_json: arguments.to_owned(),
        incomplete: false,
        provider_data: None,
    }
}

fn size(tokens: u64) -> Size {
    Size { tokens, truncated: tokens }
}

const BUDGET: Budget = Budget { window: 200_000, reserve_response: 32_000, reserve_tools: 8_000 };

#[test]
fn the_limit_is_the_smaller_of_85_percent_and_what_is_available() {
    assert_eq!(BUDGET.available(), 160_000);
    assert_eq!(BUDGET.limit(), 160_000);
    assert_eq!(Budget { reserve_response: 4_000, ..BUDGET }.limit(), 170_000);
    assert_eq!(BUDGET.target(Trigger::ContextLimit), 96_000);
    assert_eq!(BUDGET.target(Trigger::Manual), 96_000);
    assert_eq!(BUDGET.target(Trigger::Overflow), 64_000);
    assert_eq!(Budget { window: 1, ..BUDGET }.available(), 0);
}

#[test]
fn the_guard_refuses_small_windows_and_warns_of_full_ones() {
    let guard = Guard::default();
    let judge = |window, estimate| guard.judge(Budget { window, ..BUDGET }, estimate);
    assert_eq!(judge(15_999, 0), GuardVerdict::WindowTooSmall);
    assert_eq!(judge(16_000, 0), GuardVerdict::SmallWindow);
    assert_eq!(judge(32_000, 25_600), GuardVerdict::Fine);
    assert_eq!(judge(32_000, 25_601), GuardVerdict::NearLimit);
    let strict = Guard { hard_limit: Some(100), min_available: 1_000, ..guard };
    assert_eq!(strict.judge(BUDGET, 101), GuardVerdict::OverLimit);
    assert_eq!(strict.judge(Budget { window: 50_000, ..BUDGET }, 49_001), GuardVerdict::OverLimit);
}

#[test]
fn turns_stay_up_to_the_target_and_at_least_three() {
    let turns = [size(100); 10];
    let cut_of = |target, limit| {
        let cut = cut(&turns, &[], 50, target, limit);
        cut.map(|cut| (10 - cut.turns, cut.truncate))
    };
    assert_eq!(cut_of(450, 1_000), Some((4, false)));
    assert_eq!(cut_of(100, 1_000), Some((3, false)), "over the target, but three fit the limit");
    assert_eq!(cut_of(100, 260), Some((2, false)), "three do not fit");
    assert_eq!(cut_of(100, 90), Some((0, false)));
    assert_eq!(cut_of(2_000, 2_000), None, "nothing to summarise");
}

#[test]
fn three_turns_stay_with_their_results_cut_before_fewer_stay() {
    let turns = [Size { tokens: 1_000, truncated: 100 }; 5];
    assert_eq!(cut(&turns, &[], 0, 500, 800), Some(Cut { turns: 2, groups: 0, truncate: true }));
}

#[test]
fn a_running_turn_that_is_too_large_loses_its_oldest_groups() {
    let groups = [size(400), size(400), size(100)];
    assert_eq!(
        cut(&[size(10); 4], &groups, 0, 550, 600),
        Some(Cut { turns: 4, groups: 1, truncate: true })
    );
    // The newest group stays, whatever its size.
    assert_eq!(
        cut(&[], &[size(5_000)], 0, 550, 600),
        Some(Cut { turns: 0, groups: 0, truncate: true })
    );
}

#[test]
fn a_group_is_an_assistant_message_with_what_follows_it() {
    let user = || message(Role::User, vec![Block::text("hi")]);
    let assistant = || message(Role::Assistant, vec![call("bash", "{}")]);
    let messages =
        [user(), assistant(), result("1", false), result("2", false), user(), assistant()];
    assert_eq!(groups(&messages), [1..5, 5..6]);
    assert_eq!(groups(&[user()]), Vec::<std::ops::Range<usize>>::new());
}

#[test]
fn the_summariser_reads_no_thinking_and_no_long_results() {
    let messages = [
        message(
            Role::User,
            vec![
                Block::text("look at this"),
                Block::Image { mime_type: "image/png".to_owned(), data: "AAAA".to_owned() },
            ],
        ),
        message(
            Role::Assistant,
            vec![
                Block::Thinking {
                    thinking: "secret thought".to_owned(),
                    signature: None,
                    provider_data: None,
                },
                Block::text("I look."),
                call("bash", r#"{"command":"ls"}"#),
            ],
        ),
        result(&"x".repeat(10_000), false),
        result("boom", true),
        message(Role::Assistant, vec![Block::text("  ")]),
    ];
    let texts: Vec<String> = parts(&messages).into_iter().map(|part| part.text).collect();
    assert_eq!(texts[0], "[User]: look at this\n[User]: [image]");
    assert_eq!(texts[1], "[Assistant]: I look.\n[Assistant calls bash]: {\"command\":\"ls\"}");
    assert!(texts[2].chars().count() < 2_100 && texts[2].contains("8000 characters left out"));
    assert_eq!(texts[3], "[Tool bash failed]: boom");
    assert_eq!(texts.len(), 4);
}

#[test]
fn a_message_over_half_the_window_becomes_a_note_of_its_size() {
    let part = |tokens| Part { text: "word ".repeat(1_000), tokens };
    let chunks = chunks(vec![part(100), part(600), part(100)], 1_000);
    let notes = chunks.iter().flatten().filter(|part| part.text.contains("about 600 tokens"));
    assert_eq!(notes.count(), 1);
}

#[test]
fn sections_count_only_with_a_line_of_their_own() {
    let whole = "## Goal\nx\n## Constraints & preferences\n(none)\n## Progress\n### Done\n- a\n## Key decisions\n- b\n\
                 ## Next steps\n- c\n## Critical context\n- d";
    let judged = |summary: &str| {
        judge(Judged {
            summary,
            input_tokens: 10_000,
            summarised: "",
            user_requests: "",
            sections: true,
        })
    };
    assert_eq!(judged(whole), []);
    assert_eq!(judged(&whole.replace("- b\n", "\n")), [Flaw::Section("Key decisions")]);
    assert_eq!(judged(&whole.replace("## Goal\nx\n", "")), [Flaw::Section("Goal")]);
    assert_eq!(judged(" \n"), [Flaw::Empty]);
}

#[test]
fn a_summary_must_be_smaller_and_name_the_identifiers_of_open_requests() {
    let flaws = judge(Judged {
        summary: "we looked at the build",
        input_tokens: 3,
        summarised: "the build src/main.rs failed with E0308 at 10.1.2.3",
        user_requests: "what about src/main.rs, and E0308? and also other/file.rs",
        sections: false,
    });
    assert_eq!(
        flaws,
        [
            Flaw::NotSmaller { summary: 6, input: 3 },
            Flaw::Identifier("E0308".to_owned()),
            Flaw::Identifier("src/main.rs".to_owned()),
        ]
    );
    assert!(flaws[0].is_fatal() && !flaws[1].is_fatal());
}

#[test]
fn failures_and_files_are_read_from_the_calls() {
    let mut messages = vec![message(
        Role::Assistant,
        vec![
            call("read", r#"{"path":"a.txt"}"#),
            call("read_file", r#"{"file_path":"a.txt"}"#),
            call("edit", r#"{"path":"b.txt","edits":[]}"#),
            call("write", "not json"),
        ],
    )];
    messages.extend((0..10).map(|n| result(&format!("broke {n}\n{}", "y".repeat(500)), true)));
    let sections = Facts::of(messages.iter()).sections();
    assert!(sections.contains("## Files read\n- a.txt\n\n## Files modified\n- b.txt"));
    assert_eq!(sections.matches("- bash: broke").count(), 8);
    assert!(sections.lines().all(|line| line.chars().count() <= 260));
    assert_eq!(Facts::of(std::iter::empty()).sections(), "");
}

#[test]
fn the_requests_contain_the_previous_summary_and_the_hosts_instructions() {
    let part = Part { text: "[User]: hi".to_owned(), tokens: 3 };
    let task = Task { previous: Some("old notes"), instructions: Some("names"), chunk: (2, 3) };
    let text = request(&[part], task);
    for piece in ["part 2 of 3", "old notes", "[User]: hi", "Mind this: names"] {
        assert!(text.contains(piece), "{piece}");
    }
    let again = retry_request(&text, &[Flaw::Section("Goal")]);
    assert!(again.starts_with(&text) && again.contains("`## Goal`"));
    assert!(merge_request(&["one".to_owned(), "two".to_owned()], None).contains("two"));
    assert!(instructions().contains("## Critical context"));
}

proptest! {
    #[test]
    fn a_cut_fits_where_any_cut_fits(
        turns in proptest::collection::vec((0_u64..5_000, 0_u64..=100), 0..20),
        groups in proptest::collection::vec((0_u64..5_000, 0_u64..=100), 0..6),
        fixed in 0_u64..2_000,
        target in 500_u64..10_000,
        over in 0_u64..5_000,
    ) {
        let size = |(tokens, percent): (u64, u64)| Size { tokens, truncated: tokens * percent / 100 };
        let turns: Vec<Size> = turns.into_iter().map(size).collect();
        let groups: Vec<Size> = groups.into_iter().map(size).collect();
        let limit = target + over;
        let total = fixed
            + turns.iter().map(|s| s.tokens).sum::<u64>()
            + groups.iter().map(|s| s.tokens).sum::<u64>();
        match cut(&turns, &groups, fixed, target, limit) {
            None => prop_assert!(total <= target.max(limit)),
            Some(cut) => {
                prop_assert!(cut.turns <= turns.len() && cut.groups <= groups.len());
                prop_assert!(cut.groups == 0 || cut.groups < groups.len());
                let pick = |s: &Size| if cut.truncate { s.truncated } else { s.tokens };
                let left = fixed
                    + turns[cut.turns..].iter().map(pick).sum::<u64>()
                    + groups[cut.groups..].iter().map(pick).sum::<u64>();
                let least = fixed + groups.last().map_or(0, |s| s.truncated);
                prop_assert!(left <= limit.max(target) || cut.turns == turns.len(), "{left} of {limit}");
                prop_assert!(left >= least || left <= limit);
            }
        }
    }

    #[test]
    fn chunks_contain_every_part_in_order_and_fit_the_summariser(
        sizes in proptest::collection::vec(1_u64..3_000, 0..60),
        window in 4_000_u64..100_000,
    ) {
        let all: Vec<Part> = sizes
            .iter()
            .enumerate()
            .map(|(n, tokens)| Part { text: format!("part {n}"), tokens: *tokens })
            .collect();
        let made = chunks(all.clone(), window);
        let flat: Vec<&Part> = made.iter().flatten().collect();
        prop_assert_eq!(flat.len(), all.len());
        for (part, original) in flat.iter().zip(&all) {
            prop_assert!(part.text.starts_with(&original.text));
        }
        for chunk in &made {
            prop_assert!(!chunk.is_empty());
            let tokens: u64 = chunk.iter().map(|part| part.tokens).sum();
            prop_assert!(tokens <= window / 2 || chunk.len() == 1);
        }
    }

    #[test]
    fn truncating_results_is_idempotent_and_never_longer(text in "\\PC{0,200}", times in 0_usize..60) {
        let long = result(&text.repeat(times), false);
        let once = truncate_results(&long);
        prop_assert_eq!(&truncate_results(&once), &once);
        prop_assert!(
            estimate::block_tokens(&once.blocks) <= estimate::block_tokens(&long.blocks) + 1
        );
    }
}

#[test]
fn a_text_that_the_host_put_into_a_message_is_cut_and_looks_like_no_message_of_the_user() {
    let event =
        Block::injected(BlockOrigin::Event, format!("<event>\n[User]: hi\n{}", "x".repeat(5_000)));
    let memory = Block::injected(BlockOrigin::Memory, "m");
    let asked = message(Role::User, vec![memory, event, Block::text("What?")]);
    let text = &parts(&[asked])[0].text;
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..3], ["[Memory]: m", "[Event]: <event>", "  [User]: hi"]);
    assert_eq!(lines.last(), Some(&"[User]: What?"));
    assert!(text.len() < 2_300, "{}", text.len());
}
