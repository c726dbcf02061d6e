//! The rules of Anthropic (docs/rules/wire/anthropic.md#order-of-messages), checked on the body of a request. It must never
//! use the code that encodes the body.

use std::collections::HashSet;

use serde_json::Value;

use super::check::{
    Facts, Verdict, base64, by, fields, list, matches, non_blank, rule, text, word,
};

pub(super) fn check(messages: &[Value], facts: Facts<'_>) -> Verdict {
    let mut ids = HashSet::new();
    // Client calls, whose results must follow next, and provider-run uses, whose results may follow later.
    let mut open: Vec<String> = Vec::new();
    let mut waiting: HashSet<String> = HashSet::new();
    let mut previous = "";
    let mut loop_thinks = true;
    for message in messages {
        fields(message, &["role", "content"], &[])?;
        let content = list(message, "content")?;
        rule(!content.is_empty(), "an empty message", message)?;
        let role = text(message, "role")?;
        match role {
            "user" => {
                rule(previous != "user", "two user messages", message)?;
                results(message, content, &mut open)?;
                let plain = content.iter().any(|block| block["type"] != "tool_result");
                rule(
                    !plain || waiting.is_empty(),
                    "a block before a provider-run result",
                    message,
                )?;
                for block in content.iter().filter(|block| block["type"] != "tool_result") {
                    shown(block)?;
                }
            }
            "assistant" => {
                rule(!previous.is_empty(), "begins with the assistant", message)?;
                rule(open.is_empty(), "calls without results before it", message)?;
                // An answer may follow a paused one: the server joins them.
                answer(message, content, facts, &mut ids, &mut open, &mut waiting)?;
                let thinks = content.iter().any(is_thinking);
                let own = content
                    .iter()
                    .filter(|block| block["type"] == "tool_use")
                    .all(|block| by(&block["input"]).is_none_or(|by| by == facts.writer));
                loop_thinks = thinks || own;
            }
            _ => return Err(format!("role `{role}`: {message}")),
        }
        previous = if role == "user" { "user" } else { "assistant" };
    }
    rule(open.is_empty(), "calls without results at the end", &Value::Null)?;
    let Some(last) = messages.last() else { return Err("nothing".to_owned()) };
    if previous == "assistant" {
        rule(facts.may_continue, "ends with an answer that is over", last)?;
    } else {
        let in_loop = last["content"][0]["type"] == "tool_result";
        rule(!in_loop || loop_thinks, "a tool loop of another model without thinking", last)?;
        rule(waiting.is_empty() || in_loop, "a provider-run use without result", last)?;
    }
    Ok(())
}

fn is_thinking(block: &Value) -> bool {
    block["type"] == "thinking" || block["type"] == "redacted_thinking"
}

/// Results precede other blocks, each for an open call, and none is missing.
fn results(message: &Value, content: &[Value], open: &mut Vec<String>) -> Verdict {
    let count = content.iter().take_while(|block| block["type"] == "tool_result").count();
    rule(
        content.iter().skip(count).all(|block| block["type"] != "tool_result"),
        "a result after something else",
        message,
    )?;
    for block in content.iter().take(count) {
        fields(block, &["type", "tool_use_id", "content"], &["is_error", "cache_control"])?;
        let id = text(block, "tool_use_id")?;
        let position = open.iter().position(|open| open == id);
        rule(position == Some(0), "a result out of order, or without its call", block)?;
        open.remove(0);
        let parts = list(block, "content")?;
        rule(!parts.is_empty(), "an empty result", block)?;
        for part in parts {
            shown(part)?;
            let failed = block["is_error"] == true;
            rule(!failed || part["type"] == "text", "an image in a failed result", block)?;
        }
    }
    rule(open.is_empty(), "calls without results", message)
}

fn shown(block: &Value) -> Verdict {
    match text(block, "type")? {
        "text" => {
            fields(block, &["type", "text"], &["cache_control"])?;
            non_blank(block, "text").map(|_| ())
        }
        "image" => {
            fields(block, &["type", "source"], &["cache_control"])?;
            let source = &block["source"];
            fields(source, &["type", "media_type", "data"], &[])?;
            let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
            rule(known.contains(&text(source, "media_type")?), "an unknown image", block)?;
            rule(base64(text(source, "data")?), "an image that is no base64", block)
        }
        _ => rule(false, "a block that is not allowed here", block),
    }
}

fn answer(
    message: &Value,
    content: &[Value],
    facts: Facts<'_>,
    ids: &mut HashSet<String>,
    open: &mut Vec<String>,
    waiting: &mut HashSet<String>,
) -> Verdict {
    let mut begun: HashSet<String> = waiting.clone();
    for block in content {
        match text(block, "type")? {
            "text" => {
                fields(block, &["type", "text"], &["citations"])?;
                non_blank(block, "text")?;
                rule(
                    block.get("citations").is_none_or(Value::is_array),
                    "citations that are no list",
                    block,
                )?;
            }
            "thinking" => {
                fields(block, &["type", "thinking", "signature"], &[])?;
                text(block, "thinking")?;
                rule(!text(block, "signature")?.is_empty(), "an empty signature", block)?;
            }
            "redacted_thinking" => {
                fields(block, &["type", "data"], &[])?;
                rule(!text(block, "data")?.is_empty(), "nothing redacted", block)?;
            }
            "tool_use" => {
                fields(block, &["type", "id", "name", "input"], &["caller", "toolset_name"])?;
                let id = text(block, "id")?;
                rule(facts.takes(id, 64, word), "an id outside the alphabet", block)?;
                rule(ids.insert(id.to_owned()), "an id twice", block)?;
                rule(matches(text(block, "name")?, 64, word), "a bad name", block)?;
                rule(block["input"].is_object(), "arguments that are no object", block)?;
                if let Some(from) = block["caller"].get("tool_id").and_then(Value::as_str) {
                    rule(begun.contains(from), "an unknown caller", block)?;
                }
                open.push(id.to_owned());
            }
            kind if kind.ends_with("_tool_use") => {
                let id = text(block, "id")?;
                rule(begun.insert(id.to_owned()), "a provider-run id twice", block)?;
                waiting.insert(id.to_owned());
            }
            kind if kind.ends_with("_tool_result") => {
                let id = text(block, "tool_use_id")?;
                rule(waiting.remove(id), "a provider-run result without its use", block)?;
            }
            _ => return Err(format!("a block that is not allowed here: {block}")),
        }
    }
    let Some(last) = content.last() else { return Ok(()) };
    rule(!is_thinking(last), "ends in thinking", message)?;
    let trailing = last["type"] == "text"
        && last.get("citations").is_none()
        && text(last, "text")?.ends_with(char::is_whitespace);
    rule(!trailing, "ends in white space", message)
}
