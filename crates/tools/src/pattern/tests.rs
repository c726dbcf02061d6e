//! Patterns: the engine of each, the same results as the reference engines, and the number of steps.

use proptest::prelude::*;

use super::{Pattern, compile};
use crate::meter::{Stopped, metered};

const PLENTY: u64 = 1 << 40;

fn found(pattern: &str, text: &str) -> Result<bool, Stopped> {
    let pattern = Pattern::compile(pattern).unwrap();
    metered(PLENTY, None, || pattern.is_match(text))
}

/// The result of the backtracking engine, also for a pattern of the linear one.
fn by_program(pattern: &str, text: &str, steps: u64) -> Result<bool, Stopped> {
    let tree = fancy_regex::Expr::parse_tree(pattern).unwrap();
    let program = compile::program(&tree.expr).unwrap();
    metered(steps, None, || program.is_match(text))
}

#[test]
fn the_linear_engine_runs_what_it_can() {
    for pattern in ["^(a+)+$", "\\p{L}{2,5}", "^[\\w.]+@x$", "(?:a|b)*?c", "\\bword\\b", "^.*$"] {
        assert!(Pattern::compile(pattern).unwrap().is_linear(), "{pattern}");
    }
    for pattern in ["(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(a)\\1", "(?<n>a)\\k<n>"] {
        assert!(!Pattern::compile(pattern).unwrap().is_linear(), "{pattern}");
    }
}

#[test]
fn look_around_and_back_references_match_as_in_javascript() {
    for (pattern, text, wanted) in [
        ("^(?=.*[A-Z])(?=.*\\d).{8,}$", "Password1", true),
        ("^(?=.*[A-Z])(?=.*\\d).{8,}$", "password1", false),
        ("^(?!.*\\.\\.)[a-z.]+$", "a.b.c", true),
        ("^(?!.*\\.\\.)[a-z.]+$", "a..b", false),
        ("(?<=\\$)\\d+", "cost: $42", true),
        ("(?<=\\$)\\d+", "cost: 42", false),
        ("(?<!a+)b", "aaab", false),
        ("(?<!a+)b", "aaacb", true),
        ("(?<=ab*)c", "xabbbc", true),
        ("(?<=ab*)c", "xbbbc", false),
        ("(?<=(?=ab).{2})c", "abc", true),
        ("(?<=(?!ab).{2})c", "abc", false),
        ("^(a|b)\\1$", "aa", true),
        ("^(a|b)\\1$", "ab", false),
        ("^(?<q>['\"]).*\\k<q>$", "'x'", true),
        ("^(?<q>['\"]).*\\k<q>$", "'x\"", false),
        ("^(?:(a)|b)*\\1$", "aba", true),
        ("^(?i:abc)(?=D)", "aBcD", true),
        ("^(a*)*(?=b)b", "aaab", true),
        ("^(?:a?)*?(?=b)", "aaab", true),
        ("^(?:(?=a)a)*$", "aaaa", true),
        ("^(?!$)", "", false),
        ("(?=ü)\\w", "ü", true),
        ("^(?=.)[^a]$", "😀", true),
    ] {
        assert_eq!(found(pattern, text), Ok(wanted), "{pattern} in {text}");
    }
}

#[test]
fn look_around_needs_steps_in_proportion_to_the_text() {
    // Quadratic, cubic and exponential on an engine without memory.
    for pattern in [
        "(?<!a+)b",
        "(?=a*)b",
        "(?<=a+)b",
        "(?=.*b)c",
        "(?=(a+)+$)b",
        "^(?=(a+)+$)a+b$",
        "^(?!(a*)*b)(a|a)*c$",
        "(?=(?=.*x).*y)z",
        "(?<=(?<=a*)a*)b",
        "^(?=(a|aa)+$).*b$",
        "(?!.*b)c",
    ] {
        for text in ["a".repeat(20_000), "ab".repeat(10_000)] {
            let steps = 60 * u64::try_from(text.len()).unwrap();
            assert!(by_program(pattern, &text, steps).is_ok(), "{pattern}");
        }
    }
}

#[test]
fn back_references_stop_when_the_steps_are_used_up() {
    let pattern = Pattern::compile("^(a*)(a*)(a*)(a*)\\1\\2\\3b$").unwrap();
    let text = "a".repeat(2_000);
    assert_eq!(metered(1_000_000, None, || pattern.is_match(&text)), Err(Stopped::Spent));
}

#[test]
fn a_large_pattern_over_a_long_text_is_stopped_too() {
    // Linear, but with thousands of states for each byte.
    let pattern = Pattern::compile("^[01]*1[01]{4000}$").unwrap();
    assert!(pattern.is_linear());
    let text = "01".repeat(50_000);
    assert_eq!(metered(1_000_000, None, || pattern.is_match(&text)), Err(Stopped::Spent));
}

#[test]
fn other_languages_and_oversized_repeats_are_refused() {
    for pattern in [
        "(?>a)",
        "a(?R)?",
        "(?~a)",
        "(",
        "[z-a]",
        "(a)\\2",
        "((((a{1,99}){1,99}){1,99}){1,99}){1,99}",
    ] {
        assert!(Pattern::compile(pattern).is_err(), "{pattern}");
    }
    let nested = "(?=a)((((a{1,99}){1,99}){1,99}){1,99}){1,99}";
    assert!(Pattern::compile(nested).is_err());
}

