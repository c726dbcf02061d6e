//! The tools `find` and `grep`: `walk` goes through a directory by handles, `rules` has what `.gitignore` excludes, `pattern`
//! compiles what a model gives, `lines` finds the matching lines of a file, `batch` those of some files, on each of the `threads`, and
//! `report` makes the result.

mod batch;
mod find;
mod grep;
mod lines;
mod pattern;
mod report;
mod rules;
mod threads;
mod walk;

pub(crate) use find::find;
pub(crate) use grep::grep;
