//! The rules of OpenAI Responses (docs/rules/wire/openai-responses.md#pairing), checked on the body of a request. It must
//! never use the code that encodes the body.

use std::collections::HashSet;

use serde_json::Value;

use super::check::{Facts, Verdict, base64, fields, list, matches, non_blank, rule, text, word};

pub(super) fn check(items: &[Value], facts: Facts<'_>) -> Verdict {
    let mut ids = HashSet::new();
    let mut open: Vec<String> = Vec::new();
    let mut has_question = false;
    let mut any_user = false;
    for (index, item) in items.iter().enumerate() {
        let kind = text(item, "type")?;
        if let Some(id) = item.get("id") {
            let id = id.as_str().ok_or_else(|| format!("an id that is no text: {item}"))?;
            rule(matches(id, 64, |c| c.is_ascii_graphic()), "an id that is too long", item)?;
        }
        // The calls of one answer are adjacent, followed by all their outputs.
        if !open.is_empty() && kind != "function_call_output" {
            let results_began = index > 0 && items[index - 1]["type"] == "function_call_output";
            let host_message = kind == "message" && item["role"] != "assistant";
            rule(!results_began && !host_message, "calls without outputs before it", item)?;
        }
        match kind {
            "message" => {
                let role = text(item, "role")?;
                if role == "assistant" {
                    rule(any_user, "begins with the assistant", item)?;
                    let before = index > 0 && items[index - 1]["type"] == "reasoning";
                    answer(item, before)?;
                    has_question = false;
                } else {
                    rule(["user", "system", "developer"].contains(&role), "a role", item)?;
                    fields(item, &["type", "role", "content"], &[])?;
                    let parts = list(item, "content")?;
                    rule(!parts.is_empty(), "an empty message", item)?;
                    parts.iter().try_for_each(shown)?;
                    let image = parts.iter().any(|part| part["type"] == "input_image");
                    rule(role == "user" || !image, "an image from the host", item)?;
                    any_user |= role == "user";
                    has_question = true;
                }
            }
            "reasoning" => {
                fields(item, &["type", "summary", "encrypted_content"], &["content", "status"])?;
                list(item, "summary")?;
                rule(!text(item, "encrypted_content")?.is_empty(), "nothing encrypted", item)?;
                let next = items.get(index + 1);
                let followed = next.is_some_and(|next| {
                    next["type"] == "reasoning"
                        || next["type"] == "function_call"
                        || next["type"] == "web_search_call"
                        || (next["type"] == "message" && next["role"] == "assistant")
                });
                rule(followed, "reasoning without the item it led to", item)?;
            }
            "function_call" => {
                rule(any_user, "begins with the assistant", item)?;
                fields(item, &["type", "call_id", "name", "arguments"], &["namespace", "caller"])?;
                let id = text(item, "call_id")?;
                rule(facts.takes(id, 64, |c| c.is_ascii_graphic()), "a call_id", item)?;
                rule(ids.insert(id.to_owned()), "an id twice", item)?;
                rule(matches(text(item, "name")?, 64, word), "a bad name", item)?;
                let arguments: Result<Value, _> = serde_json::from_str(text(item, "arguments")?);
                rule(arguments.is_ok_and(|it| it.is_object()), "arguments", item)?;
                open.push(id.to_owned());
                has_question = false;
            }
            "function_call_output" => {
                fields(item, &["type", "call_id", "output"], &[])?;
                let id = text(item, "call_id")?;
                rule(open.first().is_some_and(|open| open == id), "an output out of order", item)?;
                open.remove(0);
                if item["output"].is_string() {
                    non_blank(item, "output")?;
                } else {
                    let parts = list(item, "output")?;
                    rule(!parts.is_empty(), "an empty output", item)?;
                    parts.iter().try_for_each(shown)?;
                }
                has_question = true;
            }
            "web_search_call" => {
                rule(any_user, "begins with the assistant", item)?;
                fields(item, &["type", "status", "action"], &["id"])?;
                has_question = false;
            }
            _ => return Err(format!("an unknown item: {item}")),
        }
    }
    rule(open.is_empty(), "calls without outputs at the end", &Value::Null)?;
    rule(has_question, "no question at the end", &Value::Null)
}

/// Generated ids of messages that followed reasoning end in `-r`.
fn answer(item: &Value, after_reasoning: bool) -> Verdict {
    fields(item, &["type", "role", "content"], &["id", "phase", "status"])?;
    if let Some(id) = item.get("id").and_then(Value::as_str) {
        rule(!id.ends_with("-r") || after_reasoning, "an id without its reasoning", item)?;
    }
    if let Some(phase) = item.get("phase") {
        rule(phase == "commentary" || phase == "final_answer", "a phase", item)?;
    }
    if item["content"].is_string() {
        return non_blank(item, "content").map(|_| ());
    }
    let parts = list(item, "content")?;
    rule(!parts.is_empty(), "an empty answer", item)?;
    for part in parts {
        rule(part["type"] == "output_text", "a part of an answer", part)?;
        fields(part, &["type", "text"], &["annotations"])?;
        non_blank(part, "text")?;
    }
    Ok(())
}

fn shown(part: &Value) -> Verdict {
    match text(part, "type")? {
        "input_text" => {
            fields(part, &["type", "text"], &[])?;
            non_blank(part, "text").map(|_| ())
        }
        "input_image" => {
            fields(part, &["type", "image_url"], &["detail"])?;
            let url = text(part, "image_url")?;
            let known = ["png", "jpeg", "gif", "webp"].iter().any(|kind| {
                url.strip_prefix(&format!("data:image/{kind};base64,")).is_some_and(base64)
            });
            rule(known, "an unknown image", part)
        }
        _ => rule(false, "a part that is not allowed here", part),
    }
}
