//! The function calls of one response: their ids, and which of them came twice.
//!
//! The API need not name its calls; a name of ours is derived from the response and never random. Two calls of one
//! message must never share an id.

/// The calls so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
}

#[derive(Debug)]
struct Call {
    id: String,
    told: bool,
    name: String,
    args: String,
    block: u32,
    whole: bool,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether this very call came before: a repeated chunk. Without an id of the provider two equal calls are two.
    pub(super) fn is_repeated(&self, id: &str, name: &str, args: &str) -> bool {
        !id.is_empty()
            && self
                .calls
                .iter()
                .any(|call| call.told && call.id == id && call.name == name && call.args == args)
    }

    /// The id of a call that begins now: the provider's where it gave one that is not taken.
    pub(super) fn id_of(&self, given: &str, response_id: &str) -> String {
        let taken = |id: &str| self.calls.iter().any(|call| call.id == id);
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

    /// Adds a call; `args` is `None` while its arguments are still to come.
    pub(super) fn push(
        &mut self,
        id: String,
        told: bool,
        name: &str,
        args: Option<&str>,
        block: u32,
    ) {
        let whole = args.is_some();
        let args = args.unwrap_or_default().to_owned();
        self.calls.push(Call { id, told, name: name.to_owned(), args, block, whole });
    }

    /// The newest call is whole.
    pub(super) fn complete(&mut self) {
        if let Some(call) = self.calls.last_mut() {
            call.whole = true;
        }
    }

    /// The blocks of the calls that came whole.
    pub(super) fn whole(&self) -> impl Iterator<Item = u32> + '_ {
        self.calls.iter().filter(|call| call.whole).map(|call| call.block)
    }

    /// Whether a call never got the end of its arguments.
    pub(super) fn any_cut(&self) -> bool {
        self.calls.iter().any(|call| !call.whole)
    }
}
