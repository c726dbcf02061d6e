//! Checks whether the reported usage of a call is plausible, and replaces it by an estimate where it is not.
//!
//! Servers report placeholders: zeros, or a constant 1, and a cut stream has only the figures of its beginning. Prompt and
//! answer are checked separately, so that a plausible part stays. Pure arithmetic: it must never raise a report above the
//! estimates that it receives.

use model::ReportedUsage;

/// Smaller estimates are not compared: a single word more or less is a quarter of them, and the server's template around a
/// prompt differs between servers.
const ENOUGH_OF_A_PROMPT: u64 = 100;
const ENOUGH_OF_AN_ANSWER: u64 = 32;

/// The estimate of one side of a call, prompt or answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Estimated {
    /// All of it.
    pub tokens: u64,
    /// The part that all servers count similarly: text, without images and opaque blocks.
    pub text: u64,
}

/// How a call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The answer is whole, so its usage is final.
    Whole,
    /// The answer was cut: the last report may be older than the last token.
    Cut,
}

/// The usage that counts for a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Judged {
    /// The usage, estimated where the report is a placeholder.
    pub usage: ReportedUsage,
    /// Whether a part of it is an estimate.
    pub estimated: bool,
}

/// The usage of a call with the report `reported` and the answer `answer`. A call that was cut before any content, without
/// a report, has no known usage.
pub fn judge(
    reported: Option<ReportedUsage>,
    prompt: Estimated,
    answer: Estimated,
    ended: Ended,
) -> Judged {
    if ended == Ended::Cut && reported.is_none() && answer.tokens == 0 {
        return Judged::default();
    }
    let mut usage = reported.unwrap_or_default();
    let cached = usage.cached.saturating_add(usage.cache_write);
    let reported = usage.input.saturating_add(cached);
    let mut estimated = false;
    if is_placeholder(reported, prompt, ENOUGH_OF_A_PROMPT) {
        usage.input = prompt.tokens.saturating_sub(cached);
        estimated = true;
    }
    // A stream reports 1 at its beginning, and the count at its end.
    let announced = ended == Ended::Cut && usage.output <= 1 && answer.tokens > usage.output;
    if announced || is_placeholder(usage.output, answer, ENOUGH_OF_AN_ANSWER) {
        usage.output = answer.tokens;
        estimated = true;
    }
    Judged { usage, estimated }
}

/// A report of zero for a non-empty side, or of less than a quarter of its text.
fn is_placeholder(reported: u64, estimate: Estimated, enough: u64) -> bool {
    if reported == 0 {
        return estimate.tokens > 0;
    }
    estimate.text >= enough && reported.saturating_mul(4) < estimate.text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(tokens: u64) -> Estimated {
        Estimated { tokens, text: tokens }
    }

    fn reported(input: u64, output: u64) -> ReportedUsage {
        ReportedUsage { input, output, ..ReportedUsage::default() }
    }

    fn parts(judged: Judged) -> (u64, u64, bool) {
        (judged.usage.input, judged.usage.output, judged.estimated)
    }

    #[test]
    fn placeholders_are_replaced_on_each_side_and_plausible_reports_stay() {
        let whole =
            |given, prompt, answer| parts(judge(given, text(prompt), text(answer), Ended::Whole));
        assert_eq!(whole(None, 400, 40), (400, 40, true));
        assert_eq!(whole(Some(reported(0, 0)), 400, 40), (400, 40, true));
        assert_eq!(whole(Some(reported(1, 1)), 400, 40), (400, 40, true));
        assert_eq!(whole(Some(reported(99, 40)), 400, 40), (400, 40, true));
        assert_eq!(whole(Some(reported(100, 10)), 400, 40), (100, 10, false));
        assert_eq!(whole(Some(reported(100, 9)), 400, 40), (100, 40, true));
        // Hidden reasoning, or another tokenizer: a higher report is always plausible.
        assert_eq!(whole(Some(reported(4_000, 9_000)), 400, 40), (4_000, 9_000, false));
    }

    #[test]
    fn a_tiny_answer_may_be_reported_as_one_token_but_not_as_zero() {
        let tiny = |output, answer| {
            parts(judge(Some(reported(100, output)), text(100), text(answer), Ended::Whole))
        };
        assert_eq!(tiny(1, 3), (100, 1, false));
        assert_eq!(tiny(1, 31), (100, 1, false));
        assert_eq!(tiny(1, 32), (100, 32, true));
        assert_eq!(tiny(0, 1), (100, 1, true));
        assert_eq!(tiny(0, 0), (100, 0, false));
    }

    #[test]
    fn a_cut_stream_retains_its_prompt_count_and_loses_the_announced_output() {
        let cut = |given, answer| parts(judge(given, text(400), text(answer), Ended::Cut));
        assert_eq!(cut(Some(reported(380, 1)), 3), (380, 3, true));
        assert_eq!(cut(Some(reported(380, 0)), 3), (380, 3, true));
        assert_eq!(cut(Some(reported(380, 1)), 1), (380, 1, false));
        assert_eq!(cut(Some(reported(380, 3)), 11), (380, 3, false));
        assert_eq!(cut(Some(reported(380, 9)), 40), (380, 40, true));
        assert_eq!(cut(Some(reported(380, 1)), 0), (380, 1, false));
        assert_eq!(cut(None, 3), (400, 3, true));
        assert_eq!(cut(None, 0), (0, 0, false));
    }

    #[test]
    fn cached_tokens_are_a_part_of_the_prompt_and_images_are_not_compared() {
        let cached = ReportedUsage { input: 2, output: 5, cached: 390, ..Default::default() };
        let judged = judge(Some(cached), text(400), text(5), Ended::Whole);
        assert_eq!(judged, Judged { usage: cached, estimated: false });
        let image = Estimated { tokens: 1_210, text: 10 };
        let judged = judge(Some(reported(95, 5)), image, text(5), Ended::Whole);
        assert_eq!(parts(judged), (95, 5, false));
        let judged = judge(Some(reported(0, 5)), image, text(5), Ended::Whole);
        assert_eq!(parts(judged), (1_210, 5, true));
    }

    proptest! {
        /// No side counts more than the larger of report and estimate, and a marked usage differs from the report.
        #[test]
        fn a_side_is_the_report_or_the_estimate(
            input in 0u64..10_000, output in 0u64..10_000, prompt in 0u64..10_000, answer in 0u64..10_000,
            cut in any::<bool>(),
        ) {
            let given = reported(input, output);
            let ended = if cut { Ended::Cut } else { Ended::Whole };
            let Judged { usage, estimated } = judge(Some(given), text(prompt), text(answer), ended);
            prop_assert!(usage.input == input || usage.input == prompt);
            prop_assert!(usage.output == output || usage.output == answer);
            prop_assert!(usage.input >= input && usage.output >= output);
            prop_assert_eq!(estimated, usage != given);
        }
    }
}
