//! Which lines of two texts are the same, removed and added: Myers' greedy algorithm, with the choices of the `diff` package that pi uses,
//! so that equal changes are shown in the same way.

/// What happened to lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Same,
    Removed,
    Added,
}

/// Removed and added lines that are looked for; a larger change is shown as wholly replaced.
const MAX_EDITS: isize = 1_000;

/// A run of lines of one kind, and the run before it.
struct Run {
    kind: Kind,
    lines: usize,
    before: Option<usize>,
}

/// A path through both texts: how many old lines it has used, and its last run.
#[derive(Clone, Copy)]
struct Path {
    old: isize,
    last: Option<usize>,
}

struct Search<'a> {
    olds: &'a [&'a str],
    news: &'a [&'a str],
    runs: Vec<Run>,
}

/// The runs that turn the old lines into the new ones.
pub(super) fn changes(olds: &[&str], news: &[&str]) -> Vec<(Kind, usize)> {
    let mut search = Search { olds, news, runs: Vec::new() };
    match search.shortest() {
        Some(last) => search.runs_until(last),
        None => replaced(olds, news),
    }
}

/// All lines between the common beginning and the common end are replaced.
fn replaced(olds: &[&str], news: &[&str]) -> Vec<(Kind, usize)> {
    let before = olds.iter().zip(news).take_while(|(old, new)| old == new).count();
    let rest = olds.iter().skip(before).rev().zip(news.iter().skip(before).rev());
    let after = rest.take_while(|(old, new)| old == new).count();
    vec![
        (Kind::Same, before),
        (Kind::Removed, olds.len() - before - after),
        (Kind::Added, news.len() - before - after),
        (Kind::Same, after),
    ]
}

impl Search<'_> {
    /// The last run of the shortest path; nothing if it has too many edits. A diagonal is the old lines used less the new ones.
    fn shortest(&mut self) -> Option<Option<usize>> {
        let (old_length, new_length) =
            (self.olds.len().cast_signed(), self.news.len().cast_signed());
        let width = usize::try_from(MAX_EDITS * 2 + 3).unwrap_or_default();
        let mut best: Vec<Option<Path>> = vec![None; width];
        let place =
            |diagonal: isize| usize::try_from(diagonal + MAX_EDITS + 1).unwrap_or(usize::MAX);
        let get = |best: &[Option<Path>], diagonal| best.get(place(diagonal)).copied().flatten();
        let set = |best: &mut [Option<Path>], diagonal, path| {
            if let Some(slot) = best.get_mut(place(diagonal)) {
                *slot = path;
            }
        };
        let start = self.along(Path { old: 0, last: None }, 0);
        if start.old >= old_length && start.old >= new_length {
            return Some(start.last);
        }
        set(&mut best, 0, Some(start));
        let (mut lowest, mut highest) = (-MAX_EDITS, MAX_EDITS);
        for edits in 1..=MAX_EDITS {
            let mut diagonal = lowest.max(-edits);
            while diagonal <= highest.min(edits) {
                let remove = get(&best, diagonal - 1);
                let add = get(&best, diagonal + 1);
                set(&mut best, diagonal - 1, None);
                let add = add.filter(|path| (1..=new_length).contains(&(path.old - diagonal)));
                let remove = remove.filter(|path| path.old < old_length);
                let next = match (remove, add) {
                    (None, None) => None,
                    (Some(remove), Some(add)) if remove.old < add.old => {
                        Some(self.step(add, Kind::Added))
                    }
                    (Some(remove), _) => Some(self.step(remove, Kind::Removed)),
                    (None, Some(add)) => Some(self.step(add, Kind::Added)),
                };
                let next = next.map(|path| self.along(path, diagonal));
                if let Some(path) = next {
                    let new = path.old - diagonal;
                    if path.old >= old_length && new >= new_length {
                        return Some(path.last);
                    }
                    if path.old >= old_length {
                        highest = highest.min(diagonal - 1);
                    }
                    if new >= new_length {
                        lowest = lowest.max(diagonal + 1);
                    }
                }
                set(&mut best, diagonal, next);
                diagonal += 2;
            }
        }
        None
    }

    /// One more line removed or added.
    fn step(&mut self, path: Path, kind: Kind) -> Path {
        let old = path.old + isize::from(kind == Kind::Removed);
        let last = path.last.and_then(|last| self.runs.get(last)).filter(|run| run.kind == kind);
        let (lines, before) = last.map_or((1, path.last), |run| (run.lines + 1, run.before));
        Path { old, last: Some(self.push(Run { kind, lines, before })) }
    }

    /// As far as the lines are the same.
    fn along(&mut self, path: Path, diagonal: isize) -> Path {
        let from = |lines: &'_ [&'_ str], used: isize| usize::try_from(used).unwrap_or(lines.len());
        let old = self.olds.iter().skip(from(self.olds, path.old));
        let new = self.news.iter().skip(from(self.news, path.old - diagonal));
        let lines = old.zip(new).take_while(|(old, new)| old == new).count();
        if lines == 0 {
            return path;
        }
        let last = Some(self.push(Run { kind: Kind::Same, lines, before: path.last }));
        Path { old: path.old + lines.cast_signed(), last }
    }

    fn push(&mut self, run: Run) -> usize {
        self.runs.push(run);
        self.runs.len() - 1
    }

    fn runs_until(&self, last: Option<usize>) -> Vec<(Kind, usize)> {
        let mut runs = Vec::new();
        let mut at = last.and_then(|last| self.runs.get(last));
        while let Some(run) = at {
            runs.push((run.kind, run.lines));
            at = run.before.and_then(|before| self.runs.get(before));
        }
        runs.reverse();
        runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_runs_make_the_new_lines_of_the_old_ones(
            olds in prop::collection::vec("[abc]", 0..30), news in prop::collection::vec("[abc]", 0..30),
        ) {
            let olds: Vec<&str> = olds.iter().map(String::as_str).collect();
            let news: Vec<&str> = news.iter().map(String::as_str).collect();
            for runs in [changes(&olds, &news), replaced(&olds, &news)] {
                let (mut old, mut made) = (0, Vec::new());
                for (kind, lines) in runs {
                    match kind {
                        Kind::Same => {
                            made.extend_from_slice(&olds[old..old + lines]);
                            old += lines;
                        }
                        Kind::Removed => old += lines,
                        Kind::Added => {
                            let from = made.len();
                            made.extend_from_slice(&news[from..from + lines]);
                        }
                    }
                }
                prop_assert_eq!(old, olds.len());
                prop_assert_eq!(&made, &news);
            }
        }
    }
}
