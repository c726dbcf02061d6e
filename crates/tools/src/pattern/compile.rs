//! Compiles a parsed pattern to a program.
//!
//! It must never write more than the limit, however the repeats are nested, and supports only ECMAScript's syntax.

use std::collections::HashMap;
use std::sync::Arc;

use fancy_regex::{Expr, LookAround};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, HirKind};

use super::program::{Assertion, Inst, MAX_INSTRUCTIONS, Program, Set};

/// Compiles a pattern.
pub(super) fn program(pattern: &Expr) -> Result<Program, String> {
    let mut traits = Traits::default();
    traits.read(pattern);
    let mut compiler = Compiler {
        code: Vec::new(),
        sets: Vec::new(),
        known: HashMap::new(),
        groups: traits.refers_back.then_some(traits.groups),
        choices: 0,
        slots: if traits.refers_back { traits.count * 2 + 2 } else { 0 },
    };
    compiler.expr(pattern, false)?;
    compiler.push(Inst::Accept)?;
    let Compiler { code, sets, choices, slots, .. } = compiler;
    Ok(Program {
        is_anchored: matches!(
            first(pattern),
            Some(Expr::Assertion(fancy_regex::Assertion::StartText))
        ),
        code,
        sets,
        choices,
        slots,
        is_regular: !traits.looks && !traits.refers_back,
        refers_back: traits.refers_back,
    })
}

/// The first part of a sequence.
fn first(pattern: &Expr) -> Option<&Expr> {
    match pattern {
        Expr::Concat(parts) => parts.first().and_then(first),
        Expr::Group(inner) => first(inner),
        other => Some(other),
    }
}

/// The facts that are needed before the first instruction.
#[derive(Default)]
struct Traits {
    looks: bool,
    refers_back: bool,
    /// Groups by address, numbered as they are written.
    groups: HashMap<*const Expr, u32>,
    count: u32,
}

impl Traits {
    fn read(&mut self, expr: &Expr) {
        match expr {
            Expr::Group(inner) => {
                self.count = self.count.saturating_add(1);
                self.groups.insert(Arc::as_ptr(inner), self.count);
            }
            Expr::LookAround(..) => self.looks = true,
            Expr::Backref { .. } => self.refers_back = true,
            _ => {}
        }
        for child in expr.children_iter() {
            self.read(child);
        }
    }
}

struct Compiler {
    code: Vec<Inst>,
    sets: Vec<Set>,
    /// Sets by their text: repeats write the same one often.
    known: HashMap<(String, bool), u32>,
    /// Present if the pattern has back-references; otherwise the text of a group is not needed.
    groups: Option<HashMap<*const Expr, u32>>,
    choices: u32,
    slots: u32,
}

type Done = Result<(), String>;

impl Compiler {
    fn expr(&mut self, expr: &Expr, back: bool) -> Done {
        match expr {
            Expr::Empty => Ok(()),
            Expr::Any { newline: true, .. } => self.named("any", back, || Set::Any),
            Expr::Any { newline: false, crlf: false } => {
                self.named("not newline", back, || Set::NotNewline)
            }
            Expr::Assertion(assertion) => {
                let assertion = assertion_of(assertion).ok_or_else(unknown)?;
                self.push(Inst::Assert(assertion))
            }
            Expr::Literal { val, casei } => {
                let chars: Vec<char> =
                    if back { val.chars().rev().collect() } else { val.chars().collect() };
                chars.into_iter().try_for_each(|c| {
                    let text = c.to_string();
                    if *casei {
                        self.class(&regex_syntax::escape(&text), true, back)
                    } else {
                        self.named(&text, back, || Set::Char(c))
                    }
                })
            }
            Expr::Concat(parts) if back => {
                parts.iter().rev().try_for_each(|part| self.expr(part, back))
            }
            Expr::Concat(parts) => parts.iter().try_for_each(|part| self.expr(part, back)),
            Expr::Alt(ways) => self.alternatives(ways, back),
            Expr::Group(inner) => self.group(inner, back),
            Expr::LookAround(inner, kind) => {
                let (negated, behind) = match kind {
                    LookAround::LookAhead => (false, false),
                    LookAround::LookAheadNeg => (true, false),
                    LookAround::LookBehind => (false, true),
                    LookAround::LookBehindNeg => (true, true),
                };
                let look = self.push_at(Inst::Look { negated, next: 0 })?;
                self.expr(inner, behind)?;
                self.push(Inst::Accept)?;
                let next = self.here()?;
                self.set(look, Inst::Look { negated, next });
                Ok(())
            }
            Expr::Repeat { child, lo, hi, greedy } => self.repeat(child, (*lo, *hi), *greedy, back),
            Expr::Delegate { inner, casei } => self.class(inner, *casei, back),
            Expr::Backref { group, casei } => {
                let group = u32::try_from(*group).map_err(|_| unknown())?;
                let start = group
                    .checked_mul(2)
                    .filter(|start| start + 1 < self.slots)
                    .ok_or_else(unknown)?;
                self.push(Inst::Back { start, end: start + 1, back, any_case: *casei })
            }
            // Syntax of other languages that ECMAScript does not have.
            _ => Err(unknown()),
        }
    }

