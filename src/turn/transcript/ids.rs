//! Call ids as an API takes them: of its alphabet and length, and unique in the transcript.
//!
//! Derived from the ids that came before, never random: the same transcript always gets the same ids. An id that is
//! already fine must never change.

use std::collections::{HashMap, HashSet};

use crate::model::Api;

/// The longest id all APIs here take.
const MAX_ID: usize = 64;

/// The ids in use.
#[derive(Debug, Clone)]
pub(super) struct WireIds {
    api: Api,
    used: HashSet<String>,
    /// The next suffix to try for an id that came again.
    next: HashMap<String, u64>,
}

impl WireIds {
    pub(super) fn new(api: Api) -> Self {
        Self { api, used: HashSet::new(), next: HashMap::new() }
    }

    /// Whose ids these are.
    pub(super) fn api(&self) -> Api {
        self.api
    }

    /// The id on the wire for the next call, whose id is `id`.
    pub(super) fn assign(&mut self, id: &str) -> String {
        let base: String =
            id.chars().map(|c| if self.allowed(c) { c } else { '_' }).take(MAX_ID).collect();
        if self.used.insert(base.clone()) {
            return base;
        }
        let next = self.next.entry(base.clone()).or_insert(2);
        loop {
            let suffix = format!("_{next}");
            *next += 1;
            // Every allowed character is one byte long.
            let stem = base.get(..base.len().min(MAX_ID - suffix.len())).unwrap_or_default();
            let candidate = format!("{stem}{suffix}");
            if self.used.insert(candidate.clone()) {
                return candidate;
            }
        }
    }

    fn allowed(&self, c: char) -> bool {
        match self.api {
            Api::AnthropicMessages => c.is_ascii_alphanumeric() || c == '_' || c == '-',
            Api::OpenaiChat | Api::Scripted => c.is_ascii_graphic(),
        }
    }
}
