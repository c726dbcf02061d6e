//! The cases, by subject. Each gets a new store, and must never use more than that store and its ports.

#![expect(missing_docs, reason = "the name of a case is the sentence that it proves")]

pub mod approvals;
pub mod cache;
pub mod commands;
pub mod commit;
pub mod deletion;
pub mod deliveries;
pub mod events;
pub mod history;
pub mod journal;
pub mod leases;
pub mod moves;
pub mod naming;
pub mod profiles;
pub mod queue;
pub mod reading;
pub mod recall;
pub mod reservations;
pub mod transfer;