    fn group(&mut self, inner: &Arc<Expr>, back: bool) -> Done {
        let number =
            self.groups.as_ref().and_then(|groups| groups.get(&Arc::as_ptr(inner))).copied();
        let Some(number) = number else { return self.expr(inner, back) };
        let (start, end) = (number * 2, number * 2 + 1);
        self.push(Inst::Save(if back { end } else { start }))?;
        self.expr(inner, back)?;
        self.push(Inst::Save(if back { start } else { end }))
    }

    fn alternatives(&mut self, ways: &[Expr], back: bool) -> Done {
        let Some((last, others)) = ways.split_last() else { return Ok(()) };
        let mut ends = Vec::with_capacity(others.len());
        for way in others {
            let split = self.split()?;
            self.expr(way, back)?;
            ends.push(self.push_at(Inst::Jump(0))?);
            let next = self.here()?;
            self.aim(split, next, true);
        }
        self.expr(last, back)?;
        let end = self.here()?;
        for jump in ends {
            self.set(jump, Inst::Jump(end));
        }
        Ok(())
    }

    fn repeat(&mut self, child: &Expr, (lo, hi): (usize, usize), greedy: bool, back: bool) -> Done {
        for _ in 0..lo {
            let before = self.code.len();
            self.expr(child, back)?;
            // An empty sequence stays empty however often it is repeated.
            if self.code.len() == before {
                return Ok(());
            }
        }
        if hi == usize::MAX {
            let split = self.split()?;
            let start_slot = can_be_empty(child).then(|| self.slot());
            if let Some(slot) = start_slot {
                self.push(Inst::Save(slot))?;
            }
            self.expr(child, back)?;
            if let Some(slot) = start_slot {
                self.push(Inst::Moved(slot))?;
            }
            let top = u32::try_from(split).map_err(|_| too_large())?;
            self.push(Inst::Jump(top))?;
            let next = self.here()?;
            self.aim(split, next, greedy);
            return Ok(());
        }
        let mut splits = Vec::new();
        for _ in lo..hi {
            splits.push(self.split()?);
            let before = self.code.len();
            self.expr(child, back)?;
            if self.code.len() == before {
                break;
            }
        }
        let next = self.here()?;
        for split in splits {
            self.aim(split, next, greedy);
        }
        Ok(())
    }

