//! What an agent's system prompt is made of, and the marks around texts of others.

mod files;
mod sections;
mod tags;
#[cfg(test)]
mod tests;

pub use files::{FileCaps, PromptFile};
pub use sections::{
    PromptMode, PromptParts, PromptRuntime, PromptSkill, PromptTool, build_system_prompt,
};
pub use tags::{event_tag, file_tag, tag};
