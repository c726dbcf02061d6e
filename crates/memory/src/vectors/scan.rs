//! The pass over all codes: estimates the product of a query with each vector from the signs of the vector's numbers.
//!
//! A byte of signs is looked up in a table of the query's sums, so that a row costs a load for eight dimensions on every processor. It must
//! never allocate for a row.

use super::best::Best;

/// The largest level of a number of the query: eight of them fit into 16 bits.
const MOST: f32 = 8_191.0;

/// What a row has besides its signs.
#[derive(Debug, Clone, Copy)]
struct RowSums {
    /// The signs that are set.
    ones: f32,
    /// 1 / the sum of the absolute numbers.
    scale: f32,
}

/// The signs of many vectors.
#[derive(Debug, Clone)]
pub(super) struct SignCodes {
    /// The bytes of a row.
    width: usize,
    /// A bit for each number that is not negative.
    signs: Vec<u8>,
    sums: Vec<RowSums>,
}

/// A query, ready for a pass.
pub(super) struct SignQuery {
    /// For each byte of a row and each of its values, the levels of the set bits.
    tables: Vec<[u16; 256]>,
    least: f32,
    step: f32,
    sum: f32,
}

impl SignQuery {
    /// Reads a rotated query.
    pub(super) fn new(query: &[f32]) -> Self {
        let least = query.iter().copied().fold(f32::INFINITY, f32::min);
        let largest = query.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let step = ((largest - least) / MOST).max(f32::MIN_POSITIVE);
        let tables = query
            .chunks(8)
            .map(|numbers| {
                let mut table = [0; 256];
                for (bit, number) in numbers.iter().enumerate() {
                    #[expect(
                        clippy::cast_possible_truncation,
                        clippy::cast_sign_loss,
                        reason = "it is between 0 and 8,191"
                    )]
                    let level = ((number - least) / step).round().clamp(0.0, MOST) as u16;
                    let (known, new) = table.split_at_mut(1 << bit);
                    new.iter_mut().zip(known).for_each(|(new, known)| *new = *known + level);
                }
                table
            })
            .collect();
        Self { tables, least, step, sum: query.iter().sum() }
    }
}

impl SignCodes {
    pub(super) fn new(dimensions: usize) -> Self {
        Self { width: dimensions.div_ceil(8).max(1), signs: Vec::new(), sums: Vec::new() }
    }

    pub(super) fn push(&mut self, vector: &[f32]) {
        let mut ones = 0;
        for numbers in vector.chunks(8) {
            let signs = numbers.iter().enumerate();
            let byte = signs.fold(0, |byte, (bit, number)| byte | u8::from(*number >= 0.0) << bit);
            ones += byte.count_ones();
            self.signs.push(byte);
        }
        let sum: f32 = vector.iter().map(|number| number.abs()).sum();
        #[expect(clippy::cast_precision_loss, reason = "a number of dimensions")]
        let ones = ones as f32;
        self.sums.push(RowSums { ones, scale: 1.0 / sum.max(f32::MIN_POSITIVE) });
    }

    /// Adds a row of others.
    pub(super) fn copy(&mut self, others: &Self, row: usize) {
        if let (Some(signs), Some(sums)) = (others.row(row), others.sums.get(row)) {
            self.signs.extend_from_slice(signs);
            self.sums.push(*sums);
        }
    }

    fn row(&self, row: usize) -> Option<&[u8]> {
        self.signs.get(row * self.width..(row + 1) * self.width)
    }

    /// Offers the estimated products of these rows.
    // Not generic: a generic function would be built as its caller is, for size.
    pub(super) fn offer(&self, query: &SignQuery, rows: &[usize], best: &mut Best) {
        for row in rows {
            let (Some(signs), Some(sums)) = (self.row(*row), self.sums.get(*row)) else { continue };
            let levels = signs.iter().zip(&query.tables).map(|(byte, table)| {
                u32::from(table.get(usize::from(*byte)).copied().unwrap_or_default())
            });
            let levels: u32 = levels.sum();
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let of_set_signs = query.step * levels as f32 + query.least * sums.ones;
            best.offer((2.0 * of_set_signs - query.sum) * sums.scale, *row);
        }
    }
}
