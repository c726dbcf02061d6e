//! The sections of a system prompt, in their order (docs/rules/prompts.md#sections).
//!
//! It must be the same from call to call, so that the provider's prompt cache has it: it never has a clock.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::files::{FileCaps, PromptFile};
use super::tags::unclosed;
use crate::one_line::one_line;

/// How much a system prompt has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum PromptMode {
    /// Everything.
    #[default]
    Full,
    /// For workers: identity, tools, workspace, `AGENTS.md` and `TOOLS.md`, runtime.
    Minimal,
    /// The identity only.
    None,
}

/// A tool as the prompt describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(deny_unknown_fields)]
pub struct PromptTool {
    /// Its name.
    pub name: String,
    /// What it does.
    #[serde(default)]
    pub description: Option<String>,
    /// When to use it and when not, a line each.
    #[serde(default)]
    pub guidelines: Option<Vec<String>>,
}

/// A skill: instructions that the agent reads when it needs them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(deny_unknown_fields)]
pub struct PromptSkill {
    /// Its name.
    pub name: String,
    /// When it helps.
    #[serde(default)]
    pub description: Option<String>,
    /// The file to read.
    #[serde(default)]
    pub path: Option<String>,
    /// The whole text, in place of a file to read.
    #[serde(default)]
    pub content: Option<String>,
}

/// The machine that the agent runs on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptRuntime {
    /// The operating system.
    #[serde(default)]
    pub os: Option<String>,
    /// The zone of the times that messages name, `Europe/Berlin`.
    #[serde(default)]
    pub time_zone: Option<String>,
    /// The version of Node.js.
    #[serde(default)]
    pub node: Option<String>,
    /// The shell.
    #[serde(default)]
    pub shell: Option<String>,
}

/// What a system prompt is made of. A section without a text is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "testing", derive(ts_rs::TS), ts(optional_fields))]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct PromptParts {
    /// Default `full`.
    #[cfg_attr(feature = "testing", ts(optional, as = "Option<PromptMode>"))]
    pub mode: PromptMode,
    /// Who the agent is.
    pub identity: Option<String>,
    /// What it must not do.
    pub safety: Option<String>,
    /// Its tools, in their order.
    #[cfg_attr(feature = "testing", ts(optional, as = "Option<Vec<PromptTool>>"))]
    pub tools: Vec<PromptTool>,
    /// Its skills, in their order.
    #[cfg_attr(feature = "testing", ts(optional, as = "Option<Vec<PromptSkill>>"))]
    pub skills: Vec<PromptSkill>,
    /// How it uses its memory.
    pub memory: Option<String>,
    /// The folder it works in.
    pub workspace: Option<String>,
    /// The workspace's files, in their order.
    #[cfg_attr(feature = "testing", ts(optional, as = "Option<Vec<PromptFile>>"))]
    pub files: Vec<PromptFile>,
    /// How much of the files it has.
    #[cfg_attr(feature = "testing", ts(optional, as = "Option<FileCaps>"))]
    pub caps: FileCaps,
    /// The machine.
    pub runtime: Option<PromptRuntime>,
    /// Whether the session is the agent's main session. `MEMORY.md` is in no other: it may have what a group must not read.
    #[cfg_attr(feature = "testing", ts(optional, as = "Option<bool>"))]
    pub is_main_session: bool,
}

/// A section of a system prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Identity,
    Safety,
    Tools,
    Skills,
    Memory,
    /// Its title and its path; files follow it.
    Workspace,
    Runtime,
}

impl Section {
    /// Where its text comes from.
    pub(super) fn source(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Safety => "safety",
            Self::Tools => "tools",
            Self::Skills => "skills",
            Self::Memory => "memory",
            Self::Workspace => "workspace",
            Self::Runtime => "runtime",
        }
    }
}

/// The sections that have a text, in their order, without the files of the workspace.
pub(super) fn sections(parts: &PromptParts, has_files: bool) -> Vec<(Section, String)> {
    let PromptParts { identity, safety, tools, skills, memory, workspace, runtime, .. } = parts;
    let identity = text(identity.as_deref());
    let is_full = parts.mode == PromptMode::Full;
    let when_full = |section: Option<String>| section.filter(|_| is_full);
    let rest = [
        (Section::Safety, titled("Safety", when_full(text(safety.as_deref())))),
        (Section::Tools, titled("Tools", list(tools.iter().map(tool)))),
        (Section::Skills, titled("Skills", when_full(list(skills.iter().map(skill))))),
        (Section::Memory, titled("Memory", when_full(text(memory.as_deref())))),
        (Section::Workspace, workspace_section(workspace.as_deref(), has_files)),
        (Section::Runtime, titled("Runtime", runtime.as_ref().and_then(machine))),
    ];
    let rest = rest.into_iter().filter(|_| parts.mode != PromptMode::None);
    std::iter::once((Section::Identity, identity))
        .chain(rest)
        .filter_map(|(section, text)| Some((section, text?)))
        .collect()
}

fn text(text: Option<&str>) -> Option<String> {
    text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn titled(title: &str, section: Option<String>) -> Option<String> {
    section.map(|section| format!("## {title}\n\n{section}"))
}

fn list(entries: impl Iterator<Item = String>) -> Option<String> {
    let entries: Vec<String> = entries.collect();
    (!entries.is_empty()).then(|| entries.join("\n"))
}

fn tool(tool: &PromptTool) -> String {
    let mut entry = named(&tool.name, tool.description.as_deref());
    for guideline in tool.guidelines.iter().flatten() {
        let _ = write!(entry, "\n  - {}", one_line(guideline));
    }
    entry
}

fn skill(skill: &PromptSkill) -> String {
    if let Some(content) = text(skill.content.as_deref()) {
        let content = unclosed("skill", &content);
        return format!(
            "<skill name={}>\n{content}\n</skill>",
            serde_json::Value::from(skill.name.as_str())
        );
    }
    let mut entry = named(&skill.name, skill.description.as_deref());
    if let Some(path) = &skill.path {
        let _ = write!(entry, " (read `{}`)", one_line(path));
    }
    entry
}

fn named(name: &str, description: Option<&str>) -> String {
    let name = one_line(name);
    match text(description) {
        None => format!("- {name}"),
        Some(description) => format!("- {name}: {}", one_line(&description)),
    }
}

/// The title of the section, and the path.
fn workspace_section(path: Option<&str>, has_files: bool) -> Option<String> {
    const TITLE: &str = "## Workspace";
    match path {
        Some(path) => Some(format!("{TITLE}\n\nThe working directory is `{}`.", one_line(path))),
        None => has_files.then(|| TITLE.to_owned()),
    }
}

fn machine(runtime: &PromptRuntime) -> Option<String> {
    let PromptRuntime { os, time_zone, node, shell } = runtime;
    let facts = [("OS", os), ("Time zone", time_zone), ("Node.js", node), ("Shell", shell)];
    list(facts.into_iter().filter_map(|(name, fact)| {
        Some(format!("- {name}: {}", one_line(text(fact.as_deref())?.as_str())))
    }))
}
