//! The tool `read`: lines of a text, or an image. Its sentences are pi's, so that a model reads what it knows.

mod image;
mod window;

#[cfg(target_os = "linux")]
mod tool;

#[cfg(target_os = "linux")]
pub(crate) use tool::{MAX_WHOLE, START, read, read_start, read_whole};
