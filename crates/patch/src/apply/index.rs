//! Where the lines of a patch are in a file, under one degree of leniency. It must never compare the same line of the file
//! twice for two hunks.

use std::collections::HashMap;

use super::fold::Leniency;
use super::text::Text;
use super::work::{Exhausted, Work};

/// The lines of a file as numbers; equal lines have equal numbers.
#[derive(Debug, Clone)]
pub(super) struct Index {
    leniency: Leniency,
    /// The numbers of the lines of the patch.
    numbers: HashMap<Vec<u8>, u32>,
    /// The number of each line of the file; [`IN_NO_HUNK`] for most.
    file: Vec<u32>,
    /// Where each number is in the file, in order.
    lines: Vec<Vec<u32>>,
}

/// Of the lines that are in no hunk.
const IN_NO_HUNK: u32 = 0;

impl Index {
    /// An index for the lines `wanted`, those of all hunks of the file.
    pub(super) fn new<'p>(
        text: &Text<'_>,
        wanted: impl Iterator<Item = &'p [u8]>,
        leniency: Leniency,
        work: &mut Work,
    ) -> Result<Self, Exhausted> {
        work.charge(text.size())?;
        let mut numbers = HashMap::new();
        let mut folded = Vec::new();
        let mut next = IN_NO_HUNK + 1;
        for line in wanted {
            work.charge(line.len() + 1)?;
            leniency.fold(line, &mut folded);
            if !numbers.contains_key(&folded) {
                numbers.insert(folded.clone(), next);
                next = next.checked_add(1).ok_or(Exhausted)?;
            }
        }
        let mut lines = vec![Vec::new(); numbers.len() + 1];
        let mut file = Vec::with_capacity(text.len());
        let mut last: Option<(&[u8], u32)> = None;
        for index in 0..text.len() {
            let line = text.line(index);
            let number = match last {
                Some((same, number)) if same == line => number,
                _ => {
                    leniency.fold(line, &mut folded);
                    numbers.get(&folded).copied().unwrap_or(IN_NO_HUNK)
                }
            };
            last = Some((line, number));
            file.push(number);
            if number != IN_NO_HUNK
                && let Some(list) = lines.get_mut(as_index(number))
            {
                list.push(u32::try_from(index).map_err(|_| Exhausted)?);
            }
        }
        Ok(Self { leniency, numbers, file, lines })
    }

    /// The numbers of these lines; none if one of them is nowhere in the file.
    pub(super) fn pattern<'p>(
        &self,
        lines: impl Iterator<Item = &'p [u8]>,
        work: &mut Work,
    ) -> Result<Option<Vec<u32>>, Exhausted> {
        let mut pattern = Vec::new();
        let mut folded = Vec::new();
        for line in lines {
            work.charge(line.len() + 1)?;
            self.leniency.fold(line, &mut folded);
            match self.numbers.get(&folded) {
                Some(number) if !self.places(*number, 0).is_empty() => pattern.push(*number),
                _ => return Ok(None),
            }
        }
        Ok(Some(pattern))
    }

    /// Whether a line is in the file, at `from` or below.
    pub(super) fn has_line(&self, line: &[u8], from: usize) -> bool {
        let mut folded = Vec::new();
        self.leniency.fold(line, &mut folded);
        self.numbers.get(&folded).is_some_and(|number| !self.places(*number, from).is_empty())
    }

    /// The first `most` lines, at `from` or below, where `pattern` begins.
    pub(super) fn find(
        &self,
        pattern: &[u32],
        from: usize,
        most: usize,
        work: &mut Work,
    ) -> Result<Vec<usize>, Exhausted> {
        let Some(last) = self.file.len().checked_sub(pattern.len()) else { return Ok(Vec::new()) };
        work.charge(pattern.len() + 1)?;
        // Only where the rarest line is can the pattern be.
        let rarest = pattern.iter().enumerate().map(|(offset, number)| {
            let places = self.places(*number, from.saturating_add(offset));
            (places, offset)
        });
        let Some((places, offset)) = rarest.min_by_key(|(places, _)| places.len()) else {
            return Ok(Vec::new());
        };
        let remaining = self.file.len().saturating_sub(from);
        if places.len().saturating_mul(pattern.len()) > remaining {
            return self.find_in_one_pass(pattern, from, most, work);
        }
        let mut found = Vec::new();
        for place in places {
            let start = as_index(*place) - offset;
            if start > last || found.len() == most {
                break;
            }
            let here = self.file.get(start..start + pattern.len()).unwrap_or_default();
            let equal = here.iter().zip(pattern).take_while(|(a, b)| a == b).count();
            work.charge(equal + 1)?;
            if equal == pattern.len() {
                found.push(start);
            }
        }
        Ok(found)
    }

    /// The same by Knuth, Morris and Pratt: one pass over the file, however much of it looks like the pattern.
    fn find_in_one_pass(
        &self,
        pattern: &[u32],
        from: usize,
        most: usize,
        work: &mut Work,
    ) -> Result<Vec<usize>, Exhausted> {
        let mut borders: Vec<usize> = Vec::with_capacity(pattern.len());
        let next_border = |borders: &[usize], mut border: usize, number: u32| {
            while border > 0 && pattern.get(border) != Some(&number) {
                border = borders.get(border - 1).copied().unwrap_or(0);
            }
            border + usize::from(pattern.get(border) == Some(&number))
        };
        for (at, number) in pattern.iter().enumerate() {
            let before = at.checked_sub(1).and_then(|at| borders.get(at)).copied();
            borders.push(before.map_or(0, |border| next_border(&borders, border, *number)));
        }
        let mut found = Vec::new();
        let mut matched = 0;
        for (at, number) in self.file.iter().enumerate().skip(from) {
            if found.len() == most {
                break;
            }
            work.charge(1)?;
            matched = next_border(&borders, matched, *number);
            if matched == pattern.len() {
                found.push(at + 1 - matched);
                matched = borders.last().copied().unwrap_or(0);
            }
        }
        Ok(found)
    }

    /// Where this number is, at `from` or below.
    fn places(&self, number: u32, from: usize) -> &[u32] {
        let all = self.lines.get(as_index(number)).map(Vec::as_slice).unwrap_or_default();
        let before = all.partition_point(|place| as_index(*place) < from);
        all.get(before..).unwrap_or_default()
    }
}

fn as_index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
