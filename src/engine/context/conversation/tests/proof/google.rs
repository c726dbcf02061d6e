//! What Gemini accepts (docs/rules/wire/google.md#order-of-contents), checked on the body it would get. The model is one that demands signatures.

use std::collections::HashSet;

use serde_json::Value;

use super::check::{Facts, Verdict, base64, fields, list, matches, rule, spoken, text};

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
    rule(previous == "user", "asks nothing", &Value::Null)
}

/// As many responses as calls, first and in their order.
fn results(content: &Value, parts: &[Value], open: &mut Vec<(String, String)>) -> Verdict {
    let count = parts.iter().take_while(|part| part.get("functionResponse").is_some()).count();
    rule(count == open.len(), "not one response per call", content)?;
    for (part, (id, name)) in parts.iter().zip(open.drain(..)) {
        fields(part, &["functionResponse"], &[])?;
        let response = &part["functionResponse"];
        fields(response, &["id", "name", "response"], &[])?;
        rule(text(response, "id")? == id && text(response, "name")? == name, "a response", part)?;
        let told = response["response"].as_object().filter(|told| told.len() == 1);
        let told = told.and_then(|told| told.get("output").or(told.get("error")));
        rule(told.and_then(Value::as_str).is_some_and(|it| !it.trim().is_empty()), "told", part)?;
    }
    for part in parts.iter().skip(count) {
        if part.get("text").is_some() {
            fields(part, &["text"], &[])?;
            spoken(part, "text")?;
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
    let mut says = false;
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
            says = true;
        } else if part.get("executableCode").is_some() {
            fields(part, &["executableCode"], &["thoughtSignature"])?;
            says = true;
        } else {
            fields(part, &["text"], &["thought", "thoughtSignature"])?;
            let told = text(part, "text")?;
            let thought = part["thought"] == true;
            rule(!told.trim().is_empty() || signature.is_some(), "blank text", part)?;
            rule(!thought || signature.is_some(), "a thought without signature", part)?;
            says |= !thought && !told.trim().is_empty();
        }
    }
    rule(says, "nothing but thoughts", content)
}
