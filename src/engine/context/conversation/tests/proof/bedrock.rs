//! The rules of Bedrock's Converse for Claude (docs/rules/wire/bedrock.md#what-converse-does-not-take), checked on the body
//! of a request. It must never use the code that encodes the body.

use std::collections::HashSet;

use serde_json::Value;

use super::check::{
    Facts, Verdict, base64, by, fields, list, matches, non_blank, rule, text, word,
};

pub(super) fn check(messages: &[Value], facts: Facts<'_>) -> Verdict {
    let mut ids = HashSet::new();
    let mut open: Vec<String> = Vec::new();
    let mut previous = "assistant";
    let mut loop_thinks = true;
    for message in messages {
        fields(message, &["role", "content"], &[])?;
        let content = list(message, "content")?;
        rule(!content.is_empty(), "an empty message", message)?;
        let role = text(message, "role")?;
        rule(role != previous, "the roles do not alternate", message)?;
        match role {
            "user" => {
                let count = content.iter().take_while(|it| it.get("toolResult").is_some()).count();
                rule(count == open.len(), "not one result per call", message)?;
                for (block, id) in content.iter().zip(open.drain(..)) {
                    result(block, &id)?;
                }
                let outputs = content.iter().skip(count);
                outputs.filter(|block| block.get("cachePoint").is_none()).try_for_each(shown)?;
                previous = "user";
            }
            "assistant" => {
                rule(open.is_empty(), "calls without results before it", message)?;
                answer(content, facts, &mut ids, &mut open)?;
                let thinks = content.iter().any(|it| it.get("reasoningContent").is_some());
                let own = content
                    .iter()
                    .filter_map(|block| block.get("toolUse").and_then(|call| by(&call["input"])))
                    .all(|by| by == facts.writer);
                loop_thinks = thinks || own;
                previous = "assistant";
            }
            _ => return Err(format!("role `{role}`: {message}")),
        }
    }
    let Some(last) = messages.last() else { return Err("nothing".to_owned()) };
    rule(previous == "user", "ends with the assistant", last)?;
    let in_loop = last["content"][0].get("toolResult").is_some();
    rule(!in_loop || loop_thinks, "a tool loop of another model without thinking", last)
}

fn result(block: &Value, id: &str) -> Verdict {
    fields(block, &["toolResult"], &[])?;
    let result = &block["toolResult"];
    fields(result, &["toolUseId", "content"], &["status"])?;
    rule(text(result, "toolUseId")? == id, "a result out of order", block)?;
    let parts = list(result, "content")?;
    rule(!parts.is_empty(), "an empty result", block)?;
    parts.iter().try_for_each(shown)?;
    let failed = result["status"] == "error";
    let image = parts.iter().any(|part| part.get("image").is_some());
    rule(!failed || !image, "an image in a failed result", block)
}

fn shown(block: &Value) -> Verdict {
    if block.get("text").is_some() {
        fields(block, &["text"], &[])?;
        return non_blank(block, "text").map(|_| ());
    }
    fields(block, &["image"], &[])?;
    let image = &block["image"];
    fields(image, &["format", "source"], &[])?;
    rule(["png", "jpeg", "gif", "webp"].contains(&text(image, "format")?), "an image", block)?;
    fields(&image["source"], &["bytes"], &[])?;
    rule(base64(text(&image["source"], "bytes")?), "an image that is no base64", block)
}

fn answer(
    content: &[Value],
    facts: Facts<'_>,
    ids: &mut HashSet<String>,
    open: &mut Vec<String>,
) -> Verdict {
    let mut waiting = HashSet::new();
    for block in content {
        let object = fields(
            block,
            &[],
            &["text", "toolUse", "toolResult", "reasoningContent", "citationsContent"],
        )?;
        rule(object.len() == 1, "not one kind of content", block)?;
        if let Some(call) = block.get("toolUse") {
            let id = text(call, "toolUseId")?;
            rule(matches(text(call, "name")?, 64, word), "a bad name", block)?;
            rule(facts.takes(id, 64, word), "an id outside the alphabet", block)?;
            rule(call["input"].is_object(), "arguments that are no object", block)?;
            if call["type"] == "server_tool_use" {
                fields(call, &["toolUseId", "name", "input", "type"], &[])?;
                waiting.insert(id.to_owned());
            } else {
                fields(call, &["toolUseId", "name", "input"], &[])?;
                rule(ids.insert(id.to_owned()), "an id twice", block)?;
                open.push(id.to_owned());
            }
        } else if let Some(result) = block.get("toolResult") {
            let id = text(result, "toolUseId")?;
            rule(waiting.remove(id), "a provider-run result without its use", block)?;
        } else if let Some(reasoning) = block.get("reasoningContent") {
            if let Some(text_and_signature) = reasoning.get("reasoningText") {
                fields(text_and_signature, &["text", "signature"], &[])?;
                rule(!text(text_and_signature, "signature")?.is_empty(), "a signature", block)?;
            } else {
                rule(!text(reasoning, "redactedContent")?.is_empty(), "nothing redacted", block)?;
            }
        } else if let Some(cited) = block.get("citationsContent") {
            for part in list(cited, "content")? {
                non_blank(part, "text")?;
            }
        } else {
            non_blank(block, "text")?;
        }
    }
    rule(waiting.is_empty(), "a provider-run use without result", &Value::from(content))?;
    let Some(last) = content.last() else { return Ok(()) };
    rule(last.get("reasoningContent").is_none(), "ends in thinking", last)?;
    let trailing = last.get("text").and_then(Value::as_str);
    rule(!trailing.is_some_and(|it| it.ends_with(char::is_whitespace)), "white space", last)
}
