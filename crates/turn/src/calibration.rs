//! The ratio of a model's token count to the engine's estimate, learned from reported usage (docs/rules/compaction.md#estimate).
//!
//! Pure arithmetic. It must never change a number that a provider has reported.

/// A ratio in thousandths, and the number of answers it is learned from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    per_mille: u32,
    samples: u32,
}

/// The bounds of the ratio. A lower report is no count of the prompt (some servers report a constant), and would delay a
/// compaction until the provider refuses.
const LEAST: u64 = 250;
const MOST: u64 = 4_000;
/// Smaller prompts are ignored: the server's template around the prompt would be most of it.
const ENOUGH: u64 = 500;
/// The weight of the newest answer is at least a fifth.
const MEMORY: u64 = 5;

impl Ratio {
    /// The initial ratio of one.
    pub const UNKNOWN: Self = Self { per_mille: 1_000, samples: 0 };

    /// A stored ratio, clamped to the bounds.
    pub fn stored(per_mille: u32, samples: u32) -> Self {
        Self { per_mille: bounded(u64::from(per_mille)), samples }
    }

    /// Thousandths: 1,000 is a ratio of one.
    pub fn per_mille(self) -> u32 {
        self.per_mille
    }

    /// The number of calls that the ratio is learned from.
    pub fn samples(self) -> u32 {
        self.samples
    }

    /// Learns from the prompt of an answered call: its reported tokens, and its estimate without a ratio. False where the call
    /// has no usable count.
    pub fn learn(&mut self, reported: u64, estimated: u64) -> bool {
        if estimated < ENOUGH || reported < estimated / (1_000 / LEAST) {
            return false;
        }
        let sample = u64::from(bounded(reported.saturating_mul(1_000) / estimated));
        self.samples = self.samples.saturating_add(1);
        let weight = u64::from(self.samples).min(MEMORY);
        let sum = u64::from(self.per_mille) * (weight - 1) + sample;
        // The first report is the ratio.
        self.per_mille = bounded((sum + weight / 2) / weight);
        true
    }

    /// An estimate converted to the model's count, rounded up.
    pub fn apply(self, estimated: u64) -> u64 {
        let tokens = (u128::from(estimated) * u128::from(self.per_mille)).div_ceil(1_000);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }

    /// Tokens of the model's count converted to an estimate, rounded down.
    pub fn undo(self, tokens: u64) -> u64 {
        let estimated = u128::from(tokens) * 1_000 / u128::from(self.per_mille.max(1));
        u64::try_from(estimated).unwrap_or(u64::MAX)
    }
}

impl Default for Ratio {
    fn default() -> Self {
        Self::UNKNOWN
    }
}

fn bounded(per_mille: u64) -> u32 {
    u32::try_from(per_mille.clamp(LEAST, MOST)).unwrap_or(1_000)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_answer_is_enough_and_a_small_prompt_changes_nothing() {
        let mut ratio = Ratio::UNKNOWN;
        assert!(!ratio.learn(2_000, ENOUGH - 1));
        assert!(!ratio.learn(0, 10_000));
        assert!(!ratio.learn(12, 10_000));
        assert!(!ratio.learn(2_499, 10_000));
        assert_eq!((ratio, ratio.apply(777)), (Ratio::UNKNOWN, 777));
        assert!(ratio.learn(20_000, 10_000));
        assert_eq!((ratio.per_mille(), ratio.samples()), (2_000, 1));
        assert_eq!((ratio.apply(1_500), ratio.undo(3_000)), (3_000, 1_500));
    }

    #[test]
    fn newer_answers_have_more_weight_but_never_all() {
        let mut ratio = Ratio::UNKNOWN;
        (0..10).for_each(|_| assert!(ratio.learn(1_000, 1_000)));
        ratio.learn(4_000_000, 1_000);
        assert_eq!(ratio.per_mille(), 1_600);
        (0..40).for_each(|_| assert!(ratio.learn(2_000, 1_000)));
        assert!((1_995..=2_000).contains(&ratio.per_mille()));
    }

    proptest! {
        /// For any report, the ratio stays in bounds, and between its previous value and the reported one.
        #[test]
        fn a_ratio_moves_towards_the_reported_one_and_never_out_of_bounds(
            samples in prop::collection::vec((any::<u64>(), any::<u64>()), 0..50),
            tokens in any::<u64>(),
        ) {
            let mut ratio = Ratio::UNKNOWN;
            for (reported, estimated) in samples {
                let before = u64::from(ratio.per_mille());
                let learnt = ratio.learn(reported, estimated);
                let after = u64::from(ratio.per_mille());
                prop_assert!((LEAST..=MOST).contains(&after));
                if learnt {
                    let seen = u64::from(bounded(reported.saturating_mul(1_000) / estimated));
                    prop_assert!(after >= before.min(seen) && after <= before.max(seen));
                } else {
                    prop_assert_eq!(before, after);
                }
            }
            let applied = ratio.apply(tokens);
            prop_assert!(ratio.undo(applied) >= tokens.min(ratio.undo(u64::MAX)));
            prop_assert!(ratio.apply(ratio.undo(tokens)) <= tokens || tokens == 0);
        }

        /// A larger estimate never becomes a smaller count.
        #[test]
        fn applying_is_monotone(per_mille in any::<u32>(), one in any::<u64>(), other in any::<u64>()) {
            let ratio = Ratio::stored(per_mille, 1);
            prop_assert!(ratio.apply(one.min(other)) <= ratio.apply(one.max(other)));
            prop_assert!(ratio.undo(one.min(other)) <= ratio.undo(one.max(other)));
        }

        /// If the model counts `times` thousandths of the estimate, ten answers bring the ratio within a tenth.
        #[test]
        fn ten_answers_find_the_ratio(times in 300u64..3_900, sizes in prop::collection::vec(1_000u64..1_000_000, 12)) {
            let mut ratio = Ratio::UNKNOWN;
            for size in sizes {
                ratio.learn(size * times / 1_000, size);
            }
            prop_assert!(u64::from(ratio.per_mille()).abs_diff(times) <= times / 10);
        }
    }
}
