//! A fixed rotation that spreads every vector over all dimensions, so that the signs of its numbers say most about its direction.
//!
//! Signs are flipped by a fixed sequence, and Hadamard transforms mix the dimensions. It must never change a length or an angle.

/// Flips and transforms, one after the other.
const ROUNDS: u64 = 3;

/// The rotation of vectors with so many dimensions.
#[derive(Debug, Clone)]
pub(super) struct Rotation {
    /// For each round, 1 or -1 for each dimension.
    flips: Vec<Vec<f32>>,
    /// The largest power of two among the dimensions.
    width: usize,
}

impl Rotation {
    pub(super) fn new(dimensions: usize) -> Self {
        let width = if dimensions == 0 { 0 } else { 1 << dimensions.ilog2() };
        let flips = (0..ROUNDS)
            .map(|round| {
                let mut state = round;
                (0..dimensions)
                    .map(|_| if next(&mut state) >> 63 == 0 { 1.0 } else { -1.0 })
                    .collect()
            })
            .collect();
        Self { flips, width }
    }

    /// Rotates the vector in place.
    pub(super) fn apply(&self, vector: &mut [f32]) {
        let behind = vector.len().saturating_sub(self.width);
        for flips in &self.flips {
            vector.iter_mut().zip(flips).for_each(|(number, flip)| *number *= flip);
            if let Some(front) = vector.get_mut(..self.width) {
                hadamard(front);
            }
            if behind > 0
                && let Some(back) = vector.get_mut(behind..)
            {
                hadamard(back);
            }
        }
    }
}

/// The Hadamard transform of a power of two of numbers, which keeps their length.
fn hadamard(numbers: &mut [f32]) {
    let mut half = 1;
    while half < numbers.len() {
        for pair in numbers.chunks_exact_mut(half * 2) {
            let (left, right) = pair.split_at_mut(half);
            for (a, b) in left.iter_mut().zip(right) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
    #[expect(clippy::cast_precision_loss, reason = "a number of dimensions")]
    let scale = 1.0 / (numbers.len() as f32).sqrt();
    numbers.iter_mut().for_each(|number| *number *= scale);
}

/// The next number of a fixed sequence (SplitMix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Rotation, next};
    use crate::vectors::vector::dot;

    #[test]
    fn a_rotation_keeps_the_products_of_vectors_of_any_dimensions() {
        let mut state = 7;
        for dimensions in [1, 2, 3, 64, 100, 384, 1_536] {
            let mut random = || {
                (0..dimensions)
                    .map(|_| f32::from(u8::try_from(next(&mut state) >> 56).unwrap()) / 256.0 - 0.5)
                    .collect::<Vec<f32>>()
            };
            let (mut one, mut other) = (random(), random());
            let before = dot(&one, &other);
            let rotation = Rotation::new(dimensions);
            rotation.apply(&mut one);
            rotation.apply(&mut other);
            assert!(
                (dot(&one, &other) - before).abs() < 1e-3 * (1.0 + before.abs()),
                "{dimensions}"
            );
        }
    }
}