    /// A set in the syntax of the linear engine's crates.
    fn class(&mut self, written: &str, any_case: bool, back: bool) -> Done {
        if let Some(&set) = self.known.get(&(written.to_owned(), any_case)) {
            return self.push(Inst::One { set, back });
        }
        let hir = ParserBuilder::new()
            .case_insensitive(any_case)
            .build()
            .parse(written)
            .map_err(|_| unknown())?;
        let set = match hir.kind() {
            HirKind::Class(Class::Unicode(class)) => {
                Set::of(class.iter().map(|range| (range.start(), range.end())))
            }
            HirKind::Class(Class::Bytes(class)) => Set::of(
                class.iter().map(|range| (char::from(range.start()), char::from(range.end()))),
            ),
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).map_err(|_| unknown())?;
                let mut chars = text.chars();
                match (chars.next(), chars.next()) {
                    (Some(only), None) => Set::Char(only),
                    _ => return Err(unknown()),
                }
            }
            _ => return Err(unknown()),
        };
        let set = self.add(written.to_owned(), any_case, set)?;
        self.push(Inst::One { set, back })
    }

    fn named(&mut self, name: &str, back: bool, set: impl FnOnce() -> Set) -> Done {
        let key = (format!("\0{name}"), false);
        let set = match self.known.get(&key) {
            Some(&set) => set,
            None => self.add(key.0, false, set())?,
        };
        self.push(Inst::One { set, back })
    }

    fn add(&mut self, written: String, any_case: bool, set: Set) -> Result<u32, String> {
        let at = u32::try_from(self.sets.len()).map_err(|_| too_large())?;
        self.sets.push(set);
        self.known.insert((written, any_case), at);
        Ok(at)
    }

    fn slot(&mut self) -> u32 {
        let slot = self.slots;
        self.slots = self.slots.saturating_add(1);
        slot
    }

    /// A choice with its second target set later.
    fn split(&mut self) -> Result<usize, String> {
        let choice = self.choices;
        self.choices = self.choices.saturating_add(1);
        let first = self.here()?.saturating_add(1);
        self.push_at(Inst::Split { first, second: first, choice })
    }

    /// Sets the targets of a choice: first the following instruction, then `next`, or the other way round.
    fn aim(&mut self, split: usize, next: u32, inside_first: bool) {
        if let Some(Inst::Split { first, second, .. }) = self.code.get_mut(split) {
            let inside = *first;
            (*first, *second) = if inside_first { (inside, next) } else { (next, inside) };
        }
    }

    fn here(&self) -> Result<u32, String> {
        u32::try_from(self.code.len()).map_err(|_| too_large())
    }

    fn set(&mut self, at: usize, inst: Inst) {
        if let Some(instruction) = self.code.get_mut(at) {
            *instruction = inst;
        }
    }

    fn push(&mut self, inst: Inst) -> Done {
        self.push_at(inst).map(|_| ())
    }

    fn push_at(&mut self, inst: Inst) -> Result<usize, String> {
        if self.code.len() >= MAX_INSTRUCTIONS {
            return Err(too_large());
        }
        self.code.push(inst);
        Ok(self.code.len() - 1)
    }
}

/// Whether an iteration may match the empty text; true unless it certainly cannot.
fn can_be_empty(expr: &Expr) -> bool {
    match expr {
        Expr::Any { .. } | Expr::Delegate { .. } => false,
        Expr::Literal { val, .. } => val.is_empty(),
        Expr::Concat(parts) => parts.iter().all(can_be_empty),
        Expr::Alt(ways) => ways.iter().any(can_be_empty),
        Expr::Group(inner) => can_be_empty(inner),
        Expr::Repeat { child, lo, .. } => *lo == 0 || can_be_empty(child),
        _ => true,
    }
}

fn assertion_of(assertion: &fancy_regex::Assertion) -> Option<Assertion> {
    match assertion {
        fancy_regex::Assertion::StartText => Some(Assertion::Start),
        fancy_regex::Assertion::EndText => Some(Assertion::End),
        fancy_regex::Assertion::StartLine { crlf: false } => Some(Assertion::LineStart),
        fancy_regex::Assertion::EndLine { crlf: false } => Some(Assertion::LineEnd),
        fancy_regex::Assertion::WordBoundary => Some(Assertion::Word),
        fancy_regex::Assertion::NotWordBoundary => Some(Assertion::NotWord),
        _ => None,
    }
}

fn unknown() -> String {
    "is not a regular expression of ECMAScript".to_owned()
}

fn too_large() -> String {
    format!("comes to more than {MAX_INSTRUCTIONS} steps with its repeats written out")
}
