//! Counts the steps of a patch, and ends it beyond a limit that is proportional to its size and that of its files. It must never
//! read a clock: the same patch is always refused, or never.

/// The steps allowed for each byte of the patch and of a file. An index of a file takes a step for each byte; there are five, by
/// leniency, and a search takes fewer than the bytes that it searches.
const STEPS_PER_BYTE: u64 = 32;
const STEPS_FOR_ANY: u64 = 1_000_000;

/// The limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exhausted;

/// A step is a byte that is read or a line that is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Work {
    steps: u64,
    limit: u64,
}

impl Work {
    pub(super) fn new(patch_bytes: usize) -> Self {
        let mut work = Self { steps: 0, limit: STEPS_FOR_ANY };
        work.allow(patch_bytes);
        work
    }

    /// Adds the steps for a text that is part of the input.
    pub(super) fn allow(&mut self, bytes: usize) {
        self.limit = self.limit.saturating_add(STEPS_PER_BYTE.saturating_mul(wide(bytes)));
    }

    pub(super) fn charge(&mut self, steps: usize) -> Result<(), Exhausted> {
        let after = self.steps.saturating_add(wide(steps));
        if after > self.limit {
            return Err(Exhausted);
        }
        self.steps = after;
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn steps(&self) -> u64 {
        self.steps
    }
}

fn wide(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
