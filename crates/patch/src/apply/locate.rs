//! Where a hunk belongs in a file (docs/rules/patches.md#where-a-hunk-belongs). It must never choose between two places that are
//! equally good.

use crate::error::{Problem, Searched, excerpt};
use crate::patch::{Hunk, Position};

use super::fold::Leniency;
use super::index::Index;
use super::text::{BYTE_ORDER_MARK, Text};
use super::work::{Exhausted, Work};

/// How many places an error lists.
const LISTED: usize = 5;

/// A file and the hunks for it, while they are located one after the other.
pub(super) struct Locator<'l, 'p> {
    path: &'l str,
    text: &'l Text<'l>,
    hunks: &'l [Hunk<'p>],
    /// By leniency, made when they are needed.
    indexes: [Option<Index>; Leniency::ALL.len()],
    /// The first line that a hunk may change.
    cursor: usize,
    /// How far the last hunk was from the line of its header.
    offset: i64,
    last_header: Option<&'p [u8]>,
}

/// Where a hunk is, as a line counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) at: usize,
    pub(super) leniency: Leniency,
    /// From the line of the header, if it has one.
    pub(super) offset: Option<i64>,
}

enum Failure {
    Problem(Problem),
    Exhausted,
}

impl From<Exhausted> for Failure {
    fn from(_: Exhausted) -> Self {
        Self::Exhausted
    }
}

