//! The cases, by subject. Each gets a new store, and uses nothing but that store and its ports.

pub mod cache;
pub mod commands;
pub mod commit;
pub mod events;
pub mod history;
pub mod journal;
pub mod leases;
pub mod naming;
pub mod profiles;
pub mod reading;
pub mod recall;
pub mod transfer;
