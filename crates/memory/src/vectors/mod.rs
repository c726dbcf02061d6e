//! Vectors: their check, their bytes, and the search for the closest ones over codes.
//!
//! It must never compare vectors of different models: a set of codes is of one.

mod best;
pub mod codes;
mod fine;
mod rotation;
mod scan;
pub mod vector;
