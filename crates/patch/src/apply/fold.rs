//! What two lines may differ in and still be the same (docs/rules/patches.md#leniency).

/// What was ignored to find a hunk, from nothing to most. Each degree also ignores what those before it do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Leniency {
    /// Nothing: the lines are equal, byte for byte.
    Exact,
    /// Whether lines end with a carriage return, and whether the last one has a newline.
    LineEndings,
    /// White space at the end of a line.
    TrailingWhitespace,
    /// White space everywhere.
    Whitespace,
    /// The kind of quotes, dashes and Unicode spaces.
    Punctuation,
}

impl Leniency {
    pub(super) const ALL: [Self; 5] = [
        Self::Exact,
        Self::LineEndings,
        Self::TrailingWhitespace,
        Self::Whitespace,
        Self::Punctuation,
    ];

    /// Writes to `folded` what remains of `line`: lines are the same if this is equal.
    pub(super) fn fold(self, line: &[u8], folded: &mut Vec<u8>) {
        folded.clear();
        match self {
            Self::Exact => folded.extend_from_slice(line),
            Self::LineEndings => {
                folded.extend_from_slice(line.strip_suffix(b"\r").unwrap_or(line));
            }
            Self::TrailingWhitespace => folded.extend_from_slice(line.trim_ascii_end()),
            Self::Whitespace => {
                folded.extend(line.iter().filter(|byte| !byte.is_ascii_whitespace()));
            }
            Self::Punctuation => punctuation(line, folded),
        }
    }
}

fn punctuation(line: &[u8], folded: &mut Vec<u8>) {
    for chunk in line.utf8_chunks() {
        for character in chunk.valid().chars().filter(|character| !character.is_whitespace()) {
            let plain = match character {
                '\u{2018}'..='\u{201b}' | '\u{2032}' | '\u{02bc}' => '\'',
                '\u{201c}'..='\u{201f}' | '\u{2033}' => '"',
                '\u{2010}'..='\u{2015}' | '\u{2212}' | '\u{fe58}' | '\u{fe63}' | '\u{ff0d}' => '-',
                '\u{200b}' | '\u{2060}' | '\u{feff}' => continue,
                other => other,
            };
            folded.extend_from_slice(plain.encode_utf8(&mut [0; 4]).as_bytes());
        }
        folded.extend_from_slice(chunk.invalid());
    }
}
