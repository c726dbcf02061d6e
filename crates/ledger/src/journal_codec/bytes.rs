//! Numbers and texts as bytes: variable-length integers, and texts behind their length.
//!
//! A reader returns `None` for bytes that no writer made; it must never read beyond them, nor allocate by what they claim.

/// Appends values to a buffer.
#[derive(Default)]
pub(super) struct ByteWriter(pub(super) Vec<u8>);

impl ByteWriter {
    pub(super) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    /// Seven bits a byte, the lowest first.
    pub(super) fn number(&mut self, mut value: u64) {
        loop {
            let [low, ..] = value.to_le_bytes();
            if value < 0x80 {
                self.0.push(low);
                return;
            }
            self.0.push(low | 0x80);
            value >>= 7;
        }
    }

    pub(super) fn length(&mut self, value: usize) {
        self.number(value as u64);
    }

    /// Small numbers of either sign are short.
    pub(super) fn integer(&mut self, value: i64) {
        self.number(((value << 1) ^ (value >> 63)).cast_unsigned());
    }

    pub(super) fn text(&mut self, value: &str) {
        self.length(value.len());
        self.0.extend_from_slice(value.as_bytes());
    }

    /// 0 for none, else the length and one.
    pub(super) fn optional_text(&mut self, value: Option<&str>) {
        match value {
            None => self.byte(0),
            Some(text) => {
                self.length(text.len() + 1);
                self.0.extend_from_slice(text.as_bytes());
            }
        }
    }

    pub(super) fn optional_integer(&mut self, value: Option<i64>) {
        match value {
            None => self.byte(0),
            Some(value) => {
                self.byte(1);
                self.integer(value);
            }
        }
    }

    /// 0 for none, 1 for false, 2 for true.
    pub(super) fn optional_bool(&mut self, value: Option<bool>) {
        self.byte(value.map_or(0, |value| 1 + u8::from(value)));
    }
}

/// Takes values from the front of bytes.
#[derive(Clone, Copy)]
pub(super) struct ByteReader<'a>(pub(super) &'a [u8]);

impl<'a> ByteReader<'a> {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Only the shortest form of a number is one.
    pub(super) fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return (shift == 0 || byte != 0).then_some(value);
            }
        }
        None
    }

    pub(super) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    pub(super) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    pub(super) fn integer(&mut self) -> Option<i64> {
        let value = self.number()?;
        Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    pub(super) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn string(&mut self, length: usize) -> Option<&'a str> {
        std::str::from_utf8(self.bytes(length)?).ok()
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = self.length()?;
        self.string(length)
    }

    pub(super) fn optional_text(&mut self) -> Option<Option<&'a str>> {
        match self.length()? {
            0 => Some(None),
            length => self.string(length - 1).map(Some),
        }
    }

    pub(super) fn optional_integer(&mut self) -> Option<Option<i64>> {
        match self.byte()? {
            0 => Some(None),
            1 => self.integer().map(Some),
            _ => None,
        }
    }

    pub(super) fn optional_bool(&mut self) -> Option<Option<bool>> {
        match self.byte()? {
            0 => Some(None),
            1 => Some(Some(false)),
            2 => Some(Some(true)),
            _ => None,
        }
    }
}