/// Patterns of a small alphabet, so that its texts match often.
fn any_pattern() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("a".to_owned()),
        Just("b".to_owned()),
        Just(".".to_owned()),
        Just("[ab]".to_owned()),
        Just("[^a]".to_owned()),
        Just("\\b".to_owned()),
        Just("^".to_owned()),
        Just("$".to_owned()),
        Just("(?:)".to_owned()),
    ];
    leaf.prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(?:{a}|{b})")),
            (inner.clone(), "[*+?]|\\{0,2\\}|\\{2\\}", "\\??")
                .prop_map(|(a, how, lazy)| format!("(?:{a}){how}{lazy}")),
            (inner, "=|!|<=|<!").prop_map(|(a, how)| format!("(?{how}{a})")),
        ]
    })
}

/// By the definition: every position at which a part of a pattern can end.
fn ends(expr: &fancy_regex::Expr, text: &[char], at: usize) -> std::collections::BTreeSet<usize> {
    use fancy_regex::{Assertion, Expr, LookAround};
    let one = |fits: &dyn Fn(char) -> bool| {
        text.get(at).filter(|c| fits(**c)).map(|_| at + 1).into_iter().collect()
    };
    let when = |holds: bool| holds.then_some(at).into_iter().collect();
    let is_word =
        |at: Option<usize>| at.and_then(|at| text.get(at)).is_some_and(|c| c.is_alphanumeric());
    match expr {
        Expr::Empty => when(true),
        Expr::Any { .. } => one(&|c| c != '\n'),
        Expr::Literal { val, .. } => {
            let val: Vec<char> = val.chars().collect();
            text[at..].starts_with(&val).then_some(at + val.len()).into_iter().collect()
        }
        Expr::Delegate { inner, .. } if inner == "[ab]" => one(&|c| c == 'a' || c == 'b'),
        Expr::Delegate { inner, .. } if inner == "[^a]" => one(&|c| c != 'a'),
        Expr::Assertion(Assertion::StartText) => when(at == 0),
        Expr::Assertion(Assertion::EndText) => when(at == text.len()),
        Expr::Assertion(Assertion::WordBoundary) => {
            when(is_word(at.checked_sub(1)) != is_word(Some(at)))
        }
        Expr::Concat(parts) => parts.iter().fold([at].into(), |from, part| {
            from.into_iter().flat_map(|at| ends(part, text, at)).collect()
        }),
        Expr::Alt(ways) => ways.iter().flat_map(|way| ends(way, text, at)).collect(),
        Expr::Group(inner) => ends(inner, text, at),
        Expr::LookAround(inner, how) => when(match how {
            LookAround::LookAhead => !ends(inner, text, at).is_empty(),
            LookAround::LookAheadNeg => ends(inner, text, at).is_empty(),
            LookAround::LookBehind => (0..=at).any(|from| ends(inner, text, from).contains(&at)),
            LookAround::LookBehindNeg => {
                !(0..=at).any(|from| ends(inner, text, from).contains(&at))
            }
        }),
        Expr::Repeat { child, lo, hi, .. } => {
            let mut from: std::collections::BTreeSet<usize> = [at].into();
            let mut all = if *lo == 0 { from.clone() } else { [].into() };
            for turn in 1..=(*hi).min(lo + text.len() + 1) {
                from = from.into_iter().flat_map(|at| ends(child, text, at)).collect();
                if turn >= *lo {
                    all.extend(&from);
                }
            }
            all
        }
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn the_backtracking_engine_agrees_with_the_definition_also_without_memory(
        pattern in any_pattern(), text in "[abc]{0,7}",
    ) {
        let translated = jsonschema_regex::to_rust_regex(&pattern).unwrap();
        let Ok(tree) = fancy_regex::Expr::parse_tree(&translated) else { return Ok(()) };
        let chars: Vec<char> = text.chars().collect();
        let wanted = (0..=chars.len()).any(|at| !ends(&tree.expr, &chars, at).is_empty());
        let mut program = compile::program(&tree.expr).unwrap();
        prop_assert_eq!(metered(PLENTY, None, || program.is_match(&text)), Ok(wanted));
        if let Ok(linear) = regex::Regex::new(&translated) {
            prop_assert_eq!(linear.is_match(&text), wanted);
        }
        // A pattern with back-references has no memory of tried choices.
        program.refers_back = true;
        let slow = metered(1_000_000, None, || program.is_match(&text));
        prop_assert!(slow == Ok(wanted) || slow == Err(Stopped::Spent));
    }
}

#[test]
fn a_lazily_built_automaton_agrees_or_gives_up() {
    let words = "word, ".repeat(20_000);
    let mixed = "ab".repeat(30_000) + "é";
    for source in
        [r"^[\w\s.,]*$", "^(word, )+$", "x$", "(a|b)*a(a|b){14}$", r"\bword\b", "^[^é]*$", "é$"]
    {
        let translated = jsonschema_regex::to_rust_regex(source).unwrap().into_owned();
        let linear = regex::Regex::new(&translated).unwrap();
        let lazy = super::lazy::Lazy::new(translated, 1);
        for text in [&words, &mixed] {
            if let Some(found) = lazy.is_match(text) {
                assert_eq!(found, linear.is_match(text), "{source}");
            }
        }
    }
}

#[test]
fn a_long_text_costs_one_step_for_many_bytes() {
    let pattern = Pattern::compile(r"^[\w\s.,]*$").unwrap();
    let text = "word, ".repeat(600_000);
    assert_eq!(metered(1_000_000, None, || assert!(pattern.is_match(&text))), Ok(()));
}
