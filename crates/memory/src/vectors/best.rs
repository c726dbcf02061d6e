//! The best of many estimates, in constant space. It must never sort what it drops.

/// The rows with the largest estimates.
pub(super) struct Best {
    most: usize,
    worst: f32,
    found: Vec<(f32, usize)>,
}

impl Best {
    pub(super) fn new(most: usize) -> Self {
        Self { most: most.max(1), worst: f32::NEG_INFINITY, found: Vec::new() }
    }

    #[inline]
    pub(super) fn offer(&mut self, estimate: f32, row: usize) {
        if estimate > self.worst {
            self.found.push((estimate, row));
            if self.found.len() >= self.most * 2 {
                self.cut();
            }
        }
    }

    /// Drops all but the best.
    fn cut(&mut self) {
        if self.found.len() > self.most {
            let last = self.most - 1;
            let (_, worst, _) = self.found.select_nth_unstable_by(last, |a, b| b.0.total_cmp(&a.0));
            self.worst = worst.0;
            self.found.truncate(self.most);
        }
    }

    /// The rows of the best, in no order.
    pub(super) fn into_rows(mut self) -> Vec<usize> {
        self.cut();
        self.found.into_iter().map(|(_, row)| row).collect()
    }

    /// The best, in their order.
    pub(super) fn into_sorted(mut self) -> Vec<(f32, usize)> {
        self.cut();
        self.found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        self.found
    }
}

#[cfg(test)]
mod tests {
    use super::Best;

    #[test]
    fn the_best_are_left_in_their_order() {
        let mut best = Best::new(3);
        for (row, estimate) in [0.5, 0.1, 0.9, 0.3, 0.9, -1.0, 0.7, 0.8].into_iter().enumerate() {
            best.offer(estimate, row);
        }
        assert_eq!(best.into_sorted(), [(0.9, 2), (0.9, 4), (0.8, 7)]);
        assert!(Best::new(2).into_sorted().is_empty());
    }
}
