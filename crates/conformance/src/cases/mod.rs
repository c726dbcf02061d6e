//! The cases, by what they are about. Each is given a fresh store of its own.

pub mod commit;
pub mod history;
pub mod journal;
pub mod naming;
pub mod reading;
pub mod transfer;
