//! The rules of Chat Completions (docs/rules/wire/openai-chat.md#order-of-messages), and the additional ones of Mistral and
//! DeepSeek, checked on the body of a request. It must never use the code that encodes the body.

use std::collections::HashSet;

use serde_json::Value;

use super::check::{Facts, Verdict, base64, fields, list, matches, non_blank, rule, text, word};

/// The server whose rules apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    OpenAi,
    Mistral,
    DeepSeek,
}

pub(super) fn check(messages: &[Value], server: Server, facts: Facts<'_>) -> Verdict {
    let mut ids = HashSet::new();
    let mut open: Vec<String> = Vec::new();
    let mut previous = "";
    for message in messages {
        let role = text(message, "role")?;
        if role != "tool" {
            rule(open.is_empty(), "calls without results before it", message)?;
        }
        match role {
            "system" | "developer" => {
                fields(message, &["role", "content"], &[])?;
                non_blank(message, "content")?;
                let first = previous.is_empty() || previous == "system";
                rule(first || server != Server::Mistral, "a late system message", message)?;
            }
            "user" => {
                fields(message, &["role", "content"], &[])?;
                rule(previous != "user", "two user messages", message)?;
                rule(
                    previous != "tool" || server != Server::Mistral,
                    "`Unexpected role 'user' after role 'tool'`",
                    message,
                )?;
                if message["content"].is_string() {
                    non_blank(message, "content")?;
                } else {
                    let parts = list(message, "content")?;
                    rule(!parts.is_empty(), "no parts", message)?;
                    parts.iter().try_for_each(part)?;
                }
            }
            "assistant" => {
                rule(previous != "assistant", "two answers", message)?;
                rule(!["", "system"].contains(&previous), "begins with the assistant", message)?;
                answer(message, server, facts, &mut ids, &mut open)?;
            }
            "tool" => {
                fields(message, &["role", "content", "tool_call_id"], &[])?;
                non_blank(message, "content")?;
                let id = text(message, "tool_call_id")?;
                let position = open.iter().position(|open| open == id);
                rule(position == Some(0), "a result out of order, or without its call", message)?;
                open.remove(0);
            }
            _ => return Err(format!("role `{role}`: {message}")),
        }
        // A host's message between two others does not separate them, and does not open an exchange.
        previous = match role {
            "system" | "developer" if previous.is_empty() => "system",
            "system" | "developer" => "host",
            "user" => "user",
            "assistant" => "assistant",
            _ => "tool",
        };
    }
    rule(open.is_empty(), "calls without results at the end", &Value::Null)?;
    rule(!["", "assistant"].contains(&previous), "no question at the end", &Value::Null)
}

fn part(part: &Value) -> Verdict {
    match text(part, "type")? {
        "text" => {
            fields(part, &["type", "text"], &[])?;
            non_blank(part, "text").map(|_| ())
        }
        "image_url" => {
            fields(part, &["type", "image_url"], &[])?;
            fields(&part["image_url"], &["url"], &["detail"])?;
            let url = text(&part["image_url"], "url")?;
            let known = ["png", "jpeg", "gif", "webp"].iter().any(|kind| {
                url.strip_prefix(&format!("data:image/{kind};base64,")).is_some_and(base64)
            });
            rule(known, "an unknown image", part)
        }
        _ => rule(false, "a part that is not allowed here", part),
    }
}

fn answer(
    message: &Value,
    server: Server,
    facts: Facts<'_>,
    ids: &mut HashSet<String>,
    open: &mut Vec<String>,
) -> Verdict {
    let reasoning = ["reasoning_content", "reasoning", "reasoning_details"];
    fields(
        message,
        &["role", "content"],
        &["tool_calls", reasoning[0], reasoning[1], reasoning[2]],
    )?;
    let calls = message.get("tool_calls");
    if message["content"].is_null() {
        rule(calls.is_some(), "neither text nor calls", message)?;
    } else {
        non_blank(message, "content")?;
    }
    if let Some(details) = message.get("reasoning_details") {
        rule(details.is_array(), "details that are no list", message)?;
    }
    let Some(calls) = calls else { return Ok(()) };
    let calls = calls.as_array().filter(|calls| !calls.is_empty());
    let calls = calls.ok_or_else(|| format!("no calls: {message}"))?;
    if server == Server::DeepSeek {
        text(message, "reasoning_content")?;
    }
    for call in calls {
        fields(call, &["id", "type", "function"], &["extra_content"])?;
        fields(&call["function"], &["name", "arguments"], &[])?;
        rule(call["type"] == "function", "no function", call)?;
        let id = text(call, "id")?;
        rule(facts.takes(id, 64, |c| c.is_ascii_graphic()), "an id outside the alphabet", call)?;
        if server == Server::Mistral {
            let nine = id.len() == 9 && id.chars().all(|c| c.is_ascii_alphanumeric());
            let own = facts.takes(id, 0, |_| false);
            rule(nine || own, "an id that is not nine letters or digits", call)?;
        }
        rule(ids.insert(id.to_owned()), "an id twice", call)?;
        rule(matches(text(&call["function"], "name")?, 64, word), "a bad name", call)?;
        let arguments = text(&call["function"], "arguments")?;
        let parsed: Result<Value, _> = serde_json::from_str(arguments);
        rule(parsed.is_ok_and(|it| it.is_object()), "arguments that are no object", call)?;
        open.push(id.to_owned());
    }
    Ok(())
}
