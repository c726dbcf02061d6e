//! Four bits of each number of a vector, with the size of a step: enough to order some thousand candidates. It must never allocate for a
//! row that it reads.

use wide::{i16x8, i32x4, u8x16};

use super::best::Best;

/// The middle of the levels 0 to 15.
const MIDDLE: f32 = 7.5;
/// The largest level of a number of the query: the sum over 4,000 dimensions fits into 32 bits.
const MOST: f32 = 16_000.0;

/// The codes of many vectors.
#[derive(Debug, Clone)]
pub(super) struct FineCodes {
    /// The bytes of a row: half of the dimensions.
    width: usize,
    /// A number of the first half in the low bits, one of the second half in the high bits.
    levels: Vec<u8>,
    steps: Vec<f32>,
}

/// A query, ready to be compared with rows.
pub(super) struct FineQuery {
    /// The levels of the first half and of the second half.
    halves: [Vec<i16>; 2],
    step: f32,
    sum: f32,
}

impl FineQuery {
    /// Reads a rotated query.
    pub(super) fn new(query: &[f32]) -> Self {
        let step = (largest(query) / MOST).max(f32::MIN_POSITIVE);
        #[expect(clippy::cast_possible_truncation, reason = "it is between -16,000 and 16,000")]
        let level = |number: &f32| (number / step).round().clamp(-MOST, MOST) as i16;
        let (first, second) = query.split_at(query.len().div_ceil(2));
        let mut halves = [first, second].map(|half| half.iter().map(level).collect::<Vec<i16>>());
        // As long as the first half, as the bytes of a row are.
        let [first, second] = &mut halves;
        second.resize(first.len(), 0);
        Self { halves, step, sum: query.iter().sum() }
    }
}

fn largest(vector: &[f32]) -> f32 {
    vector.iter().fold(0_f32, |largest, number| largest.max(number.abs()))
}

impl FineCodes {
    pub(super) fn new(dimensions: usize) -> Self {
        Self { width: dimensions.div_ceil(2).max(1), levels: Vec::new(), steps: Vec::new() }
    }

    pub(super) fn push(&mut self, vector: &[f32]) {
        let step = (largest(vector) / MIDDLE).max(f32::MIN_POSITIVE);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between 0 and 15"
        )]
        let level = |number: &f32| (number / step + MIDDLE).round().clamp(0.0, 15.0) as u8;
        let (first, second) = vector.split_at(vector.len().div_ceil(2));
        let second = second.iter().map(level).chain(std::iter::repeat(0));
        self.levels.extend(first.iter().zip(second).map(|(low, high)| level(low) | high << 4));
        self.steps.push(step);
    }

    /// Adds a row of others.
    pub(super) fn copy(&mut self, others: &Self, row: usize) {
        if let (Some(levels), Some(step)) = (others.row(row), others.steps.get(row)) {
            self.levels.extend_from_slice(levels);
            self.steps.push(*step);
        }
    }

    fn row(&self, row: usize) -> Option<&[u8]> {
        self.levels.get(row * self.width..(row + 1) * self.width)
    }

    /// Offers the estimated products of these rows.
    // Not generic: a generic function would be built as its caller is, for size.
    pub(super) fn offer(&self, query: &FineQuery, rows: &[usize], best: &mut Best) {
        for row in rows {
            if let Some(estimate) = self.estimate(*row, query) {
                best.offer(estimate, *row);
            }
        }
    }

    fn estimate(&self, row: usize, query: &FineQuery) -> Option<f32> {
        let (levels, step) = (self.row(row)?, self.steps.get(row)?);
        let [first, second] = &query.halves;
        let product = products(levels, first, second);
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        let product = query.step * product as f32;
        Some(step * (product - MIDDLE * query.sum))
    }
}

/// The sum of the products of the low bits with the first half, and of the high bits with the second.
// By hand: the loops of an addon that is built for size are not vectorised.
fn products(levels: &[u8], first: &[i16], second: &[i16]) -> i32 {
    let (rows, left) = levels.as_chunks::<16>();
    let (firsts, first_left) = first.as_chunks::<16>();
    let (seconds, second_left) = second.as_chunks::<16>();
    let mut sums = i32x4::ZERO;
    for ((row, first), second) in rows.iter().zip(firsts).zip(seconds) {
        let row = u8x16::new(*row);
        let low = row & u8x16::splat(15);
        // A shift of the whole would carry bits from one byte into the next.
        let high = row - low;
        for (half, query, shift) in [(low, first, 0_u32), (high, second, 4)] {
            let (one, other) = query.split_at(8);
            let one = i16x8::from_slice_unaligned(one);
            let other = i16x8::from_slice_unaligned(other);
            sums += (i16x8::from_u8x16_low(half) >> shift).dot(one);
            sums += (i16x8::from_u8x16_high(half) >> shift).dot(other);
        }
    }
    let low = left.iter().zip(first_left).map(|(byte, it)| i32::from(byte & 15) * i32::from(*it));
    let high = left.iter().zip(second_left).map(|(byte, it)| i32::from(byte >> 4) * i32::from(*it));
    sums.reduce_add() + low.sum::<i32>() + high.sum::<i32>()
}

#[cfg(test)]
mod tests {
    use super::{FineCodes, FineQuery};

    #[test]
    fn an_estimate_is_close_to_the_product_for_any_number_of_dimensions() {
        for dimensions in [1, 2, 7, 8, 9, 15, 31, 32, 33, 63, 384] {
            let number = |at: usize| f32::from(u8::try_from(at * 37 % 101).unwrap()) / 50.0 - 1.0;
            let vector: Vec<f32> = (0..dimensions).map(number).collect();
            let query: Vec<f32> = (0..dimensions).map(|at| number(at + 5)).collect();
            let mut codes = FineCodes::new(dimensions);
            codes.push(&query);
            codes.push(&vector);
            let exact: f32 = vector.iter().zip(&query).map(|(a, b)| a * b).sum();
            let query = FineQuery::new(&query);
            let error = (codes.estimate(1, &query).unwrap() - exact).abs();
            #[expect(clippy::cast_precision_loss, reason = "a number of dimensions")]
            let allowed = 0.08 * dimensions as f32;
            assert!(error < allowed, "{dimensions}: {error}");
            let mut copied = FineCodes::new(dimensions);
            copied.copy(&codes, 1);
            assert_eq!(copied.estimate(0, &query), codes.estimate(1, &query));
            assert_eq!(codes.estimate(2, &query), None);
        }
    }

    #[test]
    fn the_largest_vectors_do_not_overflow() {
        let mut codes = FineCodes::new(4_000);
        codes.push(&[1.0; 4_000]);
        let estimate = codes.estimate(0, &FineQuery::new(&[1.0; 4_000])).unwrap();
        assert!((estimate - 4_000.0).abs() < 1.0, "{estimate}");
    }
}
