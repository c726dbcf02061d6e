//! Care of a ledger: is it whole, a copy of it, what is in it, and its free pages given back.
//!
//! Owns `verify`, `backup`, `stats` and `vacuum` as the host calls them. It must never change what a turn says.

pub(crate) mod backup;
mod check;
mod index;
mod shape;
pub(crate) mod stats;
pub(crate) mod vacuum;
pub(crate) mod verify;
