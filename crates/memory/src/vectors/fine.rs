//! Four bits of each number of a vector, with the size of a step: enough to order some thousand candidates. It must never allocate for a
//! row that it reads.

/// The middle of the levels 0 to 15.
const MIDDLE: f32 = 7.5;

/// The codes of many vectors.
#[derive(Debug, Clone)]
pub(super) struct FineCodes {
    /// The bytes of a row.
    width: usize,
    /// Two numbers in a byte.
    levels: Vec<u8>,
    steps: Vec<f32>,
}

impl FineCodes {
    pub(super) fn new(dimensions: usize) -> Self {
        Self { width: dimensions.div_ceil(2).max(1), levels: Vec::new(), steps: Vec::new() }
    }

    pub(super) fn push(&mut self, vector: &[f32]) {
        let largest = vector.iter().fold(0_f32, |largest, number| largest.max(number.abs()));
        let step = (largest / MIDDLE).max(f32::MIN_POSITIVE);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between 0 and 15"
        )]
        let level = |number: &f32| (number / step + MIDDLE).round().clamp(0.0, 15.0) as u8;
        let bytes = vector.chunks(2).map(|pair| match pair {
            [low, high] => level(low) | level(high) << 4,
            [low] => level(low),
            _ => 0,
        });
        self.levels.extend(bytes);
        self.steps.push(step);
    }

    /// Adds a row of others.
    pub(super) fn copy(&mut self, others: &Self, row: usize) {
        let levels = others.levels.get(row * self.width..(row + 1) * self.width);
        if let (Some(levels), Some(step)) = (levels, others.steps.get(row)) {
            self.levels.extend_from_slice(levels);
            self.steps.push(*step);
        }
    }

    /// The estimated product of a row with a query whose numbers have this sum.
    pub(super) fn estimate(&self, row: usize, query: &[f32], sum: f32) -> f32 {
        let levels = self.levels.get(row * self.width..(row + 1) * self.width);
        let (Some(levels), Some(step)) = (levels, self.steps.get(row)) else {
            return f32::NEG_INFINITY;
        };
        let mut sums = [0_f32; 8];
        let (bytes, numbers) = (levels.chunks_exact(4), query.chunks_exact(8));
        let mut rest = 0.0;
        for (byte, pair) in bytes.remainder().iter().zip(numbers.remainder().chunks(2)) {
            let low = pair.first().map_or(0.0, |number| f32::from(byte & 15) * number);
            let high = pair.get(1).map_or(0.0, |number| f32::from(byte >> 4) * number);
            rest += low + high;
        }
        for (bytes, numbers) in bytes.zip(numbers) {
            for ((sums, byte), pair) in
                sums.chunks_exact_mut(2).zip(bytes).zip(numbers.chunks_exact(2))
            {
                if let ([one, other], [low, high]) = (sums, pair) {
                    *one += f32::from(byte & 15) * low;
                    *other += f32::from(byte >> 4) * high;
                }
            }
        }
        step * (sums.iter().sum::<f32>() + rest - MIDDLE * sum)
    }
}

#[cfg(test)]
mod tests {
    use super::FineCodes;

    #[test]
    fn an_estimate_is_close_to_the_product_for_any_number_of_dimensions() {
        for dimensions in [1, 2, 7, 8, 9, 15, 384] {
            let number = |at: usize| f32::from(u8::try_from(at * 37 % 101).unwrap()) / 50.0 - 1.0;
            let vector: Vec<f32> = (0..dimensions).map(number).collect();
            let query: Vec<f32> = (0..dimensions).map(|at| number(at + 5)).collect();
            let mut codes = FineCodes::new(dimensions);
            codes.push(&query);
            codes.push(&vector);
            let exact: f32 = vector.iter().zip(&query).map(|(a, b)| a * b).sum();
            let sum = query.iter().sum();
            let error = (codes.estimate(1, &query, sum) - exact).abs();
            #[expect(clippy::cast_precision_loss, reason = "a number of dimensions")]
            let allowed = 0.08 * dimensions as f32;
            assert!(error < allowed, "{dimensions}: {error}");
            let mut copied = FineCodes::new(dimensions);
            copied.copy(&codes, 1);
            assert_eq!(copied.estimate(0, &query, sum), codes.estimate(1, &query, sum));
            assert_eq!(codes.estimate(2, &query, sum), f32::NEG_INFINITY);
        }
    }
}
