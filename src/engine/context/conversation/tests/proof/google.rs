//! The rules of Gemini (docs/rules/wire/google.md#order-of-contents) for a model that requires signatures, checked on the
//! body of a request. It must never use the code that encodes the body.

use std::collections::HashSet;

use serde_json::Value;

use super::check::{Facts, Verdict, base64, fields, list, matches, non_blank, rule, text};

pub(super) fn check(contents: &[Value], facts: Facts<'_>) -> Verdict {
    let mut ids = HashSet::new();
    let mut open: Vec<(String, String)> = Vec::new();
    let mut previous = "";
    for content in contents {
        fields(content, &["role", "parts"], &[])?;
        let parts = list(content, "parts")?;
        rule(!parts.is_empty(), "no parts", content)?;
        match text(content, "role")? {
            "user" => {
                results(content, parts, &mut open)?;
                previous = "user";
            }
            "model" => {
                rule(previous == "user", "the model not after the user", content)?;
                rule(open.is_empty(), "calls without responses before it", content)?;
                model(content, parts, facts, &mut ids, &mut open)?;
                previous = "model";
            }
            role => return Err(format!("role `{role}`: {content}")),
        }
    }
    rule(open.is_empty(), "calls without responses at the end", &Value::Null)?;
    rule(previous == "user", "no question at the end", &Value::Null)
}

/// One response for each call, before other parts and in the order of the calls.
fn results(content: &Value, parts: &[Value], open: &mut Vec<(String, String)>) -> Verdict {
    let count = parts.iter().take_while(|part| part.get("functionResponse").is_some()).count();
    rule(count == open.len(), "not one response per call", content)?;
    for (part, (id, name)) in parts.iter().zip(open.drain(..)) {
        fields(part, &["functionResponse"], &[])?;
        let response = &part["functionResponse"];
        fields(response, &["id", "name", "response"], &[])?;
        rule(text(response, "id")? == id && text(response, "name")? == name, "a response", part)?;
        let output = response["response"].as_object().filter(|output| output.len() == 1);
        let output = output.and_then(|output| output.get("output").or(output.get("error")));
        rule(
            output.and_then(Value::as_str).is_some_and(|it| !it.trim().is_empty()),
            "an empty output",
            part,
        )?;
    }
    for part in parts.iter().skip(count) {
        if part.get("text").is_some() {
            fields(part, &["text"], &[])?;
            non_blank(part, "text")?;
        } else {
            image(part)?;
        }
    }
    Ok(())
}

fn image(part: &Value) -> Verdict {
    fields(part, &["inlineData"], &[])?;
    let data = &part["inlineData"];
    fields(data, &["mimeType", "data"], &[])?;
    let known = ["image/png", "image/jpeg", "image/gif", "image/webp"];
    rule(known.contains(&text(data, "mimeType")?), "an unknown image", part)?;
    rule(base64(text(data, "data")?), "an image that is no base64", part)
}

fn model(
    content: &Value,
    parts: &[Value],
    facts: Facts<'_>,
    ids: &mut HashSet<String>,
    open: &mut Vec<(String, String)>,
) -> Verdict {
    let mut has_text = false;
    for part in parts {
        let signature = part.get("thoughtSignature");
        if let Some(signature) = signature {
            rule(signature.as_str().is_some_and(|it| !it.is_empty()), "a signature", part)?;
        }
        if part.get("functionCall").is_some() {
            fields(part, &["functionCall"], &["thoughtSignature"])?;
            let call = &part["functionCall"];
            fields(call, &["id", "name", "args"], &[])?;
            let id = text(call, "id")?;
            rule(facts.takes(id, 40, |c| c.is_ascii_alphanumeric()), "an id", part)?;
            rule(ids.insert(id.to_owned()), "an id twice", part)?;
            let name = text(call, "name")?;
            let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            let allowed = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
            rule(begins && matches(name, 128, allowed), "a bad name", part)?;
            rule(call["args"].is_object(), "arguments that are no object", part)?;
            rule(
                !open.is_empty() || signature.is_some(),
                "`Function call is missing a thought_signature`",
                part,
            )?;
            open.push((id.to_owned(), name.to_owned()));
            has_text = true;
        } else if part.get("executableCode").is_some() {
            fields(part, &["executableCode"], &["thoughtSignature"])?;
            has_text = true;
        } else {
            fields(part, &["text"], &["thought", "thoughtSignature"])?;
            let part_text = text(part, "text")?;
            let thought = part["thought"] == true;
            rule(!part_text.trim().is_empty() || signature.is_some(), "blank text", part)?;
            rule(!thought || signature.is_some(), "a thought without signature", part)?;
            has_text |= !thought && !part_text.trim().is_empty();
        }
    }
    rule(has_text, "nothing but thoughts", content)
}
