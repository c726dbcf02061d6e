//! Every problem of an input is found, and nothing else.

use proptest::prelude::*;
use proptest::sample::subsequence;
use serde_json::{Value, json};

use super::all_problems;
use crate::{Defaults, InputError, parse_context};

/// A context without a problem.
fn context() -> Value {
    json!({
        "systemPrompt": "",
        "history": [
            { "role": "user", "content": "a" },
            { "role": "assistant", "content": [{ "type": "text", "text": "b" }] },
            { "role": "user", "content": [{ "type": "text", "text": "c" }, { "type": "text", "text": "d" }] },
        ],
        "currentMessage": { "role": "user", "content": "hi" },
        "tools": [
            { "name": "a", "description": "", "parameters": {} },
            { "name": "b", "description": "", "parameters": {} },
        ],
        "model": "m",
        "provider": "p",
        "timeoutMs": 1000,
        "runId": "r",
        "sessionLabel": "s",
        "role": "unified",
        "toolsetName": "t",
        "permissionsGranted": [],
        "workspacePath": "/",
        "requestMetadata": { "user.id": "u" },
    })
}

/// Independent mistakes: a JSON pointer, the value that is put there (null removes it), and the path of the problem.
fn mistakes() -> Vec<(&'static str, Value, &'static str)> {
    vec![
        ("/timeoutMs", json!(0), "timeoutMs"),
        ("/temperature", json!(5), "temperature"),
        ("/maxIterations", json!(0), "maxIterations"),
        ("/maxResponseTokens", json!("many"), "maxResponseTokens"),
        ("/role", json!("boss"), "role"),
        ("/model", Value::Null, "model"),
        ("/provider", json!(""), "provider"),
        ("/runId", json!(7), "runId"),
        ("/sessionLabel", json!(""), "sessionLabel"),
        ("/systemPrompt", Value::Null, "systemPrompt"),
        ("/permissionsGranted", json!("all"), "permissionsGranted"),
        ("/parentTurnId", json!(""), "parentTurnId"),
        ("/coalesce", json!("no"), "coalesce"),
        ("/history/0/role", json!("boss"), "history[0].role"),
        ("/history/1/content/0/type", json!("sound"), "history[1].content[0].type"),
        ("/history/2/content/0/text", json!(5), "history[2].content[0].text"),
        ("/history/2/content/1", json!("d"), "history[2].content[1].type"),
        ("/currentMessage/createdAt", json!("now"), "currentMessage.createdAt"),
        ("/tools/0/name", json!("a b"), "tools[0].name"),
        ("/tools/1/timeoutMs", json!(0), "tools[1].timeoutMs"),
        ("/tools/1/executionMode", json!("both"), "tools[1].executionMode"),
        ("/thinkingConfig", json!({ "type": "loud" }), "thinkingConfig.type"),
        ("/tokenBudget", json!({ "available": "all" }), "tokenBudget.available"),
        ("/stopSequences", json!(["a", ""]), "stopSequences[1]"),
        ("/requestMetadata/user.id", json!("a\nb"), "requestMetadata.user.id"),
        ("/responseFormat", json!({ "type": "yaml" }), "responseFormat.type"),
    ]
}

fn with(mut context: Value, (pointer, value, _): &(&str, Value, &str)) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = context.pointer_mut(parent).unwrap();
    match (parent, value) {
        (Value::Object(fields), Value::Null) => drop(fields.remove(name)),
        (Value::Object(fields), value) => drop(fields.insert(name.to_owned(), value.clone())),
        (Value::Array(items), value) => items[name.parse::<usize>().unwrap()] = value.clone(),
        _ => unreachable!("a mistake is in an object or a list"),
    }
    context
}

fn read(text: &str) -> Option<InputError> {
    let mut new_id = || "id".to_owned();
    parse_context(text, &mut Defaults { new_id: &mut new_id, now_ms: 0 }).err()
}

fn paths(context: &Value) -> Vec<String> {
    let mut paths: Vec<_> =
        all_problems(&context.to_string(), read).into_iter().map(|it| it.path).collect();
    paths.sort();
    paths
}

#[test]
fn a_usable_input_has_none_and_each_mistake_is_one() {
    assert_eq!(read(&context().to_string()), None);
    for mistake in &mistakes() {
        assert_eq!(paths(&with(context(), mistake)), [mistake.2]);
    }
}

#[test]
fn the_first_problem_is_the_one_that_the_reader_refuses() {
    let text = with(with(context(), &mistakes()[1]), &mistakes()[4]).to_string();
    assert_eq!(all_problems(&text, read).first(), read(&text).as_ref());
}

#[test]
fn a_consequence_of_a_problem_is_no_problem() {
    let mut context = context();
    context["tools"][0]["name"] = json!("a b");
    context["toolChoice"] = json!({ "name": "a b" });
    context["tools"][1]["replay"] = json!("maybe");
    context["tools"][1]["retries"] = json!(2);
    assert_eq!(paths(&context), ["tools[0].name", "tools[1].replay"]);
}

#[test]
fn what_is_wrong_in_a_value_put_in_place_of_another_is_no_problem() {
    let mut context = context();
    context["currentMessage"] = json!(5);
    context["tools"][0] = json!("a");
    context["history"][1] = json!([]);
    assert_eq!(paths(&context), ["currentMessage", "history[1]", "tools[0]"]);
}

#[test]
fn what_is_no_object_has_one_problem() {
    for text in ["[]", "5", "", "{"] {
        assert_eq!(all_problems(text, read).len(), 1, "{text}");
    }
}

#[test]
fn the_search_ends_for_any_number_of_problems() {
    let mut context = context();
    context["history"] = (0..200).map(|_| json!({ "role": "boss", "content": 5 })).collect();
    assert_eq!(paths(&context).len(), super::MAX_PROBLEMS);
}

proptest! {
    #[test]
    fn k_independent_mistakes_are_k_problems(chosen in subsequence(mistakes(), 1..12)) {
        let context = chosen.iter().fold(context(), with);
        let mut expected: Vec<_> = chosen.iter().map(|mistake| mistake.2.to_owned()).collect();
        expected.sort();
        prop_assert_eq!(paths(&context), expected);
    }
}
