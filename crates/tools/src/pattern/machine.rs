//! Runs a program over a text: backtracking, with counted steps. A choice that failed at a position is not tried there
//! again, so that a pattern without back-references needs steps in proportion to the text, also with look-around.
//!
//! It must never recurse deeper than look-arounds are nested, nor use more memory than its limits.

use super::program::{Assertion, Inst, Program};
use crate::meter::{charge, spend};

/// The steps that are counted together.
const BATCH: u32 = 128;
/// The maximum bits of memory for tried choices; beyond, only the steps bound the work.
const MAX_BITS: usize = 1 << 26;
/// The maximum number of open choices.
const MAX_FRAMES: usize = 1 << 22;
/// No position.
const NOWHERE: u32 = u32::MAX;

/// What is undone, in reverse, when an alternative fails.
#[derive(Clone, Copy)]
enum Frame {
    /// Another alternative from here.
    Other { pc: u32, at: u32 },
    /// The previous value of a recorded position.
    Restore { slot: u32, was: u32 },
    /// A choice inside a look-around without an outcome yet.
    Open { choice: u32, at: u32 },
}

impl Program {
    /// Whether the pattern is found in `text`.
    pub(super) fn is_match(&self, text: &str) -> bool {
        charge(1 + u64::try_from(text.len()).unwrap_or(u64::MAX) / 8);
        let text: Vec<char> = text.chars().collect();
        let Ok(length) = u32::try_from(text.len()) else { spend() };
        let bits = text.len().saturating_add(1).saturating_mul(self.choices as usize);
        let memory = (!self.refers_back && bits <= MAX_BITS).then(|| Memory {
            width: text.len() + 1,
            tried: vec![0; bits / 64 + 1],
            won: if self.is_regular { Vec::new() } else { vec![0; bits / 64 + 1] },
        });
        charge(u64::try_from(bits / 1024).unwrap_or(u64::MAX));
        let slots = vec![NOWHERE; self.slots as usize];
        let mut machine =
            Machine { program: self, text, length, memory, slots, stack: Vec::new(), steps: 0 };
        let last = if self.is_anchored { 0 } else { length };
        let found = (0..=last).any(|start| machine.accepts(0, start, false));
        charge(u64::from(machine.steps));
        found
    }
}

/// The tried choices, by choice and position.
struct Memory {
    width: usize,
    tried: Vec<u64>,
    /// Choices inside look-arounds that led to acceptance.
    won: Vec<u64>,
}

#[derive(PartialEq, Eq)]
enum Before {
    Never,
    Failed,
    Won,
}

impl Memory {
    fn bit(&self, choice: u32, at: u32) -> (usize, u64) {
        let bit = choice as usize * self.width + at as usize;
        (bit / 64, 1 << (bit % 64))
    }

    fn enter(&mut self, choice: u32, at: u32) -> Before {
        let (word, bit) = self.bit(choice, at);
        if self.won.get(word).is_some_and(|bits| bits & bit != 0) {
            return Before::Won;
        }
        match self.tried.get_mut(word) {
            // A choice under way counts as failed: an alternative that returns to its own position adds nothing.
            Some(bits) if *bits & bit != 0 => Before::Failed,
            Some(bits) => {
                *bits |= bit;
                Before::Never
            }
            None => Before::Never,
        }
    }

    fn win(&mut self, choice: u32, at: u32) {
        let (word, bit) = self.bit(choice, at);
        if let Some(bits) = self.won.get_mut(word) {
            *bits |= bit;
        }
    }
}

struct Machine<'a> {
    program: &'a Program,
    text: Vec<char>,
    length: u32,
    memory: Option<Memory>,
    slots: Vec<u32>,
    stack: Vec<Frame>,
    steps: u32,
}

