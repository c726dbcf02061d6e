//! The reservations of a run with a budget: in which write they are made, and that each is settled.

use serde_json::json;

use super::*;

fn budgets(limits: &Value) -> Budgets {
    let raw = serde_json::value::to_raw_value(limits).unwrap();
    Budgets::parse(Some(&raw)).unwrap()
}

fn rig(script: &Value, limits: &Value) -> Rig {
    Rig::budgeted(script, Clock::default(), ProviderKeys::default(), budgets(limits))
}

fn answer(text: &str, calls: &[&str]) -> Value {
    let calls: Vec<Value> = calls.iter().map(|name| call(name)).collect();
    json!({ "text": text, "toolCalls": calls, "usage": { "inputTokens": 7, "outputTokens": 2 } })
}

fn steps(rig: &Rig) -> Vec<String> {
    rig.journal.steps.lock().unwrap().clone()
}

/// Nothing is reserved any more, and this was spent.
fn assert_settled(rig: &Rig, tokens: u64) {
    let accounts = rig.journal.accounts.lock().unwrap();
    assert_eq!((accounts.reserved.len(), accounts.spent), (0, tokens));
    assert!(rig.engine.budgets().iter().all(|state| state.held_tokens == 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_is_reserved_by_the_write_before_it_and_needs_no_write_of_its_own() {
    let script = json!([answer("a", &["echo"]), answer("b", &["echo"]), answer("done", &[])]);
    let rounds = |reserved: &str, settled: &[&str]| -> Vec<String> {
        let mut all = vec![format!("W0{reserved}")];
        for _ in 0..2 {
            all.extend(settled.iter().map(|it| (*it).to_owned()));
            all.push("assistant, echo running".to_owned());
            all.push(format!("tool, echo completed{reserved}"));
        }
        all.extend(settled.iter().map(|it| (*it).to_owned()));
        all
    };
    let with = rig(&script, &json!([{ "per": "session", "maxTokens": 500_000 }]));
    with.start(&json!({})).end().await;
    assert_eq!(steps(&with), rounds(" + reserved", &["settle 9"]));
    assert_settled(&with, 27);
    let without = rig(&script, &json!([]));
    without.start(&json!({})).end().await;
    assert_eq!(steps(&without), rounds("", &[]));
}

#[tokio::test(start_paused = true)]
async fn a_retried_call_is_reserved_by_itself_and_settled_at_what_was_used() {
    let failure = json!({ "error": { "kind": "server_error", "message": "no" } });
    let rig =
        rig(&json!([failure, answer("ok", &[])]), &json!([{ "per": "day", "maxTokens": 500_000 }]));
    rig.start(&json!({})).end().await;
    assert_eq!(steps(&rig), ["W0 + reserved", "settle 0", "reserved", "settle 9"]);
    assert_settled(&rig, 9);
}

#[tokio::test(start_paused = true)]
async fn a_call_over_the_budget_is_refused_after_its_turn_has_begun() {
    let rig = rig(&json!(["never"]), &json!([{ "per": "session", "maxTokens": 10 }]));
    let (result, _) = rig.start(&json!({})).end().await;
    assert_eq!(result["error"]["detail"]["code"], "budget_tokens");
    assert_eq!(steps(&rig), ["W0"], "this process knows that it exceeds the budget");
    assert_settled(&rig, 0);
    assert_eq!(rig.provider.requests_json(), "[]");
}

#[tokio::test(start_paused = true)]
async fn a_call_over_what_other_processes_have_left_is_refused_after_its_turn_has_begun() {
    let rig = rig(&json!(["never"]), &json!([{ "per": "session", "maxTokens": 500_000 }]));
    rig.journal.accounts.lock().unwrap().spent = 499_999;
    let (result, _) = rig.start(&json!({})).end().await;
    assert_eq!(result["error"]["detail"]["code"], "budget_tokens");
    assert_eq!(steps(&rig), ["W0 + refused", "refused", "settle 0"]);
    assert_settled(&rig, 499_999);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_aborted_is_settled_at_what_came_of_it() {
    let cut = json!([{ "steps": [{ "text": "par" }, { "gate": "never" }] }]);
    let rig = rig(&cut, &json!([{ "per": "session", "maxTokens": 500_000 }]));
    let mut run = rig.start(&json!({}));
    run.until(RecordKind::Token, "par").await;
    run.control.abort();
    run.end().await;
    let [opened, settled] = steps(&rig).try_into().unwrap();
    assert_eq!(opened, "W0 + reserved");
    let used = settled.strip_prefix("settle ").unwrap().parse().unwrap();
    assert!((1..1_000).contains(&used), "{used}");
    assert_settled(&rig, used);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_before_its_call_releases_what_it_has_reserved() {
    let rig = rig(&json!(["never"]), &json!([{ "per": "run", "maxTokens": 500_000 }]));
    let mut run = rig.start(&json!({}));
    run.control.abort();
    run.end().await;
    let aborted = steps(&rig);
    assert!(["", "W0 + reserved, settle 0"].contains(&aborted.join(", ").as_str()), "{aborted:?}");
    assert_settled(&rig, 0);
}
