//! Text of files: its encoding, and how much of it a result has.

mod encoding;
mod truncation;

pub(crate) use encoding::{Encoding, detect};
pub(crate) use truncation::{MAX_BYTES, MAX_LINES, TruncatedBy, Truncation, format_size};
