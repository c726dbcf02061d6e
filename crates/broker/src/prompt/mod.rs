//! What an agent's system prompt is made of, and the marks around texts of others.

mod files;
mod layers;
mod sections;
mod tags;
#[cfg(test)]
mod tests;

pub use files::{FileCaps, FilePiece, PromptFile};
pub use layers::{
    BOOTSTRAP_FILES, GivenLayer, Layer, build_system_prompt, file_pieces, may_have, prompt_layers,
};
pub use sections::{PromptMode, PromptParts, PromptRuntime, PromptSkill, PromptTool};
pub use tags::{context_tag, file_tag, tag};
