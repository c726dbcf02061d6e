//! Call ids in the form of an API: of its alphabet and length, and unique in the transcript.
//!
//! Derived from the earlier ids, never random: the same transcript always gets the same ids. It must never change a valid
//! id, nor one that is sent back to the model that created it: gateways put data (a thought signature of 500 characters)
//! into the id.

use std::collections::{HashMap, HashSet};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use model::{Api, IdRule};

/// Replaces an id without any allowed character.
const NAMELESS: &str = "call";
/// The alphabet of ids with exactly nine characters.
const ALPHANUMERIC: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The length of Mistral's ids.
const NINE: usize = 9;

/// The ids in use.
#[derive(Debug, Clone)]
pub(super) struct WireIds {
    shape: Shape,
    used: HashSet<String>,
    /// The next suffix, or seed, to try for a repeated id.
    next: HashMap<String, u64>,
}

/// The allowed form of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Printable ASCII without spaces, up to 64 (OpenAI).
    Graphic,
    /// `[A-Za-z0-9_-]{1,64}` (Anthropic, Bedrock).
    Word,
    /// `[A-Za-z0-9]{1,40}` (Google).
    Alphanumeric,
    /// `[A-Za-z0-9]{9}` (Mistral).
    Nine,
}

impl Shape {
    fn of(api: Api, rule: IdRule) -> Self {
        match (rule, api) {
            (IdRule::NineAlphanumeric, _) => Self::Nine,
            (IdRule::OfApi, Api::AnthropicMessages | Api::BedrockConverse) => Self::Word,
            (IdRule::OfApi, Api::GoogleGenerativeAi) => Self::Alphanumeric,
            (IdRule::OfApi, Api::OpenaiChat | Api::OpenaiResponses | Api::Scripted) => {
                Self::Graphic
            }
        }
    }

    fn longest(self) -> usize {
        match self {
            Self::Graphic | Self::Word => 64,
            Self::Alphanumeric => 40,
            Self::Nine => NINE,
        }
    }

    fn allows(self, c: char) -> bool {
        match self {
            Self::Graphic => c.is_ascii_graphic(),
            Self::Word => c.is_ascii_alphanumeric() || c == '_' || c == '-',
            Self::Alphanumeric | Self::Nine => c.is_ascii_alphanumeric(),
        }
    }

    /// The id with other characters replaced or left out, and cut to length. Every allowed character is one byte long.
    fn fitted(self, id: &str) -> String {
        let longest = self.longest();
        let fitted: String = match self {
            Self::Graphic | Self::Word => {
                id.chars().map(|c| if self.allows(c) { c } else { '_' }).take(longest).collect()
            }
            Self::Alphanumeric | Self::Nine => {
                id.chars().filter(|c| self.allows(*c)).take(longest).collect()
            }
        };
        if fitted.is_empty() { NAMELESS.to_owned() } else { fitted }
    }

    fn separator(self) -> &'static str {
        match self {
            Self::Graphic | Self::Word => "_",
            Self::Alphanumeric | Self::Nine => "",
        }
    }
}

impl WireIds {
    pub(super) fn new(api: Api, rule: IdRule) -> Self {
        Self { shape: Shape::of(api, rule), used: HashSet::new(), next: HashMap::new() }
    }

    /// The id on the wire for a call that the target itself created with this id: unchanged, whatever its form. Only if the
    /// transcript has it already, another one is derived from it.
    pub(super) fn own(&mut self, id: &str) -> String {
        if self.used.insert(id.to_owned()) {
            return id.to_owned();
        }
        let is_fitting =
            id.len() <= self.shape.longest() && id.chars().all(|c| self.shape.allows(c));
        if is_fitting {
            return self.assign(id);
        }
        // An id that is too long is not cut: the data in it would be lost.
        self.numbered(id, None)
    }

    /// The id on the wire for the next call, with the id `id`.
    pub(super) fn assign(&mut self, id: &str) -> String {
        match self.shape {
            Shape::Nine => self.nine(id),
            Shape::Graphic | Shape::Word | Shape::Alphanumeric => self.suffixed(id),
        }
    }

    fn suffixed(&mut self, id: &str) -> String {
        let base = self.shape.fitted(id);
        if self.used.insert(base.clone()) {
            return base;
        }
        self.numbered(&base, Some(self.shape.longest()))
    }

    /// The next free id of `base` and a number; `base` is cut so that the id is at most `longest`.
    fn numbered(&mut self, base: &str, longest: Option<usize>) -> String {
        let next = self.next.entry(base.to_owned()).or_insert(2);
        loop {
            let suffix = format!("{}{next}", self.shape.separator());
            *next += 1;
            let available =
                longest.map_or(base.len(), |longest| longest.saturating_sub(suffix.len()));
            let candidate =
                format!("{}{suffix}", base.get(..available.min(base.len())).unwrap_or(base));
            if self.used.insert(candidate.clone()) {
                return candidate;
            }
        }
    }

    /// An id of this form stays; any other is replaced by its hash, with the next seed while it is in use.
    fn nine(&mut self, id: &str) -> String {
        let fits = id.len() == NINE && id.chars().all(|c| self.shape.allows(c));
        if fits && self.used.insert(id.to_owned()) {
            return id.to_owned();
        }
        let next = self.next.entry(id.to_owned()).or_insert(0);
        loop {
            let mut rest = xxh3_64_with_seed(id.as_bytes(), *next);
            *next += 1;
            let candidate: String = (0..NINE)
                .filter_map(|_| {
                    let digit = usize::try_from(rest % 62).ok()?;
                    rest /= 62;
                    ALPHANUMERIC.get(digit).map(|byte| char::from(*byte))
                })
                .collect();
            if self.used.insert(candidate.clone()) {
                return candidate;
            }
        }
    }
}
