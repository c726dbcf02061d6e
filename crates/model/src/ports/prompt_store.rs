//! The port of the files that system prompts have: stored for each session, so that a restart changes no prompt.
//!
//! A compaction of a session forgets them. It must never interpret a value.

use crate::PortFuture;

/// The files of sessions' prompts.
pub trait PromptStore: Send + Sync {
    /// The files of a session's prompt: JSON. `None` where another `request` has read them, or none.
    fn prompt_files<'a>(
        &'a self,
        session_label: &'a str,
        request: &'a str,
    ) -> PortFuture<'a, Option<String>>;

    /// Stores the files that a request has read, in place of others.
    fn set_prompt_files(
        &self,
        session_label: String,
        request: String,
        files: String,
    ) -> PortFuture<'static, ()>;
}
