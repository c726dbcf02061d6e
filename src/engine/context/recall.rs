//! The tool `recall`: the model searches the messages of its session that a compaction removed from its context.
//!
//! It owns the tool's definition and its answers. It must never search outside the session of its run: the journal decides
//! what is searched.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio_util::sync::CancellationToken;

use crate::engine::state::Run;
use base::error::EngineError;
use model::{
    AssembledContext, ExecutionMode, InputError, Journal, RECALL, Recall, Recalled, ReplayClass,
    ToolDefinition,
};
use tools::{Invocation, ToolAnswer, ToolFuture, ToolHost, result_cap};

/// The default number of messages.
const USUAL: usize = 10;
/// Characters of an answer.
const MOST_CHARS: usize = 12_000;
/// Characters of the text around the messages.
const MARGIN: usize = 300;

const DESCRIPTION: &str = "Searches the earlier part of this conversation that is no longer in your context, because a \
    summary stands for it: what was said, and what tools answered, in the original words. Use it when the summary lacks a \
    detail that you need.";

const PARAMETERS: &str = r#"{"type":"object","properties":{"query":{"type":"string","description":"The words to look for. Messages that hold all of them are found, else those that hold most; a * after the last word finds longer words."},"limit":{"type":"integer","minimum":1,"maximum":50,"description":"Messages at most. Default 10."}},"required":["query"]}"#;

#[derive(Deserialize)]
struct Arguments {
    query: String,
    #[serde(default)]
    limit: Option<usize>,
}

/// Adds the tool to those of a context, at the end and from the first call on: a later addition would change the beginning
/// of every request.
///
/// # Errors
/// A tool of the host with the same name.
pub(crate) fn offer_recall(context: &mut AssembledContext) -> Result<(), EngineError> {
    if let Some(index) = context.tools.iter().position(|tool| tool.name == RECALL) {
        return Err(EngineError::context(InputError::new(
            format!("tools[{index}].name"),
            "`recall` is the engine's own with `compaction.recall`; name the tool otherwise",
        )));
    }
    context.tools.push(ToolDefinition {
        name: RECALL.to_owned(),
        description: DESCRIPTION.to_owned(),
        parameters: RawValue::from_string(PARAMETERS.to_owned()).unwrap_or_default(),
        execution_mode: ExecutionMode::Parallel,
        timeout_ms: None,
        replay: ReplayClass::Pure,
        max_result_chars: None,
        retries: 0,
        permission: model::ToolPermission::Allow,
        external: false,
    });
    Ok(())
}

/// Searches the history of one session.
pub(crate) struct Recaller {
    journal: Arc<dyn Journal>,
    session_label: String,
    parent_turn_id: Option<String>,
    /// Characters of an answer: a longer result would be cut in its middle.
    most_chars: usize,
}

impl Recaller {
    /// The tool's host for `run`.
    pub(crate) fn new(journal: &Arc<dyn Journal>, run: &Run) -> Self {
        Self {
            journal: Arc::clone(journal),
            session_label: run.context.session_label.clone(),
            parent_turn_id: run.context.parent_turn_id.clone(),
            most_chars: MOST_CHARS.min(result_cap(Some(run.target.model.context_window))),
        }
    }
}

impl ToolHost for Recaller {
    fn execute(&self, invocation: Invocation, _cancel: CancellationToken) -> ToolFuture {
        let journal = Arc::clone(&self.journal);
        let (session_label, parent_turn_id) =
            (self.session_label.clone(), self.parent_turn_id.clone());
        let most_chars = self.most_chars;
        Box::pin(async move {
            let Ok(Arguments { query, limit }) = serde_json::from_str(&invocation.arguments_json)
            else {
                return ToolAnswer::error("recall takes `query`, a text, and `limit`, a number.");
            };
            let limit = limit.unwrap_or(USUAL);
            let request = Recall { session_label, parent_turn_id, query: query.clone(), limit };
            match journal.recall(request).await {
                Ok(recalled) => {
                    let text = answer_text(&recalled, &query, most_chars);
                    ToolAnswer { result_json: to_raw_value(&text).ok(), ..ToolAnswer::text(text) }
                }
                Err(error) => ToolAnswer::error(error.message),
            }
        })
    }
}

/// The text that the model reads.
fn answer_text(recalled: &Recalled, query: &str, most_chars: usize) -> String {
    let Recalled { compacted, loosely, partial, messages } = recalled;
    let mut text = String::new();
    if !compacted {
        return "Nothing was left out so far: all that was said in this conversation is in your context."
            .to_owned();
    }
    if messages.is_empty() {
        let query: String = query.chars().take(200).collect();
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "Nothing that is no longer in your context holds a word of \"{query}\". Try other words."
        );
    } else {
        let (count, order) = (messages.len(), if *loosely { "best" } else { "newest" });
        let how =
            if *loosely { "No message holds all of these words; some hold some. " } else { "" };
        let what = if count == 1 { "message that is" } else { "messages that are" };
        let _ = write!(text, "{how}{count} {what} no longer in your context, {order} first:");
        let mut remaining = most_chars.saturating_sub(MARGIN);
        for (index, message) in messages.iter().enumerate() {
            let who = message.role.as_str();
            let tool = message.tool_name.as_deref().map(|name| format!(" {name}"));
            let found = format!(
                "\n\n[{}] {who}{}, turn {}:\n{}",
                message.said_at,
                tool.unwrap_or_default(),
                message.turn_id,
                message.excerpt
            );
            let length = found.chars().count();
            if length > remaining {
                let _ = write!(text, "\n\n({} more; ask for them with more words.)", count - index);
                break;
            }
            remaining -= length;
            text.push_str(&found);
        }
    }
    if *partial {
        text.push_str(
            "\n\n(Not all of it was looked through: there is too much. Older parts may hold more.)",
        );
    }
    text
}
