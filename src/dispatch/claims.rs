//! What a dispatcher knows of its outbox: the deliveries that the host has, and what it waits for. It must never act.

use std::collections::HashMap;

/// What the outbox of this process is doing.
#[derive(Default)]
pub(super) struct Outbox {
    /// A host takes deliveries.
    pub(super) is_listening: bool,
    /// A task is claiming.
    pub(super) is_claiming: bool,
    /// Something was added or has ended meanwhile.
    pub(super) has_changed: bool,
    /// A task renews the claims.
    pub(super) is_renewing: bool,
    /// When it looks again, in Unix milliseconds.
    pub(super) timer: Option<i64>,
    /// The deliveries that the host has, with the epochs of their claims.
    pub(super) claims: HashMap<String, i64>,
}
