//! The lists of turns by day, by model, by tool and by parent, over more turns than a block of the file has.

use std::collections::BTreeMap;

use super::*;
use model::{SpentBy, UsageRow};

const DAY: i64 = 86_400_000;
const TURNS: usize = 200;

fn filter<T: serde::de::DeserializeOwned>(json: serde_json::Value) -> T {
    serde_json::from_value(json).unwrap()
}

fn id(number: usize) -> String {
    // The order of the ids is not that in which the turns are written.
    format!("t{:03}", number * 7 % TURNS)
}

/// Roots in three sessions, on five days, with four models and three tools.
async fn written() -> Fixture {
    let fixture = Fixture::new();
    for number in 0..TURNS {
        let day = i64::try_from(number * 3 % 5).unwrap();
        let mut turn = turn(&id(number), &format!("s{}", number % 3), None);
        turn.header.expected_head = number.checked_sub(3).map(id);
        turn.header.parent_turn_id = None;
        turn.header.started_at = NOW + day * DAY;
        turn.settings.model = format!("m{}", number % 4);
        turn.tool_calls[0].tool_name = format!("tool{}", number % 3);
        fixture.commit(turn).await.unwrap();
    }
    fixture
}

fn counts(rows: &[UsageRow]) -> BTreeMap<&str, u64> {
    rows.iter().map(|row| (row.key.as_str(), row.turns)).collect()
}

#[tokio::test]
async fn usage_by_day_and_by_model_counts_every_turn_once() {
    let fixture = written().await;
    let usage = async |by: serde_json::Value| fixture.ledger.usage(filter(by)).await.unwrap().items;
    let models = usage(serde_json::json!({ "by": "model" })).await;
    let of_model = ["m0", "m1", "m2", "m3"].map(|model| format!("anthropic/{model}"));
    assert_eq!(counts(&models), of_model.iter().map(|it| (it.as_str(), 50)).collect());
    let days = usage(serde_json::json!({ "by": "day" })).await;
    assert_eq!(days.iter().map(|day| day.turns).collect::<Vec<_>>(), [40; 5]);
    let (since, until) = (NOW + DAY, NOW + 3 * DAY + 1);
    let some = usage(serde_json::json!({ "by": "day", "since": since, "until": until })).await;
    let expected: Vec<UsageRow> = days.into_iter().skip(1).take(3).collect();
    assert_eq!(some, expected);
    let spent = Journal::spent(&*fixture.ledger, SpentBy::Between(since, until)).await.unwrap();
    assert_eq!(spent.tokens, 3 * 40 * 127);
    let none = Journal::spent(&*fixture.ledger, SpentBy::Between(0, NOW)).await.unwrap();
    assert_eq!(none.tokens, 0);
    assert_eq!(fixture.ledger.verify().await.unwrap().problems, []);
}

#[tokio::test]
async fn the_calls_of_a_tool_are_listed_page_by_page_in_the_order_of_their_turns() {
    let fixture = written().await;
    let (mut found, mut after) = (Vec::new(), None::<String>);
    loop {
        let of = serde_json::json!({ "toolName": "tool1", "limit": 9, "after": after });
        let page = fixture.ledger.tool_calls(filter(of)).await.unwrap();
        found.extend(page.items.into_iter().map(|row| row.turn_id));
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    let expected: Vec<String> = (0..TURNS).filter(|number| number % 3 == 1).map(id).collect();
    assert_eq!(found, expected);
}

#[tokio::test]
async fn the_children_of_a_turn_are_listed_by_their_ids_whichever_came_first() {
    let fixture = Fixture::new();
    fixture.commit(turn("root", "main", None)).await.unwrap();
    for (id, label) in [("c3", "main"), ("c1", "a"), ("c4", "b"), ("c2", "c")] {
        let mut child = turn(id, label, Some("root"));
        child.header.expected_head = (label == "main").then(|| "root".to_owned());
        fixture.commit(child).await.unwrap();
    }
    let children = async |page: serde_json::Value| {
        let page = fixture.ledger.children("root".to_owned(), filter(page)).await.unwrap();
        (page.items.into_iter().map(|turn| turn.id).collect::<Vec<_>>(), page.next)
    };
    let all = ["c1", "c2", "c3", "c4"].map(str::to_owned).to_vec();
    assert_eq!(children(serde_json::json!({})).await, (all.clone(), None));
    let first = children(serde_json::json!({ "limit": 2 })).await;
    assert_eq!(first, (all[..2].to_vec(), Some("c2".to_owned())));
    let rest = children(serde_json::json!({ "limit": 2, "after": "c2" })).await;
    assert_eq!(rest, (all[2..].to_vec(), None));
    assert_eq!(children(serde_json::json!({ "after": "c3" })).await, (all[3..].to_vec(), None));
    assert_eq!(fixture.ledger.verify().await.unwrap().problems, []);
}

#[tokio::test]
async fn a_list_that_does_not_have_the_turns_is_reported() {
    for sql in [
        "UPDATE turns_of_days SET day = day + 1",
        "UPDATE turns_of_models SET block = block + 1",
        "DELETE FROM turns_of_tools",
        "UPDATE turn_rows SET first_child = n WHERE id = 't2'",
        "DELETE FROM turn_branches",
        "INSERT INTO turn_branches VALUES ('t1', 't2')",
    ] {
        let fixture = Fixture::new();
        fixture.commit(turn("t1", "main", None)).await.unwrap();
        fixture.commit(turn("t2", "main", Some("t1"))).await.unwrap();
        let mut branch = turn("t3", "side", Some("t1"));
        branch.header.expected_head = None;
        fixture.commit(branch).await.unwrap();
        assert_eq!(fixture.ledger.verify().await.unwrap().problems, []);
        let change = move |connection: &rusqlite::Connection| {
            connection.execute(sql, ()).map_err(|error| crate::sqlite::error::sqlite("try", &error))
        };
        fixture.ledger.core().unwrap().writer.submit(change).await.unwrap();
        let problems = fixture.ledger.verify().await.unwrap().problems;
        assert!(!problems.is_empty(), "{sql}");
    }
}