impl<'l, 'p> Locator<'l, 'p> {
    pub(super) fn new(path: &'l str, text: &'l Text<'l>, hunks: &'l [Hunk<'p>]) -> Self {
        let indexes = [const { None }; Leniency::ALL.len()];
        Self { path, text, hunks, indexes, cursor: 0, offset: 0, last_header: None }
    }

    /// The lines before `line` are changed: later hunks are below.
    pub(super) fn continue_at(&mut self, line: usize) {
        self.cursor = line;
    }

    pub(super) fn locate(&mut self, hunk: &Hunk<'p>, work: &mut Work) -> Result<Located, Problem> {
        let located = match &hunk.position {
            Position::Numbered(line) => self.numbered(hunk, *line, work),
            Position::Searched { headers, .. } => self.searched(hunk, headers, work),
        };
        located.map_err(|failure| match failure {
            Failure::Problem(problem) => problem,
            Failure::Exhausted => Problem::TooMuchWork { path: self.path.to_owned() },
        })
    }

    fn numbered(
        &mut self,
        hunk: &Hunk<'p>,
        line: usize,
        work: &mut Work,
    ) -> Result<Located, Failure> {
        let old: Vec<&[u8]> = hunk.old_lines().collect();
        let written = if old.is_empty() { line } else { line.saturating_sub(1) };
        let expected = moved(written, self.offset);
        let offset = |at: usize| difference(at, written);
        if old.is_empty() {
            let at = expected.filter(|at| *at <= self.text.len());
            let at = at.ok_or_else(|| self.beyond_end(line))?;
            if at < self.cursor {
                return Err(self.out_of_order());
            }
            if hunk.ends_file() && at != self.text.len() {
                return Err(self.not_found(&old, Searched::End));
            }
            return Ok(Located { at, leniency: Leniency::Exact, offset: Some(offset(at)) });
        }
        for leniency in Leniency::ALL {
            let mut places = Vec::new();
            if let Some(at) = expected.filter(|at| *at >= self.cursor)
                && self.fits(hunk, &old, at, leniency, work)?
            {
                places = vec![at];
            }
            if places.is_empty() {
                places = self.places(hunk, &old, self.cursor, leniency, work)?;
            }
            if let Some(at) = self.only(&places)? {
                self.offset = offset(at);
                return Ok(Located { at, leniency, offset: Some(self.offset) });
            }
        }
        Err(self.explain(hunk, &old, self.cursor, work))
    }

    fn searched(
        &mut self,
        hunk: &Hunk<'p>,
        headers: &[&'p [u8]],
        work: &mut Work,
    ) -> Result<Located, Failure> {
        let old: Vec<&[u8]> = hunk.old_lines().collect();
        let (from, header_leniency, header_places) = self.below_headers(headers, work)?;
        let is_guided = header_places.len() == 1;
        if old.is_empty() {
            // Below its header, or at the end of the file.
            if header_places.len() > 1 {
                return Err(self.ambiguous(&header_places));
            }
            let is_at_end = headers.is_empty() || hunk.ends_file();
            let at = if is_at_end { self.text.len() } else { from };
            self.last_header = headers.last().copied();
            return Ok(Located { at, leniency: header_leniency, offset: None });
        }
        for leniency in Leniency::ALL {
            let mut places = self.places(hunk, &old, from, leniency, work)?;
            if is_guided {
                places.truncate(1);
            }
            if let Some(at) = self.only(&places)? {
                self.last_header = headers.last().copied();
                let leniency = leniency.max(header_leniency);
                return Ok(Located { at, leniency, offset: None });
            }
        }
        Err(self.explain(hunk, &old, from, work))
    }

    /// The line below the last header, what was ignored to find them, and the places of the first one.
    fn below_headers(
        &mut self,
        headers: &[&'p [u8]],
        work: &mut Work,
    ) -> Result<(usize, Leniency, Vec<usize>), Failure> {
        let mut from = self.cursor;
        let mut ignored = Leniency::Exact;
        let mut places_of_first = Vec::new();
        for (number, header) in headers.iter().enumerate() {
            let mut places = Vec::new();
            for leniency in Leniency::ALL {
                let index = self.index(leniency, work)?;
                let pattern = index.pattern(std::iter::once(*header), work)?;
                if let Some(pattern) = pattern {
                    places = index.find(&pattern, from, LISTED + 1, work)?;
                }
                if !places.is_empty() {
                    ignored = ignored.max(leniency);
                    break;
                }
            }
            if let Some(first) = places.first() {
                from = first + 1;
            } else if self.last_header != Some(*header) {
                let header = excerpt(header);
                let (path, searched) = (self.path.to_owned(), searched_after(from));
                return Err(Failure::Problem(Problem::HeaderNotFound { path, header, searched }));
            }
            if number == 0 {
                places_of_first = places;
            }
        }
        Ok((from, ignored, places_of_first))
    }

    /// The first places of the hunk, at `from` or below.
    fn places(
        &mut self,
        hunk: &Hunk<'p>,
        old: &[&'p [u8]],
        from: usize,
        leniency: Leniency,
        work: &mut Work,
    ) -> Result<Vec<usize>, Failure> {
        if hunk.ends_file() {
            let end = self.text.len().checked_sub(old.len()).filter(|at| *at >= from);
            return Ok(match end {
                Some(at) if self.fits(hunk, old, at, leniency, work)? => vec![at],
                _ => Vec::new(),
            });
        }
        let index = self.index(leniency, work)?;
        let mut places = Vec::new();
        if let Some(pattern) = index.pattern(old.iter().copied(), work)? {
            places = index.find(&pattern, from, LISTED + 1, work)?;
            places.retain(|at| self.ends_agree(hunk, at + old.len(), leniency));
        }
        let names_mark = old.first().is_some_and(|line| line.starts_with(BYTE_ORDER_MARK));
        let is_at_mark = names_mark && from == 0 && self.fits(hunk, old, 0, leniency, work)?;
        if is_at_mark && places.first() != Some(&0) {
            places.insert(0, 0);
        }
        Ok(places)
    }

    /// Whether the lines of the hunk are at `at`.
    fn fits(
        &self,
        hunk: &Hunk<'p>,
        old: &[&'p [u8]],
        at: usize,
        leniency: Leniency,
        work: &mut Work,
    ) -> Result<bool, Exhausted> {
        let end = at.saturating_add(old.len());
        if end > self.text.len() || (hunk.ends_file() && end != self.text.len()) {
            return Ok(false);
        }
        if !self.ends_agree(hunk, end, leniency) {
            return Ok(false);
        }
        let (mut left, mut right) = (Vec::new(), Vec::new());
        for (offset, line) in old.iter().enumerate() {
            let here = self.text.line(at + offset);
            work.charge(here.len() + line.len() + 1)?;
            leniency.fold(here, &mut left);
            // The mark is no part of the file's first line here.
            let line = if at + offset == 0 { without_mark(line) } else { line };
            leniency.fold(line, &mut right);
            if left != right {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the patch and the file have the same newline, or none, at the end of the file. Only a diff with line numbers
    /// describes it.
    fn ends_agree(&self, hunk: &Hunk<'p>, end: usize, leniency: Leniency) -> bool {
        let is_described = matches!(hunk.position, Position::Numbered(_));
        leniency != Leniency::Exact
            || !is_described
            || end != self.text.len()
            || self.text.is_terminated() != hunk.old_is_unterminated
    }

    fn index(&mut self, leniency: Leniency, work: &mut Work) -> Result<&Index, Exhausted> {
        let (text, hunks) = (self.text, self.hunks);
        let slot = Leniency::ALL.iter().zip(&mut self.indexes).find(|(it, _)| **it == leniency);
        let (_, slot) = slot.ok_or(Exhausted)?;
        if slot.is_none() {
            let headers = |hunk: &Hunk<'p>| match &hunk.position {
                Position::Numbered(_) => Vec::new(),
                Position::Searched { headers, .. } => headers.clone(),
            };
            let wanted =
                hunks.iter().flat_map(|hunk| headers(hunk).into_iter().chain(hunk.old_lines()));
            *slot = Some(Index::new(text, wanted, leniency, work)?);
        }
        slot.as_ref().ok_or(Exhausted)
    }

    /// The one place; none if there is none.
    fn only(&self, places: &[usize]) -> Result<Option<usize>, Failure> {
        match places {
            [] => Ok(None),
            [at] => Ok(Some(*at)),
            many => Err(self.ambiguous(many)),
        }
    }

    fn ambiguous(&self, places: &[usize]) -> Failure {
        Failure::Problem(Problem::Ambiguous {
            path: self.path.to_owned(),
            lines: places.iter().take(LISTED).map(|at| at + 1).collect(),
            has_more: places.len() > LISTED,
        })
    }

    fn beyond_end(&self, line: usize) -> Failure {
        let (path, length) = (self.path.to_owned(), self.text.len());
        Failure::Problem(Problem::BeyondEnd { path, line, length })
    }

    fn out_of_order(&self) -> Failure {
        Failure::Problem(Problem::Order { path: self.path.to_owned() })
    }

    /// Why the hunk is nowhere at `from` or below.
    fn explain(
        &mut self,
        hunk: &Hunk<'p>,
        old: &[&'p [u8]],
        from: usize,
        work: &mut Work,
    ) -> Failure {
        if hunk.ends_file() {
            return self.not_found(old, Searched::End);
        }
        // Above the hunks before it, the same lines would be in the wrong order.
        if from > 0 {
            match self.places(hunk, old, 0, Leniency::Exact, work) {
                Ok(places) if !places.is_empty() => return self.out_of_order(),
                Ok(_) => {}
                Err(failure) => return failure,
            }
        }
        self.not_found(old, searched_after(from))
    }

    fn not_found(&self, old: &[&'p [u8]], searched: Searched) -> Failure {
        let missing = match searched {
            Searched::Whole => self.missing(old, 0),
            Searched::After(line) => self.missing(old, line),
            Searched::End => old.last().copied(),
        };
        let missing = missing.map(excerpt);
        let path = self.path.to_owned();
        Failure::Problem(Problem::NotFound { path, searched, missing })
    }

    /// The first of the lines that is nowhere at `from` or below, under any leniency.
    fn missing(&self, old: &[&'p [u8]], from: usize) -> Option<&'p [u8]> {
        let [.., index] = &self.indexes;
        let index = index.as_ref()?;
        old.iter().copied().find(|line| !index.has_line(line, from))
    }
}

fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line)
}

fn searched_after(from: usize) -> Searched {
    if from == 0 { Searched::Whole } else { Searched::After(from) }
}

fn moved(line: usize, offset: i64) -> Option<usize> {
    usize::try_from(i64::try_from(line).ok()?.checked_add(offset)?).ok()
}

fn difference(at: usize, written: usize) -> i64 {
    let wide = |line: usize| i64::try_from(line).unwrap_or(i64::MAX);
    wide(at).saturating_sub(wide(written))
}
