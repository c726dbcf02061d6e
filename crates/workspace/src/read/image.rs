//! Images: which kind a file is, and how large. It must never decode one: a small file may be a huge picture.

/// Kinds that every model with vision accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Png,
    Jpeg,
    Gif,
    Webp,
}

impl Kind {
    pub(super) fn mime_type(self) -> &'static str {
        match self {
            Self::Png => "image/png",
            Self::Jpeg => "image/jpeg",
            Self::Gif => "image/gif",
            Self::Webp => "image/webp",
        }
    }

    /// The kind of a file, by its first bytes.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
            return Some(Self::Png);
        }
        if bytes.starts_with(b"\xff\xd8\xff") {
            return Some(Self::Jpeg);
        }
        if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
            return Some(Self::Gif);
        }
        (bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP")).then_some(Self::Webp)
    }

    /// Width and height in pixels; nothing where the file is damaged.
    pub(super) fn dimensions(self, bytes: &[u8]) -> Option<(u32, u32)> {
        let size = match self {
            Self::Png => (big(bytes, 16, 4)?, big(bytes, 20, 4)?),
            Self::Gif => (little(bytes, 6, 2)?, little(bytes, 8, 2)?),
            Self::Jpeg => jpeg(bytes)?,
            Self::Webp => webp(bytes)?,
        };
        (size.0 > 0 && size.1 > 0).then_some(size)
    }
}

fn big(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let part = bytes.get(at..at + length)?;
    Some(part.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
}

fn little(bytes: &[u8], at: usize, length: usize) -> Option<u32> {
    let part = bytes.get(at..at + length)?;
    Some(part.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte)))
}

/// Walks the segments up to the first frame header.
fn jpeg(bytes: &[u8]) -> Option<(u32, u32)> {
    let mut at = 2;
    loop {
        if *bytes.get(at)? != 0xff {
            return None;
        }
        let marker = *bytes.get(at + 1)?;
        match marker {
            0xff => at += 1,
            0x01 | 0xd0..=0xd8 => at += 2,
            0xc0..=0xc3 | 0xc5..=0xc7 | 0xc9..=0xcb | 0xcd..=0xcf => {
                return Some((big(bytes, at + 7, 2)?, big(bytes, at + 5, 2)?));
            }
            0xd9 | 0xda => return None,
            _ => at += 2 + usize::try_from(big(bytes, at + 2, 2)?.max(2)).ok()?,
        }
    }
}

fn webp(bytes: &[u8]) -> Option<(u32, u32)> {
    match bytes.get(12..16)? {
        b"VP8X" => Some((little(bytes, 24, 3)? + 1, little(bytes, 27, 3)? + 1)),
        b"VP8L" => {
            let bits = little(bytes, 21, 4)?;
            Some(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8 " => Some((little(bytes, 26, 2)? & 0x3fff, little(bytes, 28, 2)? & 0x3fff)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_size_of_an_image_is_read_from_its_header() {
        let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x07\xd0\0\0\0\x10";
        let gif = b"GIF89a\x10\0\x20\0";
        let jpeg = b"\xff\xd8\xff\xe0\0\x04ab\xff\xc0\0\x11\x08\0\x20\0\x40\x03";
        let webp = b"RIFF\0\0\0\0WEBPVP8X\x0a\0\0\0\0\0\0\0\x0f\0\0\x1f\0\0";
        let sizes = [&png[..], gif, jpeg, webp]
            .map(|bytes| Kind::of(bytes).and_then(|kind| kind.dimensions(bytes)));
        assert_eq!(sizes, [Some((2_000, 16)), Some((16, 32)), Some((64, 32)), Some((16, 32))]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(mut bytes: Vec<u8>, kind in 0_usize..4) {
            let starts = [&b"\x89PNG\r\n\x1a\n"[..], b"\xff\xd8\xff", b"GIF89a", b"RIFF\0\0\0\0WEBPVP8 "];
            bytes.splice(0..0, starts[kind].iter().copied());
            let _size = Kind::of(&bytes).unwrap().dimensions(&bytes);
        }
    }
}
