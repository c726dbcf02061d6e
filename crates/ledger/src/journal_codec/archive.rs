//! Events of an ended run, compressed: the content of an event batch as LZ4, or as it is where that is not shorter.
//!
//! Pure. The row's checksum covers the result; it must never allocate more than a batch may have.

use super::bytes::{ByteReader, ByteWriter};

/// The version of the format.
const VERSION: u8 = 1;
/// The longest content.
const LONGEST: usize = 64 << 20;

/// The archived form of a batch's content.
pub(crate) fn pack(content: &[u8]) -> Vec<u8> {
    let packed = lz4_flex::block::compress(content);
    let (codec, data) =
        if packed.len() < content.len() { (1, packed.as_slice()) } else { (0, content) };
    let mut out = ByteWriter(Vec::with_capacity(data.len() + 8));
    out.byte(VERSION);
    out.byte(codec);
    out.length(content.len());
    out.0.extend_from_slice(data);
    out.0
}

/// The content of an archived batch; `None` where it cannot be read.
pub(crate) fn unpack(archived: &[u8]) -> Option<Vec<u8>> {
    let mut from = ByteReader(archived);
    let (version, codec) = (from.byte()?, from.byte()?);
    let length = from.length().filter(|length| *length <= LONGEST)?;
    let content = match (version, codec) {
        (VERSION, 0) => from.0.to_vec(),
        (VERSION, 1) => lz4_flex::block::decompress(from.0, length).ok()?,
        _ => return None,
    };
    (content.len() == length).then_some(content)
}
