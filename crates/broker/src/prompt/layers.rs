//! The layers of a context: a system prompt as the parts that it is made of, each with where it came from.
//!
//! The texts of the layers of a system prompt, joined by blank lines, are the prompt: nothing here may change one.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

use super::files::{FilePiece, PromptFile, pieces};
use super::sections::{PromptMode, PromptParts, Section, sections};
use model::LayerName;

/// The file that only a main session has.
const MEMORY: &str = "MEMORY.md";
/// The files that a worker has.
const OF_WORKERS: [&str; 2] = ["AGENTS.md", "TOOLS.md"];
/// The files that say who an agent is.
const OF_PERSONA: [&str; 2] = ["SOUL.md", "IDENTITY.md"];

/// The files of a workspace that are in a prompt where a host names none, in their order. None of them is expected.
pub const BOOTSTRAP_FILES: [&str; 8] = [
    "AGENTS.md",
    "SOUL.md",
    "USER.md",
    "TOOLS.md",
    "IDENTITY.md",
    "HEARTBEAT.md",
    MEMORY,
    "BOOTSTRAP.md",
];

/// A part of a context.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// The layer that it belongs to.
    pub name: LayerName,
    /// Where it came from.
    pub source: String,
    /// Its text.
    pub text: String,
    /// The estimated tokens of its text.
    pub tokens: u64,
    /// The hash of its text.
    pub hash: String,
}

/// A part of a context that a host passes: it is measured anew.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct GivenLayer {
    /// The layer that it belongs to.
    pub name: LayerName,
    /// Where it came from.
    pub source: String,
    /// Its text.
    pub text: String,
}

impl From<GivenLayer> for Layer {
    fn from(GivenLayer { name, source, text }: GivenLayer) -> Self {
        let tokens = turn::estimate::text_tokens(&text);
        let hash = format!("{:032x}", xxh3_128(text.as_bytes()));
        Self { name, source, text, tokens, hash }
    }
}

/// Whether a prompt may have a file, by its name: a worker has two of them, and only a main session has the memory.
#[must_use]
pub fn may_have(path: &str, mode: PromptMode, is_main_session: bool) -> bool {
    let name = name_of(path);
    match mode {
        PromptMode::Full => is_main_session || name != MEMORY,
        PromptMode::Minimal => OF_WORKERS.contains(&name),
        PromptMode::None => false,
    }
}

fn name_of(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or_default()
}

/// The files of a prompt as they stand in it, cut to its limits.
#[must_use]
pub fn file_pieces(parts: &PromptParts) -> Vec<FilePiece> {
    let has = |file: &&PromptFile| may_have(&file.path, parts.mode, parts.is_main_session);
    let files: Vec<&PromptFile> = parts.files.iter().filter(has).collect();
    pieces(&files, parts.caps)
}

/// The layers of a system prompt, with these files in place of those of `parts`.
#[must_use]
pub fn prompt_layers(parts: &PromptParts, files: &[FilePiece]) -> Vec<Layer> {
    let mut layers = Vec::new();
    let mut add = |name, source: &str, text: String| {
        layers.push(Layer::from(GivenLayer { name, source: source.to_owned(), text }));
    };
    for (section, text) in sections(parts, !files.is_empty()) {
        let name = match section {
            Section::Workspace | Section::Runtime => LayerName::Workspace,
            Section::Identity
            | Section::Safety
            | Section::Tools
            | Section::Skills
            | Section::Memory => LayerName::Persona,
        };
        add(name, section.source(), text);
        if section == Section::Workspace {
            for FilePiece { path, text } in files {
                let is_persona = OF_PERSONA.contains(&name_of(path));
                let name = if is_persona { LayerName::Persona } else { LayerName::Workspace };
                add(name, path, text.clone());
            }
        }
    }
    layers
}

/// The system prompt. The same parts give the same bytes.
#[must_use]
pub fn build_system_prompt(parts: &PromptParts) -> String {
    let layers = prompt_layers(parts, &file_pieces(parts));
    layers.into_iter().map(|layer| layer.text).collect::<Vec<_>>().join("\n\n")
}
