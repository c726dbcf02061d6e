//! All problems of a refused input: what was refused is replaced by a usable value, and the rest is read again.
//!
//! The readers themselves stop at the first problem, so that the usual input is read once. It must never change what a
//! reader accepts, and never read without a bound.

use serde_json::{Map, Value, json};

use crate::data::input::field::InputError;

/// The limit of problems.
const MAX_PROBLEMS: usize = 50;
/// The limit of bytes that are read in search of them.
const MAX_BYTES: usize = 128 << 20;

/// The problems of `text`, JSON that `read` refuses; `read` returns the first problem of a text. The first one is that of
/// `text` itself. Not every problem is found inside a part that could not be replaced by a usable value.
pub fn all_problems(
    text: &str,
    mut read: impl FnMut(&str) -> Option<InputError>,
) -> Vec<InputError> {
    let mut problems = Vec::new();
    let Some(mut problem) = read(text) else { return problems };
    let Ok(root) = serde_json::from_str::<Value>(text) else { return vec![problem] };
    let mut search = Search {
        root,
        bytes: text.len(),
        repaired: Vec::new(),
        replaced: Vec::new(),
        read: &mut read,
    };
    loop {
        let path = problem.path.as_str();
        let is_ours = search.replaced.iter().any(|replaced| {
            let rest = path.strip_prefix(replaced.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        });
        if !is_ours && !search.repaired.iter().any(|repaired| follows(repaired, &problem)) {
            problems.push(problem.clone());
        }
        if problems.len() == MAX_PROBLEMS {
            return problems;
        }
        match search.repair(&problem) {
            Repair::Next(next) => problem = next,
            Repair::Usable | Repair::Impossible => return problems,
        }
        if search.repaired.contains(&problem.path) {
            return problems;
        }
    }
}

/// Whether a problem may come from what stands at `repaired` now.
fn follows(repaired: &str, problem: &InputError) -> bool {
    let path = problem.path.as_str();
    let parent = |path: &str| path.rsplit_once('.').map_or("", |(parent, _)| parent).to_owned();
    let within = |parent: &str| path.starts_with(parent) && !parent.is_empty();
    let is_missing = problem.message.starts_with("is missing");
    match repaired.rsplit('.').next().unwrap_or_default() {
        "type" if is_missing && within(&parent(repaired)) => true,
        "role" if problem.message.starts_with("belongs into") => within(&parent(repaired)),
        "replay" if path.ends_with(".retries") => parent(repaired) == parent(path),
        "api" | "flavor" | "baseUrl" if within(&parent(repaired)) => true,
        // A target without what was wrong in it names nothing.
        _ if path == "to" => repaired.starts_with("to."),
        _ if repaired.starts_with("tools") => path.starts_with("toolChoice"),
        _ if repaired.starts_with("providers") => {
            path.starts_with("failover")
                || (path.starts_with("authProfiles") && path.ends_with(".provider"))
        }
        _ => false,
    }
}

/// How a repair ended.
enum Repair {
    /// The rest has no problem.
    Usable,
    /// The rest has this problem.
    Next(InputError),
    /// No value is usable there, or the bound is reached.
    Impossible,
}

struct Search<'a> {
    root: Value,
    bytes: usize,
    /// The paths of the problems so far.
    repaired: Vec<String>,
    /// The paths at which a value was put in place of another: what is wrong in there is no problem of the input.
    replaced: Vec<String>,
    read: &'a mut dyn FnMut(&str) -> Option<InputError>,
}

