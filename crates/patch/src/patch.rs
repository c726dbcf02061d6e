//! A patch as data: its files with their hunks, in order. It must never decide where a hunk belongs.

use std::collections::BTreeSet;

/// A parsed patch. It borrows its lines from the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch<'p> {
    pub(crate) files: Vec<FilePatch<'p>>,
    /// The length of the text, in bytes.
    pub(crate) size: usize,
}

/// The files of a patch, sorted, by their paths relative to the workspace: without `.`, `..` and empty components.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatchPaths {
    /// Every path that [`apply`](crate::apply()) requests, also those of new files: they must not exist.
    pub read: Vec<String>,
    /// Every path that the patch writes or removes.
    pub written: Vec<String>,
}

impl Patch<'_> {
    /// What the patch reads and writes, so that the caller can open the files before it applies the patch.
    #[must_use]
    pub fn paths(&self) -> PatchPaths {
        let mut read = BTreeSet::new();
        let mut written = BTreeSet::new();
        for file in &self.files {
            let (source, target) = match &file.action {
                Action::Add { path } | Action::Delete { path } | Action::Update { path } => {
                    (path, path)
                }
                Action::Move { from, to } => {
                    written.insert(from.clone());
                    (from, to)
                }
                Action::Copy { from, to } => (from, to),
            };
            read.extend([source.clone(), target.clone()]);
            written.insert(target.clone());
        }
        PatchPaths { read: read.into_iter().collect(), written: written.into_iter().collect() }
    }

    /// The patch that undoes this one, as far as it says what was there: it tells whether this one was applied.
    #[must_use]
    pub fn reversed(&self) -> Self {
        let files = self.files.iter().rev().map(FilePatch::reversed).collect();
        Self { files, size: self.size }
    }
}

/// What a patch does with one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FilePatch<'p> {
    /// The line of the patch that names the file.
    pub(crate) line: usize,
    pub(crate) action: Action,
    pub(crate) hunks: Vec<Hunk<'p>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// The hunks have added lines only.
    Add {
        path: String,
    },
    /// With hunks, they must remove every line of the file.
    Delete {
        path: String,
    },
    Update {
        path: String,
    },
    Move {
        from: String,
        to: String,
    },
    Copy {
        from: String,
        to: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hunk<'p> {
    /// The line of the patch where it begins.
    pub(crate) line: usize,
    pub(crate) position: Position<'p>,
    pub(crate) lines: Vec<HunkLine<'p>>,
    /// Whether the last old line is the end of the file, without a newline.
    pub(crate) old_is_unterminated: bool,
    /// The same for the last new line.
    pub(crate) new_is_unterminated: bool,
}

/// What a hunk says about where it belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Position<'p> {
    /// At this line, counted from 1; without old lines, after it.
    Numbered(usize),
    /// Somewhere after these lines, which stand in the file in this order.
    Searched { headers: Vec<&'p [u8]>, ends_file: bool },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HunkLine<'p> {
    pub(crate) kind: LineKind,
    /// Without its newline; with a carriage return, if the content of the patch has one.
    pub(crate) text: &'p [u8],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineKind {
    Context,
    Removed,
    Added,
}

impl FilePatch<'_> {
    fn reversed(&self) -> Self {
        let action = match &self.action {
            Action::Add { path } => Action::Delete { path: path.clone() },
            Action::Delete { path } => Action::Add { path: path.clone() },
            Action::Update { path } => Action::Update { path: path.clone() },
            Action::Move { from, to } => Action::Move { from: to.clone(), to: from.clone() },
            // The file that was copied stays, so that the copy is what can be undone.
            Action::Copy { to, .. } => Action::Delete { path: to.clone() },
        };
        let hunks = match self.action {
            Action::Copy { .. } => Vec::new(),
            _ => self.hunks.iter().map(Hunk::reversed).collect(),
        };
        Self { line: self.line, action, hunks }
    }
}

impl<'p> Hunk<'p> {
    fn reversed(&self) -> Self {
        let mut hunk = self.clone();
        // Without old lines, a hunk is after its line.
        let has = |kind| {
            self.lines.iter().any(|line| line.kind == kind || line.kind == LineKind::Context)
        };
        if let Position::Numbered(line) = &mut hunk.position {
            match (has(LineKind::Removed), has(LineKind::Added)) {
                (true, false) => *line = line.saturating_sub(1),
                (false, true) => *line += 1,
                (true, true) | (false, false) => {}
            }
        }
        for line in &mut hunk.lines {
            line.kind = match line.kind {
                LineKind::Context => LineKind::Context,
                LineKind::Removed => LineKind::Added,
                LineKind::Added => LineKind::Removed,
            };
        }
        std::mem::swap(&mut hunk.old_is_unterminated, &mut hunk.new_is_unterminated);
        hunk
    }

    /// The lines that must be in the file.
    pub(crate) fn old_lines(&self) -> impl Iterator<Item = &'p [u8]> {
        self.lines.iter().filter(|line| line.kind != LineKind::Added).map(|line| line.text)
    }

    /// Whether the hunk's last line is the last of the file.
    pub(crate) fn ends_file(&self) -> bool {
        let marked = self.old_is_unterminated || self.new_is_unterminated;
        marked || matches!(self.position, Position::Searched { ends_file: true, .. })
    }
}
