//! The decision over random conversations, and the text of a pruned result.

use proptest::prelude::*;

use super::*;
use model::samples::{message, result_of};

const SHARES: Shares = Shares { trim: 30, clear: 50 };

fn result(id: usize, content: Vec<Block>) -> Message {
    result_of("t", &format!("call_{id}"), content, false)
}

/// A question, then rounds of a call and its result, and an answer.
fn conversation(results: &[(usize, char, bool)]) -> Vec<Message> {
    let mut all = vec![message(Role::User, vec![Block::text("question")])];
    for (at, (chars, letter, image)) in results.iter().enumerate() {
        all.push(message(
            Role::Assistant,
            vec![Block::ToolCall {
                id: format!("call_{at}"),
                name: "t".to_owned(),
                arguments_json: "{}".to_owned(),
                incomplete: false,
                provider_data: None,
            }],
        ));
        let mut content = vec![Block::text(letter.to_string().repeat(*chars))];
        if *image {
            content.push(Block::Image { mime_type: "image/png".to_owned(), data: "AA".to_owned() });
        }
        all.push(result(at, content));
    }
    all.push(message(Role::Assistant, vec![Block::text("answer")]));
    all
}

fn pruned(messages: &[Message], plan: &Pruned) -> Vec<Message> {
    messages
        .iter()
        .enumerate()
        .map(|(at, it)| plan.get(&at).map_or_else(|| it.clone(), |level| apply(it, *level)))
        .collect()
}

fn tokens(messages: &[Message]) -> u64 {
    messages.iter().map(|it| estimate::block_tokens(&it.blocks)).sum()
}

fn texts(message: &Message) -> Vec<&str> {
    let content = message.blocks.iter().flat_map(|block| match block {
        Block::ToolResult { content, .. } => content.as_slice(),
        _ => &[],
    });
    content.filter_map(Block::as_text).collect()
}

proptest! {
    #[test]
    fn only_old_results_are_pruned_each_stays_with_its_call_and_the_total_decreases(
        results in prop::collection::vec(
            (0..9_000usize, prop::sample::select(vec!['a', 'é', '語', '🎈']), any::<bool>()),
            0..14,
        ),
        overhead in 0..4_000u64,
        window in 2_000..80_000u64,
    ) {
        let whole = conversation(&results);
        let plan = decide(&whole, overhead, window, SHARES);
        prop_assert_eq!(&plan, &decide(&whole, overhead, window, SHARES));
        let shown = pruned(&whole, &plan);
        let answers: Vec<usize> = whole.iter().enumerate()
            .filter(|(_, it)| it.role == Role::Assistant).map(|(at, _)| at).collect();
        let end = answers.len().checked_sub(3).and_then(|at| answers.get(at)).copied().unwrap_or(0);
        let sum = overhead + tokens(&whole);
        prop_assert!(sum > window * 30 / 100 || plan.is_empty());
        for (at, (before, after)) in whole.iter().zip(&shown).enumerate() {
            if at >= end || before.role != Role::Tool {
                prop_assert!(!plan.contains_key(&at));
                prop_assert_eq!(before, after);
                continue;
            }
            let ([Block::ToolResult { tool_call_id: a, .. }], [Block::ToolResult { tool_call_id: b, content, .. }]) =
                (before.blocks.as_slice(), after.blocks.as_slice()) else { panic!("no pair") };
            prop_assert_eq!(a, b);
            prop_assert!(!content.is_empty());
            // A character cut in half would have become another one.
            let letter = texts(before).concat().chars().next();
            if plan.get(&at) == Some(&Level::Trimmed) {
                let text = texts(after).concat();
                let left = text.chars().filter(|c| Some(*c) == letter && !c.is_ascii()).count();
                prop_assert!(letter.is_some_and(|c| c.is_ascii()) || left == 3_000, "{}", left);
            }
        }
        prop_assert!(tokens(&shown) <= tokens(&whole));
        // Cleared only as far as needed, oldest first.
        let clears: Vec<usize> =
            plan.iter().filter(|(_, level)| **level == Level::Cleared).map(|(at, _)| *at).collect();
        if let Some((last, rest)) = clears.split_last() {
            let mut one_less = plan.clone();
            one_less.remove(last);
            if apply(&whole[*last], Level::Trimmed) != whole[*last] {
                one_less.insert(*last, Level::Trimmed);
            }
            prop_assert!(overhead + tokens(&pruned(&whole, &one_less)) > window / 2);
            // A result before a cleared one is cleared too, unless that would not make it smaller.
            let small = |it: &Message| tokens(std::slice::from_ref(it)) <= tokens(&[apply(it, Level::Cleared)]);
            for at in rest.iter().chain([last]) {
                let left = whole.iter().enumerate().take(*at).filter(|(earlier, it)| {
                    it.role == Role::Tool && plan.get(earlier) != Some(&Level::Cleared) && !small(it)
                });
                prop_assert_eq!(left.count(), 0);
            }
        }
    }
}

#[test]
fn a_result_of_4000_characters_stays_and_a_longer_one_is_cut_to_its_ends_with_its_images() {
    let image = Block::Image { mime_type: "image/png".to_owned(), data: "AA".to_owned() };
    let whole = result(0, vec![Block::text("x".repeat(4_000)), image.clone()]);
    assert_eq!(apply(&whole, Level::Trimmed), whole);
    let parts = vec![Block::text("ä".repeat(2_000)), image.clone(), Block::text("ö".repeat(2_000))];
    let shown = format!(
        "{}\n[… 1001 characters of this earlier result are left out …]\n{}",
        "ä".repeat(1_500),
        "ö".repeat(1_500)
    );
    assert_eq!(
        apply(&result(0, parts), Level::Trimmed),
        result(0, vec![Block::text(shown), image])
    );
    let cleared = result(0, vec![Block::text(CLEARED)]);
    assert_eq!(apply(&whole, Level::Cleared), cleared);
    assert_eq!(apply(&cleared, Level::Cleared), cleared);
}
