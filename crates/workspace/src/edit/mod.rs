//! The tool `edit`: replaces texts that are in a file exactly once. `fold` and `locate` find a text, `replace` makes the new
//! content, `diff` shows it (`changes` compares
//! lines).

mod changes;
mod diff;
mod fold;
mod locate;
mod replace;

#[cfg(target_os = "linux")]
mod tool;

pub(crate) use diff::diff_texts;
#[cfg(target_os = "linux")]
pub(crate) use tool::{edit, outcome};