impl Machine<'_> {
    /// Whether an alternative from here is accepted.
    fn accepts(&mut self, mut pc: u32, mut at: u32, inside: bool) -> bool {
        let base = self.stack.len();
        loop {
            self.steps += 1;
            if self.steps == BATCH {
                self.steps = 0;
                charge(u64::from(BATCH));
                if self.stack.len() > MAX_FRAMES {
                    spend();
                }
            }
            let Some(&inst) = self.program.code.get(pc as usize) else { spend() };
            pc += 1;
            let continues = match inst {
                Inst::One { set, back } => self.one(set, back, &mut at),
                Inst::Split { first, second, choice } => match self.enter(choice, at) {
                    Before::Never => {
                        if inside && self.memory.is_some() {
                            self.stack.push(Frame::Open { choice, at });
                        }
                        self.stack.push(Frame::Other { pc: second, at });
                        pc = first;
                        true
                    }
                    Before::Failed => false,
                    Before::Won => {
                        self.settle(base);
                        return true;
                    }
                },
                Inst::Jump(to) => {
                    pc = to;
                    true
                }
                Inst::Assert(assertion) => self.holds(assertion, at),
                Inst::Look { negated, next } => {
                    let found = self.accepts(pc, at, true);
                    pc = next;
                    found != negated
                }
                // Only without memory: with it an empty loop reaches a choice under way.
                Inst::Save(slot) => {
                    if self.memory.is_none() {
                        self.save(slot, at);
                    }
                    true
                }
                Inst::Moved(slot) => {
                    self.memory.is_some()
                        || self.slots.get(slot as usize).is_none_or(|was| *was != at)
                }
                Inst::Back { start, end, back, any_case } => {
                    self.back_reference((start, end), (back, any_case), &mut at)
                }
                Inst::Accept => {
                    self.settle(base);
                    return true;
                }
            };
            if !continues {
                match self.undo(base) {
                    Some(other) => (pc, at) = other,
                    None => return false,
                }
            }
        }
    }

    fn enter(&mut self, choice: u32, at: u32) -> Before {
        self.memory.as_mut().map_or(Before::Never, |memory| memory.enter(choice, at))
    }

    fn one(&self, set: u32, back: bool, at: &mut u32) -> bool {
        let (entry, then) = if back {
            let Some(before) = at.checked_sub(1) else { return false };
            (before, before)
        } else {
            (*at, *at + 1)
        };
        let found = match (self.text.get(entry as usize), self.program.sets.get(set as usize)) {
            (Some(c), Some(set)) => set.has(*c),
            _ => false,
        };
        if found {
            *at = then;
        }
        found
    }

    fn holds(&self, assertion: Assertion, at: u32) -> bool {
        let before = at.checked_sub(1).and_then(|at| self.text.get(at as usize));
        let after = self.text.get(at as usize);
        let is_word = |c: Option<&char>| {
            c.is_some_and(|c| regex_syntax::try_is_word_character(*c).unwrap_or(false))
        };
        match assertion {
            Assertion::Start => at == 0,
            Assertion::End => at == self.length,
            Assertion::LineStart => before.is_none_or(|c| *c == '\n'),
            Assertion::LineEnd => after.is_none_or(|c| *c == '\n'),
            Assertion::Word => is_word(before) != is_word(after),
            Assertion::NotWord => is_word(before) == is_word(after),
        }
    }

    fn save(&mut self, slot: u32, at: u32) {
        if let Some(entry) = self.slots.get_mut(slot as usize) {
            self.stack.push(Frame::Restore { slot, was: *entry });
            *entry = at;
        }
    }

    fn back_reference(
        &mut self,
        (start, end): (u32, u32),
        (back, any_case): (bool, bool),
        at: &mut u32,
    ) -> bool {
        let slot = |slot: u32| self.slots.get(slot as usize).copied().filter(|at| *at != NOWHERE);
        // A group without a match matches nothing.
        let (Some(start), Some(end)) = (slot(start), slot(end)) else { return false };
        let Some(length) = end.checked_sub(start) else { return false };
        charge(u64::from(length));
        let there = if back { at.checked_sub(length) } else { at.checked_add(length) };
        let Some(there) = there else { return false };
        let (from, to) = if back { (there, *at) } else { (*at, there) };
        let part = |from: u32, to: u32| self.text.get(from as usize..to as usize);
        let (Some(held), Some(here)) = (part(start, end), part(from, to)) else { return false };
        let same = held.iter().zip(here).all(|(held, here)| {
            held == here || any_case && held.to_lowercase().eq(here.to_lowercase())
        });
        if same {
            *at = there;
        }
        same
    }

    /// The last open alternative above `base`.
    fn undo(&mut self, base: usize) -> Option<(u32, u32)> {
        while self.stack.len() > base {
            match self.stack.pop()? {
                Frame::Other { pc, at } => return Some((pc, at)),
                Frame::Restore { slot, was } => {
                    if let Some(entry) = self.slots.get_mut(slot as usize) {
                        *entry = was;
                    }
                }
                Frame::Open { .. } => {}
            }
        }
        None
    }

    /// Acceptance: drops the other alternatives above `base`; recorded positions stay until they are undone from outside.
    fn settle(&mut self, base: usize) {
        let mut retained = base;
        for index in base..self.stack.len() {
            let Some(&frame) = self.stack.get(index) else { break };
            match frame {
                Frame::Restore { .. } => {
                    if let Some(entry) = self.stack.get_mut(retained) {
                        *entry = frame;
                    }
                    retained += 1;
                }
                Frame::Open { choice, at } => {
                    if let Some(memory) = &mut self.memory {
                        memory.win(choice, at);
                    }
                }
                Frame::Other { .. } => {}
            }
        }
        self.stack.truncate(retained);
    }
}
