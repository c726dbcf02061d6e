//! The function calls of one response: their ids, and which of them are repetitions.
//!
//! The API may leave out ids; the engine's own id is derived from the response and never random. Two calls of one message
//! must never share an id.

use std::collections::{HashMap, VecDeque};

use crate::{Delta, DeltaSink};

/// The calls so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// The position of each id: an answer may have very many.
    ids: HashMap<String, usize>,
    /// The undecided calls of each name, in order.
    undecided: HashMap<String, VecDeque<usize>>,
}

#[derive(Debug)]
struct Call {
    id: String,
    has_own_id: bool,
    name: String,
    args: String,
    block: u32,
    whole: bool,
    owner: Owner,
}

/// The owner of a call.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Ours,
    /// Of an unknown tool: the provider's if its result follows, else of the context. With its provider data.
    Undecided(Option<String>),
    Provider,
}

impl Calls {
    /// Whether none of them is of the context.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.iter().all(|call| call.owner == Owner::Provider)
    }

    /// The block of the call of a provider-run result.
    pub(super) fn answered(&mut self, id: &str, name: &str) -> Option<u32> {
        if let Some(position) = self.ids.get(id).copied() {
            return self.give_away(position);
        }
        // Without ids the results are in the order of the calls.
        while let Some(position) = self.undecided.get_mut(name)?.pop_front() {
            if let Some(block) = self.give_away(position) {
                return Some(block);
            }
        }
        None
    }

    fn give_away(&mut self, position: usize) -> Option<u32> {
        let call = self.calls.get_mut(position)?;
        if !matches!(call.owner, Owner::Undecided(_)) {
            return None;
        }
        call.owner = Owner::Provider;
        Some(call.block)
    }

    /// Returns the undecided calls without a provider's result: they are of tools of the context.
    pub(super) fn decide(&mut self, sink: &mut dyn DeltaSink) {
        for call in &mut self.calls {
            if let Owner::Undecided(attached) = &mut call.owner {
                let (index, attached) = (call.block, attached.take());
                call.owner = Owner::Ours;
                sink.delta(Delta::BecameCall { index, id: &call.id, name: &call.name });
                if let Some(json) = &attached {
                    sink.delta(Delta::ProviderData { index, json });
                }
                sink.delta(Delta::Arguments { index, json: &call.args });
            }
        }
    }

    /// Whether this call is a repetition of an earlier one. Without a provider's id two equal calls are two.
    pub(super) fn is_repeated(&self, id: &str, name: &str, args: &str) -> bool {
        let known = self.ids.get(id).and_then(|at| self.calls.get(*at));
        known.is_some_and(|call| call.has_own_id && call.name == name && call.args == args)
    }

    /// The id of a new call: the provider's, if it sent one that is not in use.
    pub(super) fn id_of(&self, given: &str, response_id: &str) -> String {
        let taken = |id: &str| self.ids.contains_key(id);
        if !given.is_empty() && !taken(given) {
            return given.to_owned();
        }
        let response: String =
            response_id.chars().filter(char::is_ascii_alphanumeric).take(24).collect();
        let mut number = self.calls.len() + 1;
        loop {
            let id = format!("call{response}x{number}");
            if !taken(&id) {
                return id;
            }
            number += 1;
        }
    }

    /// Adds a call; `args` is `None` while its arguments are incomplete.
    pub(super) fn push(
        &mut self,
        id: String,
        has_own_id: bool,
        name: &str,
        args: Option<&str>,
        block: u32,
        owner: Owner,
    ) {
        let whole = args.is_some();
        let args = args.unwrap_or_default().to_owned();
        self.ids.insert(id.clone(), self.calls.len());
        if let Owner::Undecided(_) = &owner {
            self.undecided.entry(name.to_owned()).or_default().push_back(self.calls.len());
        }
        self.calls.push(Call { id, has_own_id, name: name.to_owned(), args, block, whole, owner });
    }

    /// Marks the newest call as whole.
    pub(super) fn complete(&mut self) {
        if let Some(call) = self.calls.last_mut() {
            call.whole = true;
        }
    }

    /// The blocks of the whole calls.
    pub(super) fn whole(&self) -> impl Iterator<Item = u32> + '_ {
        let ours = self.calls.iter().filter(|call| call.whole && call.owner == Owner::Ours);
        ours.map(|call| call.block)
    }

    /// Whether the arguments of a call are incomplete.
    pub(super) fn any_cut(&self) -> bool {
        self.calls.iter().any(|call| !call.whole)
    }
}
