//! The pass over all codes: estimates the product of a query with each vector from the vector's signs and four bits of each of the
//! query's numbers.
//!
//! It must never allocate for a row.

/// The bits of a number of the query.
const PLANES: usize = 4;
/// The largest number that so many bits hold.
const MOST: f32 = 15.0;

/// What a row has besides its bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowSums {
    /// The bits that are set.
    pub(super) ones: f32,
    /// 1 / the sum of the absolute numbers.
    pub(super) scale: f32,
}

/// A query, ready for a pass.
pub(super) struct PreparedQuery {
    planes: Vec<[u64; PLANES]>,
    least: f32,
    step: f32,
    sum: f32,
}

impl PreparedQuery {
    /// Reads a rotated query.
    pub(super) fn new(query: &[f32]) -> Self {
        let least = query.iter().copied().fold(f32::INFINITY, f32::min);
        let largest = query.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let step = ((largest - least) / MOST).max(f32::MIN_POSITIVE);
        let planes = query
            .chunks(64)
            .map(|numbers| {
                let mut planes = [0; PLANES];
                for (at, number) in numbers.iter().enumerate() {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "it is between 0 and 15"
                    )]
                    let level = ((number - least) / step).round().clamp(0.0, MOST) as u64;
                    for (bit, plane) in planes.iter_mut().enumerate() {
                        *plane |= (level >> bit & 1) << at;
                    }
                }
                planes
            })
            .collect();
        Self { planes, least, step, sum: query.iter().sum() }
    }

    /// The estimated product with a row.
    #[inline]
    pub(super) fn estimate(&self, bits: &[u64], sums: RowSums) -> f32 {
        let mut counts = [0_u32; PLANES];
        for (word, planes) in bits.iter().zip(&self.planes) {
            for (count, plane) in counts.iter_mut().zip(planes) {
                *count += (word & plane).count_ones();
            }
        }
        let [one, two, four, eight] = counts;
        let weighed = one + 2 * two + 4 * four + 8 * eight;
        #[expect(clippy::cast_precision_loss, reason = "at most 15 for each dimension")]
        let of_set_bits = self.step * weighed as f32 + self.least * sums.ones;
        (2.0 * of_set_bits - self.sum) * sums.scale
    }
}
