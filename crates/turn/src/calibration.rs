//! How a model's own count of tokens stands to our estimate, learnt from what its answers report (docs/rules/compaction.md#estimate).
//!
//! Pure arithmetic. It must never touch a number that a provider has reported.

/// A ratio in thousandths, and from how many answers it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ratio {
    per_mille: u32,
    samples: u32,
}

/// Whatever is reported, no estimate is wrong by more. Less is no count of the prompt (servers that report a constant), and
/// believing it would put a compaction off until the provider refuses.
const LEAST: u64 = 250;
const MOST: u64 = 4_000;
/// Fewer estimated tokens prove nothing: a frame around the prompt would be most of it.
const ENOUGH: u64 = 500;
/// The newest answer counts for a fifth at least.
const MEMORY: u64 = 5;

impl Ratio {
    /// Nothing is known: the estimate as it is.
    pub const UNKNOWN: Self = Self { per_mille: 1_000, samples: 0 };

    /// As it was stored; what cannot have been learnt is brought into bounds.
    pub fn stored(per_mille: u32, samples: u32) -> Self {
        Self { per_mille: bounded(u64::from(per_mille)), samples }
    }

    /// Thousandths: 1,000 is a ratio of one.
    pub fn per_mille(self) -> u32 {
        self.per_mille
    }

    /// How many calls of the model the ratio is from.
    pub fn samples(self) -> u32 {
        self.samples
    }

    /// Takes the prompt of an answered call into account: as it was reported, and as it was estimated without a ratio. False
    /// where it has none.
    pub fn learn(&mut self, reported: u64, estimated: u64) -> bool {
        if estimated < ENOUGH || reported < estimated / (1_000 / LEAST) {
            return false;
        }
        let sample = u64::from(bounded(reported.saturating_mul(1_000) / estimated));
        self.samples = self.samples.saturating_add(1);
        let weight = u64::from(self.samples).min(MEMORY);
        let sum = u64::from(self.per_mille) * (weight - 1) + sample;
        // The first one stands alone.
        self.per_mille = bounded((sum + weight / 2) / weight);
        true
    }

    /// What an estimate comes to by the model's count, rounded up.
    pub fn apply(self, estimated: u64) -> u64 {
        let tokens = (u128::from(estimated) * u128::from(self.per_mille)).div_ceil(1_000);
        u64::try_from(tokens).unwrap_or(u64::MAX)
    }

    /// What of our estimate fits so many tokens by the model's count, rounded down.
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
    fn one_answer_is_enough_and_a_small_one_changes_nothing() {
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
    fn newer_answers_count_for_more_and_none_for_all() {
        let mut ratio = Ratio::UNKNOWN;
        (0..10).for_each(|_| assert!(ratio.learn(1_000, 1_000)));
        ratio.learn(4_000_000, 1_000);
        assert_eq!(ratio.per_mille(), 1_600);
        (0..40).for_each(|_| assert!(ratio.learn(2_000, 1_000)));
        assert!((1_995..=2_000).contains(&ratio.per_mille()));
    }

    proptest! {
        /// Whatever is reported, the ratio stays in bounds, and between what it was and what was seen.
        #[test]
        fn a_ratio_moves_towards_what_is_seen_and_never_out_of_bounds(
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

        /// A larger estimate never becomes a smaller one.
        #[test]
        fn applying_is_monotone(per_mille in any::<u32>(), one in any::<u64>(), other in any::<u64>()) {
            let ratio = Ratio::stored(per_mille, 1);
            prop_assert!(ratio.apply(one.min(other)) <= ratio.apply(one.max(other)));
            prop_assert!(ratio.undo(one.min(other)) <= ratio.undo(one.max(other)));
        }

        /// Where the model counts `times` thousandths of ours, ten answers are enough to be within a tenth.
        #[test]
        fn the_ratio_is_found(times in 300u64..3_900, sizes in prop::collection::vec(1_000u64..1_000_000, 12)) {
            let mut ratio = Ratio::UNKNOWN;
            for size in sizes {
                ratio.learn(size * times / 1_000, size);
            }
            prop_assert!(u64::from(ratio.per_mille()).abs_diff(times) <= times / 10);
        }
    }
}
