//! Which tool call a fragment belongs to, with the numbering of any server
//! (docs/rules/wire/openai-chat.md#which-call-a-fragment-belongs-to).
//!
//! Order: by id, then by index, then "a new name begins a new call". It must never merge two calls.

use std::collections::HashMap;

use serde::de::IgnoredAny;

use crate::json::{with_field, write_string};
use crate::members::Members;

/// The calls of one response, in order of appearance.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    /// The latest call of each index, and of each id: an answer may have very many.
    indexes: HashMap<u64, usize>,
    ids: HashMap<String, usize>,
}

/// One call so far.
#[derive(Debug)]
pub(super) struct Call {
    /// Its block.
    pub(super) block: u32,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
    /// The provider runs it: it is stored whole, and is no call of the context.
    pub(super) provider_run: bool,
    pub(super) kind: String,
    /// The unknown members of the call, and of its function: the newest value of each.
    pub(super) beside: Beside,
}

/// The unknown members of a call, over all its fragments.
#[derive(Debug, Default)]
pub(super) struct Beside {
    call: Vec<(String, String)>,
    function: Vec<(String, String)>,
}

impl Beside {
    /// Adds those of one fragment; false where it has none.
    pub(super) fn take(&mut self, call: &Members<'_>, function: &Members<'_>) -> bool {
        for (stored, members) in [(&mut self.call, call), (&mut self.function, function)] {
            for (name, value) in members.iter() {
                match stored.iter_mut().find(|(known, _)| known == name) {
                    Some((_, newest)) => value.clone_into(newest),
                    None => stored.push((name.to_owned(), value.to_owned())),
                }
            }
        }
        !call.is_empty() || !function.is_empty()
    }

    /// All of them as one object, those of the function in an inner one.
    pub(super) fn object(&self) -> String {
        let function = object(&self.function, None);
        object(&self.call, Some(&function).filter(|_| !self.function.is_empty()))
    }
}

fn object(members: &[(String, String)], function: Option<&String>) -> String {
    let mut out = b"{".to_vec();
    let function = function.map(|json| ("function", json.as_str()));
    let members = members.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (position, (name, value)) in members.chain(function).enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write_string(&mut out, name);
        out.push(b':');
        out.extend_from_slice(value.as_bytes());
    }
    out.push(b'}');
    String::from_utf8(out).unwrap_or_default()
}

impl Call {
    /// A provider-run call, as an opaque block.
    pub(super) fn as_opaque(&self) -> Option<String> {
        let mut function = b"{\"name\":".to_vec();
        write_string(&mut function, &self.name);
        function.extend_from_slice(b",\"arguments\":");
        write_string(&mut function, &self.arguments);
        function.push(b'}');
        let mut id = Vec::new();
        write_string(&mut id, &self.id);
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).ok();
        let mut call = with_field(&self.beside.object(), "id", &text(id)?)?;
        if !self.kind.is_empty() {
            let mut kind = Vec::new();
            write_string(&mut kind, &self.kind);
            call = with_field(&call, "type", &text(kind)?)?;
        }
        with_field(&call, "function", &text(function)?)
    }

    /// Whether the arguments are a whole JSON object. A prefix of an object never is.
    pub(super) fn is_whole(&self) -> bool {
        self.arguments.trim_start().starts_with('{')
            && serde_json::from_str::<IgnoredAny>(&self.arguments).is_ok()
    }
}

/// The call of a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallPosition {
    /// An earlier call, by its position.
    Known(usize),
    /// A new call.
    New,
    /// A repetition of an earlier whole call.
    Repeated,
}

impl Calls {
    /// Whether none of them is of the context.
    pub(super) fn is_empty(&self) -> bool {
        self.calls.iter().all(|call| call.provider_run)
    }

    /// Those of the context.
    pub(super) fn ours(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter().filter(|call| !call.provider_run)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Call> {
        self.calls.iter()
    }

    pub(super) fn get_mut(&mut self, position: usize) -> Option<&mut Call> {
        self.calls.get_mut(position)
    }

    /// Adds a call, and returns its position.
    pub(super) fn push(&mut self, call: Call) -> usize {
        self.calls.push(call);
        let position = self.calls.len() - 1;
        self.identify(position);
        position
    }

    /// Stores the id of a call, which may arrive late.
    pub(super) fn identify(&mut self, position: usize) {
        if let Some(call) = self.calls.get(position).filter(|call| !call.id.is_empty()) {
            self.ids.insert(call.id.clone(), position);
        }
    }

    /// Records that fragments with `index` belong to the call at `position`.
    pub(super) fn number(&mut self, index: Option<u64>, position: usize) {
        if let Some(index) = index {
            self.indexes.insert(index, position);
        }
    }

    /// The call to which a fragment belongs.
    pub(super) fn position_of(
        &self,
        index: Option<u64>,
        id: &str,
        name: &str,
        arguments: &str,
    ) -> CallPosition {
        if let Some(position) = self.ids.get(id).copied() {
            return self.same_or_next(position, name, arguments);
        }
        let numbered = index.and_then(|index| self.indexes.get(&index).copied());
        let candidate = match (index, numbered) {
            (_, Some(position)) => position,
            // A new index begins a call, if the fragment has a name; otherwise it is the last call with a new number.
            (Some(_), None) if !name.is_empty() || !id.is_empty() => return CallPosition::New,
            (_, None) => match self.calls.len().checked_sub(1) {
                Some(last) => last,
                None => return CallPosition::New,
            },
        };
        let Some(call) = self.calls.get(candidate) else { return CallPosition::New };
        if name.is_empty() {
            // Without a name no call begins, even with a new id: some servers send a new id with every fragment.
            return CallPosition::Known(candidate);
        }
        let other_id = !id.is_empty() && !call.id.is_empty();
        let other_name = !call.name.is_empty() && call.name != name;
        if other_id || other_name {
            return CallPosition::New;
        }
        if numbered.is_none() && !id.is_empty() {
            return CallPosition::New;
        }
        self.same_or_next(candidate, name, arguments)
    }

    /// A fragment with a name for an earlier call: its name again, the whole call again, or a second call with the same number.
    fn same_or_next(&self, position: usize, name: &str, arguments: &str) -> CallPosition {
        let Some(call) = self.calls.get(position) else { return CallPosition::New };
        let begins_anew = !name.is_empty() && arguments.trim_start().starts_with('{');
        if !begins_anew || !call.is_whole() {
            return CallPosition::Known(position);
        }
        // With an id, a repeated call is one; two equal calls without ids are two.
        if call.name == name && call.arguments == arguments && !call.id.is_empty() {
            return CallPosition::Repeated;
        }
        CallPosition::New
    }
}
