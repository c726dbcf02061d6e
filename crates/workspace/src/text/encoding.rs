//! The encoding of a file: UTF-8 or UTF-16, with its byte order mark, or not text. It must never guess a code page.

/// How a text is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8 { mark: bool },
    Utf16 { little: bool, mark: bool },
}

/// The encoding of a file that begins with `start`; nothing where it is not text.
pub(crate) fn detect(start: &[u8]) -> Option<Encoding> {
    if start.starts_with(&[0xef, 0xbb, 0xbf]) {
        return Some(Encoding::Utf8 { mark: true });
    }
    if start.starts_with(&[0xff, 0xfe]) {
        return Some(Encoding::Utf16 { little: true, mark: true });
    }
    if start.starts_with(&[0xfe, 0xff]) {
        return Some(Encoding::Utf16 { little: false, mark: true });
    }
    if memchr::memchr(0, start).is_some() {
        return utf16_without_mark(start);
    }
    // Without an early end it is one of the processor's wide operations.
    let (pieces, rest) = start.as_chunks::<64>();
    let all_plain = |piece: &[u8; 64]| piece.iter().fold(true, |all, &byte| all & is_plain(byte));
    if pieces.iter().all(all_plain) && rest.iter().all(|&byte| is_plain(byte)) {
        return Some(Encoding::Utf8 { mark: false });
    }
    let text = String::from_utf8_lossy(start);
    let (mut all, mut odd) = (0_usize, 0_usize);
    for char in text.chars() {
        all += 1;
        let readable = matches!(char, '\t' | '\n' | '\r' | '\u{8}' | '\u{c}' | '\u{1b}');
        odd += usize::from(char == '\u{fffd}' || (char.is_control() && !readable));
    }
    // A few wrong bytes are a damaged or a Latin text; many are not text.
    (odd * 10 <= all).then_some(Encoding::Utf8 { mark: false })
}

/// Whether a byte is a character of plain English text: most files have no other, and a search looks at many of them.
fn is_plain(byte: u8) -> bool {
    (0x20..0x7f).contains(&byte) | (byte == b'\n') | (byte == b'\t') | (byte == b'\r')
}

/// UTF-16 of mostly Latin text has a zero in every other byte, and nowhere else.
fn utf16_without_mark(start: &[u8]) -> Option<Encoding> {
    let pairs = start.len() / 2;
    let (mut high_first, mut low_first) = (0_usize, 0_usize);
    for pair in start.chunks_exact(2) {
        if let &[first, second] = pair {
            high_first += usize::from(first == 0);
            low_first += usize::from(second == 0);
        }
    }
    let mostly = |zeros: usize| zeros * 10 >= pairs * 7;
    if pairs >= 4 && mostly(low_first) && high_first == 0 {
        return Some(Encoding::Utf16 { little: true, mark: false });
    }
    if pairs >= 4 && mostly(high_first) && low_first == 0 {
        return Some(Encoding::Utf16 { little: false, mark: false });
    }
    None
}

impl Encoding {
    /// The bytes of the mark at the start.
    pub(crate) fn mark(self) -> &'static [u8] {
        match self {
            Self::Utf8 { mark: true } => &[0xef, 0xbb, 0xbf],
            Self::Utf16 { little: true, mark: true } => &[0xff, 0xfe],
            Self::Utf16 { little: false, mark: true } => &[0xfe, 0xff],
            Self::Utf8 { mark: false } | Self::Utf16 { mark: false, .. } => &[],
        }
    }

    /// The text of a whole file, without its mark. What is not valid becomes U+FFFD.
    pub(crate) fn decode_lossy(self, bytes: &[u8]) -> String {
        match self {
            Self::Utf8 { .. } => String::from_utf8_lossy(self.unmarked(bytes)).into_owned(),
            Self::Utf16 { little, .. } => {
                String::from_utf16_lossy(&units(self.unmarked(bytes), little))
            }
        }
    }

    /// The text of a whole file, without its mark, if writing it again gives the same bytes.
    pub(crate) fn decode(self, bytes: &[u8]) -> Option<String> {
        let text = self.decode_lossy(bytes);
        (self.encode(&text) == bytes).then_some(text)
    }

    /// The bytes of a file with this text.
    pub(crate) fn encode(self, text: &str) -> Vec<u8> {
        let mut bytes = self.mark().to_vec();
        match self {
            Self::Utf8 { .. } => bytes.extend_from_slice(text.as_bytes()),
            Self::Utf16 { little, .. } => {
                for unit in text.encode_utf16() {
                    let pair = if little { unit.to_le_bytes() } else { unit.to_be_bytes() };
                    bytes.extend_from_slice(&pair);
                }
            }
        }
        bytes
    }

    fn unmarked(self, bytes: &[u8]) -> &[u8] {
        bytes.strip_prefix(self.mark()).unwrap_or(bytes)
    }
}

fn units(bytes: &[u8], little: bool) -> Vec<u16> {
    let unit = |pair: &[u8]| match *pair {
        [first, second] if little => u16::from_le_bytes([first, second]),
        [first, second] => u16::from_be_bytes([first, second]),
        // An odd byte at the end.
        _ => 0xfffd,
    };
    bytes.chunks(2).map(unit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_distinguished_from_other_bytes() {
        let utf16 = |little| Some(Encoding::Utf16 { little, mark: false });
        assert_eq!(detect(b""), Some(Encoding::Utf8 { mark: false }));
        assert_eq!(detect("grüße\r\n".as_bytes()), Some(Encoding::Utf8 { mark: false }));
        assert_eq!(detect(b"\xef\xbb\xbfa"), Some(Encoding::Utf8 { mark: true }));
        assert_eq!(detect(b"h\0e\0l\0l\0o\0"), utf16(true));
        assert_eq!(detect(b"\0h\0e\0l\0l\0o"), utf16(false));
        assert_eq!(
            detect(b"a latin text with one \xe4 in it"),
            Some(Encoding::Utf8 { mark: false })
        );
        assert_eq!(detect(b"\x7fELF\x02\x01\x01\0\0\0\0\0"), None);
        assert_eq!(detect(b"\x1f\x8b\x08\x01\x93\x94\x02\x03"), None);
    }

    proptest! {
        #[test]
        fn a_text_that_is_decoded_and_encoded_again_is_the_same_bytes(text in ".*", little: bool, mark: bool, wide: bool) {
            let encoding = if wide { Encoding::Utf16 { little, mark } } else { Encoding::Utf8 { mark } };
            prop_assume!(!text.starts_with('\u{feff}'));
            let bytes = encoding.encode(&text);
            prop_assert_eq!(encoding.decode(&bytes), Some(text));
        }

        #[test]
        fn bytes_that_would_change_are_not_decoded(bytes: Vec<u8>, little: bool, mark: bool, wide: bool) {
            let encoding = if wide { Encoding::Utf16 { little, mark } } else { Encoding::Utf8 { mark } };
            if let Some(text) = encoding.decode(&bytes) {
                prop_assert_eq!(encoding.encode(&text), bytes);
            }
        }
    }
}
