//! The stop of an answer, by its `finish_reason` (docs/rules/wire/usage.md#stops). It must never emit a delta.

use super::calls::{Call, Calls};
use crate::Stop;

/// The stop of a `finish_reason`, with these calls.
pub(super) fn stop(raw: &str, calls: &Calls, refused: bool) -> Stop {
    match raw.to_ascii_lowercase().as_str() {
        "length" | "max_tokens" | "max_output_tokens" => Stop::MaxTokens,
        "model_length" | "model_context_window_exceeded" => Stop::ContextFull,
        "content_filter" | "safety" | "sensitive" => Stop::ContentFilter,
        "refusal" => Stop::Refusal,
        "malformed_function_call" => Stop::MalformedToolCall,
        "stop" | "tool_calls" | "function_call" | "tool_use" | "end_turn" | "eos" | "completed" => {
            // Calls override a plain "stop" (Ollama, Gemini's compatible route); "tool_calls" without a call is a normal end.
            if !calls.is_empty() {
                Stop::ToolUse
            } else if refused {
                Stop::Refusal
            } else {
                Stop::EndTurn
            }
        }
        "stop_sequence" => Stop::StopSequence,
        "" if !calls.is_empty() && calls.ours().all(Call::is_whole) => Stop::ToolUse,
        _ => Stop::Other,
    }
}