/// A step from a value into it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Search<'_> {
    /// Replaces what is at the problem's path, or what it is in.
    fn repair(&mut self, problem: &InputError) -> Repair {
        let mut steps = steps(&self.root, &problem.path);
        while !steps.is_empty() {
            for candidate in self.candidates(&steps, problem) {
                let before = put(&mut self.root, &steps, candidate);
                let text = self.root.to_string();
                self.bytes = self.bytes.saturating_add(text.len());
                if self.bytes > MAX_BYTES {
                    return Repair::Impossible;
                }
                match (self.read)(&text) {
                    None => return Repair::Usable,
                    Some(next) if next.path != problem.path => {
                        self.repaired.push(problem.path.clone());
                        self.replaced.push(path_of(&steps));
                        return Repair::Next(next);
                    }
                    Some(_) => {
                        put(&mut self.root, &steps, before);
                    }
                }
            }
            steps.pop();
        }
        Repair::Impossible
    }

    /// What may be usable at a path, the likelier first; `None` leaves the field out.
    fn candidates(&self, steps: &[Step], problem: &InputError) -> Vec<Option<Value>> {
        // A name may be unique.
        let name = format!("x{}", self.repaired.len());
        let mut values = Vec::new();
        if let Some(Step::Key(key)) = steps.last() {
            // Without its address, the rest would be read as that of something else.
            let address = match (key.as_str(), steps.first()) {
                ("url", Some(Step::Key(of))) if of == "ledger" => Some("postgres://x@localhost/x"),
                ("url", Some(Step::Key(of))) if of == "mcp" => Some("https://localhost"),
                _ => None,
            };
            values.extend(address.map(|address| Some(json!(address))));
            values.push(None);
            let named = match key.as_str() {
                "provider" => {
                    let providers = self.root.get("providers").and_then(Value::as_object);
                    providers.map_or(Some(json!("anthropic")), first)
                }
                "role" => Some(json!("user")),
                "type" => Some(json!("text")),
                _ => None,
            };
            values.extend(named.map(Some));
        }
        let (_, allowed) = problem.message.split_once("expected ").unwrap_or_default();
        values.extend(allowed.split('`').nth(1).map(|word| Some(json!(word))));
        values.extend(
            [
                json!(name),
                json!(1_000),
                json!(1),
                json!([]),
                json!({}),
                json!(true),
                json!({ "role": "user", "content": "x" }),
                json!({ "type": "text", "text": "x" }),
                json!({ "name": name, "description": "", "parameters": {} }),
                json!({ "api": "scripted", "script": [] }),
            ]
            .map(Some),
        );
        values
    }
}

fn first(fields: &Map<String, Value>) -> Option<Value> {
    fields.keys().next().map(|name| json!(name))
}

fn path_of(steps: &[Step]) -> String {
    let mut path = String::new();
    for step in steps {
        match step {
            Step::Key(key) if path.is_empty() => path.push_str(key),
            Step::Key(key) => path.extend([".", key]),
            Step::Index(index) => path.push_str(&format!("[{index}]")),
        }
    }
    path
}

/// The steps to a path, as far as it is there; the last one may lead to a field that is not.
fn steps(value: &Value, path: &str) -> Vec<Step> {
    let into = |step: Step, value: &Value, rest: &str| {
        let mut steps = vec![step];
        steps.extend(self::steps(value, rest.strip_prefix('.').unwrap_or(rest)));
        steps
    };
    let found = match value {
        Value::Array(items) => path.strip_prefix('[').and_then(|path| {
            let (index, rest) = path.split_once(']')?;
            let index = index.parse().ok()?;
            Some(into(Step::Index(index), items.get(index)?, rest))
        }),
        Value::Object(_) if path.is_empty() => None,
        Value::Object(fields) => {
            // A name may have dots itself.
            let inner = fields.iter().find_map(|(name, value)| {
                let rest = path.strip_prefix(name.as_str())?;
                let ends = rest.is_empty() || rest.starts_with(['.', '[']);
                ends.then(|| into(Step::Key(name.clone()), value, rest))
            });
            let absent = || (!path.contains(['.', '['])).then(|| vec![Step::Key(path.to_owned())]);
            inner.or_else(absent)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    };
    found.unwrap_or_default()
}

/// Puts a value at the end of `steps`, or removes it; returns what was there.
fn put(root: &mut Value, steps: &[Step], value: Option<Value>) -> Option<Value> {
    let (last, before) = steps.split_last()?;
    let mut at = root;
    for step in before {
        at = match step {
            Step::Key(key) => at.get_mut(key)?,
            Step::Index(index) => at.get_mut(index)?,
        };
    }
    match (at, last, value) {
        (Value::Object(fields), Step::Key(key), Some(value)) => fields.insert(key.clone(), value),
        (Value::Object(fields), Step::Key(key), None) => fields.remove(key),
        (Value::Array(items), Step::Index(index), Some(value)) => {
            items.get_mut(*index).map(|item| std::mem::replace(item, value))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
