//! The broker for JavaScript: its decisions as functions, and its driver. It must never decide anything.

mod agents;
mod decisions;
mod dispatch;
mod json;
mod outbox;
mod problems;
mod prompts;
mod schedules;
