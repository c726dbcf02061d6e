//! The codes of many vectors in memory: a sign and four bits per dimension, and the search for those whose vectors are probably the closest.
//!
//! A pass over all signs finds many candidates, the finer codes the best of them. The caller ranks these by their vectors: an estimate is
//! never an answer. It must never hold a vector.

use super::best::Best;
use super::fine::{FineCodes, FineQuery};
use super::rotation::Rotation;
use super::scan::{SignCodes, SignQuery};

/// The candidates of the first pass: where all vectors are as far apart as can be, fewer lose some of the closest ones.
const FIRST: usize = 7_000;
/// And at least so many for each one that is wanted.
const FIRST_EACH: usize = 10;
/// The rows whose labels are looked at before their codes are.
const BLOCK: usize = 1_024;

/// The codes of vectors with so many dimensions, each with a label of the caller's.
#[derive(Debug, Clone)]
pub struct Codes<Label> {
    rotation: Rotation,
    dimensions: usize,
    signs: SignCodes,
    fine: FineCodes,
    labels: Vec<Label>,
}

impl<Label> Codes<Label> {
    /// No codes.
    #[must_use]
    pub fn new(dimensions: usize) -> Self {
        Self {
            rotation: Rotation::new(dimensions),
            dimensions,
            signs: SignCodes::new(dimensions),
            fine: FineCodes::new(dimensions),
            labels: Vec::new(),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The dimensions of the vectors.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// Adds a vector, which is used up.
    pub fn push(&mut self, vector: &mut [f32], label: Label) {
        self.rotation.apply(vector);
        self.signs.push(vector);
        self.fine.push(vector);
        self.labels.push(label);
    }

    /// Drops those whose label is refused.
    pub fn retain(&mut self, stays: impl Fn(&Label) -> bool) {
        let mut left = Self { rotation: self.rotation.clone(), ..Self::new(self.dimensions) };
        for (row, label) in self.labels.drain(..).enumerate() {
            if stays(&label) {
                left.signs.copy(&self.signs, row);
                left.fine.copy(&self.fine, row);
                left.labels.push(label);
            }
        }
        *self = left;
    }

    /// The labels of the `most` vectors that are probably the closest among those whose label is accepted, the closest first.
    #[must_use]
    pub fn closest(
        &self,
        mut query: Vec<f32>,
        most: usize,
        accepts: impl Fn(&Label) -> bool,
    ) -> Vec<&Label> {
        if most == 0 || query.len() != self.dimensions {
            return Vec::new();
        }
        self.rotation.apply(&mut query);
        let signs = SignQuery::new(&query);
        let mut first = Best::new(FIRST.max(most.saturating_mul(FIRST_EACH)));
        let mut rows = Vec::with_capacity(BLOCK);
        for (block, labels) in self.labels.chunks(BLOCK).enumerate() {
            rows.clear();
            let accepted = labels.iter().enumerate().filter(|(_, label)| accepts(label));
            rows.extend(accepted.map(|(row, _)| block * BLOCK + row));
            self.signs.offer(&signs, &rows, &mut first);
        }
        let mut second = Best::new(most);
        self.fine.offer(&FineQuery::new(&query), &first.into_rows(), &mut second);
        let rows = second.into_sorted().into_iter();
        rows.filter_map(|(_, row)| self.labels.get(row)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Codes;
    use crate::vectors::vector::{dot, unit};

    /// A fixed sequence of numbers around 0.
    fn numbers(seed: u64) -> impl FnMut() -> f32 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        move || {
            let mut sum = 0.0;
            for _ in 0..4 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                sum += f32::from(u16::try_from(state >> 48).unwrap()) / 65_536.0 - 0.5;
            }
            sum
        }
    }

    /// Vectors around some centres, as embeddings are.
    fn vectors(count: usize, dimensions: usize, seed: u64) -> Vec<Vec<f32>> {
        let mut number = numbers(seed);
        let centres: Vec<Vec<f32>> =
            (0..20).map(|_| (0..dimensions).map(|_| number()).collect()).collect();
        (0..count)
            .map(|n| {
                let around = centres[n % centres.len()].iter().map(|it| it + 0.8 * number());
                unit(around.collect(), dimensions).unwrap()
            })
            .collect()
    }

    #[test]
    fn the_ten_closest_vectors_are_among_the_best_200_estimates() {
        for dimensions in [384, 100] {
            let all = vectors(2_000, dimensions, 3);
            let mut codes = Codes::new(dimensions);
            for (n, vector) in all.iter().enumerate() {
                codes.push(&mut vector.clone(), n);
            }
            let (mut found, mut wanted) = (0, 0);
            for query in vectors(20, dimensions, 3) {
                let mut exact: Vec<(f32, usize)> =
                    all.iter().enumerate().map(|(n, it)| (dot(it, &query), n)).collect();
                exact.sort_by(|a, b| b.0.total_cmp(&a.0));
                let estimated = codes.closest(query, 200, |_| true);
                wanted += 10;
                found += exact[..10].iter().filter(|(_, n)| estimated.contains(&n)).count();
            }
            assert!(found * 100 >= wanted * 99, "{dimensions}: {found} of {wanted}");
        }
    }

    #[test]
    fn only_accepted_labels_are_found_and_retained_ones_stay_findable() {
        let all = vectors(300, 64, 9);
        let mut codes = Codes::new(64);
        for (n, vector) in all.iter().enumerate() {
            codes.push(&mut vector.clone(), n);
        }
        let odd = codes.closest(all[7].clone(), 400, |n| n % 2 == 1);
        assert_eq!(odd.len(), 150);
        assert!(odd.iter().all(|n| **n % 2 == 1) && *odd[0] == 7);
        codes.retain(|n| *n < 8);
        assert_eq!(codes.len(), 8);
        assert_eq!(*codes.closest(all[7].clone(), 1, |_| true)[0], 7);
    }

    #[test]
    fn a_query_of_other_dimensions_finds_nothing() {
        let mut codes = Codes::new(4);
        codes.push(&mut [1.0, 0.0, 0.0, 0.0], 1);
        assert!(codes.closest(vec![1.0; 5], 3, |_| true).is_empty());
        assert!(codes.closest(vec![1.0; 4], 0, |_| true).is_empty());
    }
}
