//! Lists, search and usage: the results page by page. They must never include a running turn.

use crate::store::Fixture;
use crate::turns::{NOW, short_turn, turn};
use model::{
    CallPurpose, MemoryCall, Page, PageOptions, SearchOptions, SessionFilter, SpentBy,
    StorageErrorKind, TokenUsage, ToolCallFilter, UsageBy, UsageFilter,
};

fn options<T: serde::de::DeserializeOwned>(json: serde_json::Value) -> T {
    serde_json::from_value(json).unwrap()
}

/// A thread of four turns in `main`, and one turn in a fork at the second.
async fn fork(fixture: &Fixture) {
    for (id, parent) in [("t1", None), ("t2", Some("t1")), ("t3", Some("t2")), ("t4", Some("t3"))] {
        fixture.commit(turn(id, "main", parent)).await.unwrap();
    }
    fixture.ledger.admin.fork("t2", Some("side")).await.unwrap();
    fixture.commit(turn("t5", "side", Some("t2"))).await.unwrap();
}

fn keys<T, After>(
    page: Page<T, After>,
    key: impl Fn(&T) -> String,
) -> (Vec<String>, Option<After>) {
    (page.items.iter().map(key).collect(), page.next)
}

pub async fn the_ancestry_goes_up_to_the_root_page_by_page(fixture: Fixture) {
    fork(&fixture).await;
    let ledger = &fixture.ledger;
    let page = |after: Option<&str>| options(serde_json::json!({ "after": after, "limit": 2 }));
    let ids = |page| keys(page, |turn: &model::TurnSummary| turn.id.clone());
    let first = ids(ledger.read.ancestry("t4".to_owned(), page(None)).await.unwrap());
    assert_eq!(first, (vec!["t4".to_owned(), "t3".to_owned()], Some("t3".to_owned())));
    let last = ids(ledger.read.ancestry("t4".to_owned(), page(Some("t3"))).await.unwrap());
    assert_eq!(last, (vec!["t2".to_owned(), "t1".to_owned()], None));
    let whole = ids(ledger.read.ancestry("t5".to_owned(), PageOptions::default()).await.unwrap());
    assert_eq!(whole, (["t5", "t2", "t1"].map(String::from).to_vec(), None));
    let error = ledger.read.ancestry("t4".to_owned(), page(Some("none"))).await.unwrap_err();
    assert_eq!(
        (error.kind, error.field.as_deref()),
        (StorageErrorKind::UnknownTurn, Some("page.after"))
    );
    let error = ledger.read.ancestry("none".to_owned(), page(None)).await.unwrap_err();
    assert_eq!((error.kind, error.field), (StorageErrorKind::UnknownTurn, None));
}

pub async fn the_children_of_a_turn_are_all_turns_that_follow_it_in_any_session(fixture: Fixture) {
    fork(&fixture).await;
    let ledger = &fixture.ledger;
    let page = |after: Option<&str>| options(serde_json::json!({ "after": after, "limit": 1 }));
    let ids = |page| keys(page, |turn: &model::TurnSummary| turn.id.clone());
    let first = ids(ledger.read.children("t2".to_owned(), page(None)).await.unwrap());
    assert_eq!(first, (vec!["t3".to_owned()], Some("t3".to_owned())));
    let last = ids(ledger.read.children("t2".to_owned(), page(Some("t3"))).await.unwrap());
    assert_eq!(last, (vec!["t5".to_owned()], None));
    assert_eq!(
        ids(ledger.read.children("t4".to_owned(), page(None)).await.unwrap()),
        (vec![], None)
    );
    let error = ledger.read.children("none".to_owned(), page(None)).await.unwrap_err();
    assert_eq!(error.kind, StorageErrorKind::UnknownTurn);
}

pub async fn a_session_is_read_as_of_any_time(fixture: Fixture) {
    let mut at = NOW;
    for (id, parent) in [("t1", None), ("t2", Some("t1")), ("t3", Some("t2"))] {
        let mut turn = turn(id, "main", parent);
        turn.completed_at = at;
        fixture.commit(turn).await.unwrap();
        at += if id == "t1" { 1_000 } else { 0 };
    }
    let ledger = &fixture.ledger;
    let mut pointed = Vec::new();
    for time in [NOW - 1, NOW, NOW + 999, NOW + 1_000, i64::MAX] {
        let found = ledger.read.as_of("main".to_owned(), time).await.unwrap();
        pointed.push(found.map(|found| found.thread_id));
    }
    // Of two moves in one millisecond, the later one is read.
    let expected = [None, Some("t1"), Some("t1"), Some("t3"), Some("t3")];
    assert_eq!(pointed, expected.map(|id| id.map(String::from)));
    let turns = |page| keys(page, |moved: &model::SessionMove| moved.thread_id.clone());
    let page = |after: Option<String>| options(serde_json::json!({ "after": after, "limit": 2 }));
    let (first, next) =
        turns(ledger.read.session_history("main".to_owned(), page(None)).await.unwrap());
    assert_eq!(first, ["t1", "t2"]);
    let rest = ledger.read.session_history("main".to_owned(), page(next)).await.unwrap();
    assert_eq!(turns(rest), (vec!["t3".to_owned()], None));
    let wrong = ledger.read.session_history("main".to_owned(), page(Some("x".to_owned()))).await;
    let wrong = wrong.unwrap_err();
    let field = Some("page.after".to_owned());
    assert_eq!((wrong.kind, wrong.field), (StorageErrorKind::InvalidQuery, field));
    let unknown = ledger.read.as_of("none".to_owned(), NOW).await.unwrap_err();
    assert_eq!(unknown.kind, StorageErrorKind::UnknownSession);
}

pub async fn a_search_finds_messages_newest_first_and_no_tool_results(fixture: Fixture) {
    fork(&fixture).await;
    let found = |text: &str, wanted: serde_json::Value| {
        let (ledger, text) = (fixture.ledger.clone(), text.to_owned());
        let wanted: SearchOptions = options(wanted);
        async move {
            let page = ledger.read.search(text, wanted).await.unwrap();
            keys(page, |hit| format!("{} {}", hit.message_id, hit.excerpt))
        }
    };
    let (all, next) = found("DONE", serde_json::json!({ "limit": 3 })).await;
    assert_eq!(all, ["t5-m3 done t5", "t4-m3 done t4", "t3-m3 done t3"]);
    let (rest, next) = found("done", serde_json::json!({ "limit": 3, "after": next })).await;
    assert_eq!(
        (rest.as_slice(), next),
        (["t2-m3 done t2", "t1-m3 done t1"].map(String::from).as_slice(), None)
    );
    let (side, _) = found("done", serde_json::json!({ "sessionLabel": "side" })).await;
    assert_eq!(side, ["t5-m3 done t5"]);
    assert_eq!(found("t4 ask", serde_json::json!({})).await.0, ["t4-m0 ask t4"]);
    assert_eq!(found("don*", serde_json::json!({ "limit": 1 })).await.0, ["t5-m3 done t5"]);
    for absent in ["content", "hm", "don", "done ask", "\" OR *", "", "done NOT t5 x"] {
        assert_eq!(found(absent, serde_json::json!({})).await, (vec![], None), "{absent}");
    }
}

pub async fn the_calls_of_the_memory_are_in_the_usage_and_in_what_was_spent(fixture: Fixture) {
    let ledger = &fixture.ledger;
    let day = 86_400_000;
    let mut of_turn = short_turn("t1", "agent:a:main", None);
    of_turn.header.started_at = day;
    fixture.commit(of_turn).await.unwrap();
    for (label, model, nanos, at) in [
        ("agent:a:main", "claude", Some(500_000_000), day),
        ("agent:a:main", "claude", None, day + 1),
        ("other", "vectors", None, 2 * day),
    ] {
        let used = MemoryCall {
            session_label: label.to_owned(),
            provider: "anthropic".to_owned(),
            model: model.to_owned(),
            purpose: CallPurpose::Extract,
            usage: TokenUsage::new(10, 1, 0, 0, 0),
            nanos,
            at,
        };
        ledger.memory.used(used).await.unwrap();
    }
    let used = |filter: serde_json::Value| {
        let (ledger, filter) = (ledger.clone(), options::<UsageFilter>(filter));
        async move {
            let page = ledger.read.usage(filter).await.unwrap();
            keys(page, |row| {
                let (turns, calls, total) =
                    (row.turns, row.memory_calls, row.memory_usage.total_tokens);
                format!("{} {turns} {calls} {total} {:?}", row.key, row.memory_cost)
            })
        }
    };
    let both = ["agent:a:main 1 2 22 Some(0.5)", "other 0 1 11 None"];
    assert_eq!(used(serde_json::json!({ "by": "session" })).await.0, both);
    let first = used(serde_json::json!({ "by": "session", "limit": 1 })).await;
    assert_eq!(first.0, both[..1]);
    let rest = used(serde_json::json!({ "by": "session", "limit": 1, "after": first.1 })).await;
    assert_eq!(rest, (vec![both[1].to_owned()], None));
    let agents = used(serde_json::json!({ "by": "agent" })).await.0;
    assert_eq!(agents, ["a 1 2 22 Some(0.5)"]);
    let models = used(serde_json::json!({ "by": "model", "limit": 1 })).await;
    assert_eq!(models.0, ["anthropic/claude 1 2 22 Some(0.5)"]);
    let rest = used(serde_json::json!({ "by": "model", "after": models.1 })).await.0;
    assert_eq!(rest, ["anthropic/vectors 0 1 11 None"]);
    let rest = used(serde_json::json!({ "by": "model", "after": "anthropic/vectors" })).await.0;
    assert_eq!(rest, <[String; 0]>::default());
    let days = used(serde_json::json!({ "by": "day" })).await.0;
    assert_eq!(days, ["1970-01-02 1 2 22 Some(0.5)", "1970-01-03 0 1 11 None"]);
    let turns = used(serde_json::json!({ "by": "turn" })).await.0;
    assert_eq!(turns, ["t1 1 0 0 None"]);
    for (by, tokens) in [
        (SpentBy::Turn("t1".to_owned()), 127),
        (SpentBy::Session("agent:a:main".to_owned()), 149),
        (SpentBy::Agent("a".to_owned()), 149),
        (SpentBy::Between(day, 3 * day), 160),
        (SpentBy::Between(2 * day, 3 * day), 11),
    ] {
        let spent = ledger.journal.spent(by).await.unwrap();
        assert_eq!(spent.tokens, tokens);
    }
}

pub async fn usage_is_summed_by_each_key_and_an_unknown_price_is_not_0(fixture: Fixture) {
    let day = 86_400_000;
    for (id, label, started_at, model, cost) in [
        ("t1", "agent:a:main", 0, "m1", Some(0.25)),
        ("t2", "agent:a:dm:x", day - 1, "m1", None),
        ("t3", "agent:b:main", day, "m2", Some(0.5)),
        ("t4", "other", 3 * day, "m2", None),
    ] {
        let mut turn = short_turn(id, label, None);
        (turn.header.started_at, turn.cost) = (started_at, cost);
        turn.settings.model = model.to_owned();
        fixture.commit(turn).await.unwrap();
    }
    let used = |filter: serde_json::Value| {
        let (ledger, filter) = (fixture.ledger.clone(), options::<UsageFilter>(filter));
        async move {
            let page = ledger.read.usage(filter).await.unwrap();
            keys(page, |row| {
                let (turns, unpriced, total) =
                    (row.turns, row.unpriced_turns, row.usage.total_tokens);
                format!("{} {turns}-{unpriced} {total} {:?}", row.key, row.cost)
            })
        }
    };
    assert_eq!(
        used(serde_json::json!({ "by": "agent" })).await.0,
        ["a 2-1 254 Some(0.25)", "b 1-0 127 Some(0.5)", "default 1-1 127 None"]
    );
    assert_eq!(
        used(serde_json::json!({ "by": "model" })).await.0,
        ["anthropic/m1 2-1 254 Some(0.25)", "anthropic/m2 2-1 254 Some(0.5)"]
    );
    assert_eq!(
        used(serde_json::json!({ "by": "day" })).await.0,
        [
            "1970-01-01 2-1 254 Some(0.25)",
            "1970-01-02 1-0 127 Some(0.5)",
            "1970-01-04 1-1 127 None"
        ]
    );
    let sessions = used(serde_json::json!({ "by": "session", "limit": 3 })).await;
    assert_eq!(
        sessions.0,
        [
            "agent:a:dm:x 1-1 127 None",
            "agent:a:main 1-0 127 Some(0.25)",
            "agent:b:main 1-0 127 Some(0.5)"
        ]
    );
    let rest = used(serde_json::json!({ "by": "session", "limit": 3, "after": sessions.1 })).await;
    assert_eq!(rest, (vec!["other 1-1 127 None".to_owned()], None));
    for (filter, expected) in [
        (
            serde_json::json!({ "by": "model", "after": "anthropic/m1" }),
            "anthropic/m2 2-1 254 Some(0.5)",
        ),
        (serde_json::json!({ "by": "day", "after": "1970-01-02" }), "1970-01-04 1-1 127 None"),
        (
            serde_json::json!({ "by": "day", "since": 1, "until": day + 1, "after": "1970-01-01" }),
            "1970-01-02 1-0 127 Some(0.5)",
        ),
        (serde_json::json!({ "by": "agent", "agentId": "b" }), "b 1-0 127 Some(0.5)"),
        (serde_json::json!({ "by": "model", "agentId": "a" }), "anthropic/m1 2-1 254 Some(0.25)"),
        (serde_json::json!({ "by": "session", "since": 3 * day }), "other 1-1 127 None"),
        (
            serde_json::json!({ "by": "agent", "model": "m2", "until": 2 * day }),
            "b 1-0 127 Some(0.5)",
        ),
        (serde_json::json!({ "by": "day", "sessionLabel": "other" }), "1970-01-04 1-1 127 None"),
    ] {
        assert_eq!(used(filter.clone()).await, (vec![expected.to_owned()], None), "{filter}");
    }
    for (by, after) in [(UsageBy::Model, "none/such"), (UsageBy::Day, "1970-13-01")] {
        let mut filter: UsageFilter = options(serde_json::json!({ "by": "day", "after": after }));
        filter.by = by;
        let error = fixture.ledger.read.usage(filter).await.unwrap_err();
        let field = Some("filter.after".to_owned());
        assert_eq!((error.kind, error.field), (StorageErrorKind::InvalidQuery, field));
    }
}

pub async fn a_run_in_no_session_has_its_turn_and_no_session(fixture: Fixture) {
    let ledger = &fixture.ledger;
    let [one, other] = ["run:01JZ8Q2T3V4W5X6Y7Z8A9B0CDE", "run:01JZ8Q2T3V4W5X6Y7Z8A9B0CDF"];
    fixture.commit(turn("t1", one, None)).await.unwrap();
    fixture.commit(turn("t2", other, None)).await.unwrap();
    fixture.commit(turn("t3", "run:nightly", None)).await.unwrap();
    let sessions = ledger.read.sessions(SessionFilter::default()).await.unwrap();
    assert_eq!(keys(sessions, |row| row.label.clone()).0, ["run:nightly"]);
    assert_eq!(ledger.read.session(one).await.unwrap(), None);
    for error in [
        ledger.read.session_history(one.to_owned(), PageOptions::default()).await.unwrap_err(),
        ledger.read.as_of(one.to_owned(), NOW).await.unwrap_err(),
        ledger.admin.set_archived(one.to_owned(), true).await.unwrap_err(),
    ] {
        assert_eq!(error.kind, StorageErrorKind::UnknownSession);
    }
    assert_eq!(ledger.admin.stats().await.unwrap().sessions, 1);
    // Its turn is like any other: read, searched, counted, checked, and continued as a session.
    assert_eq!(ledger.read.turn("t1").await.unwrap().unwrap().session_label, one);
    let found = ledger.read.search("ask t2".to_owned(), SearchOptions::default()).await.unwrap();
    assert_eq!(found.items[0].turn_id, "t2");
    let fork = ledger.admin.fork("t1", Some("main")).await.unwrap();
    assert_eq!((fork.label.as_str(), fork.thread_id.as_deref()), ("main", Some("t1")));
    assert_eq!(ledger.admin.verify().await.unwrap().problems, []);
}

pub async fn sessions_and_tool_calls_are_listed_by_their_filters(fixture: Fixture) {
    fork(&fixture).await;
    let ledger = &fixture.ledger;
    fixture.commit(turn("t6", "agent:a:main", None)).await.unwrap();
    fixture.commit(turn("t7", "agent:a:dm:x", None)).await.unwrap();
    ledger.admin.set_archived("side".to_owned(), true).await.unwrap();
    for (filter, expected) in [
        (serde_json::json!({}), vec!["agent:a:dm:x", "agent:a:main", "main", "side"]),
        (serde_json::json!({ "agentId": "a" }), vec!["agent:a:dm:x", "agent:a:main"]),
        (serde_json::json!({ "agentId": "a", "after": "agent:a:dm:x" }), vec!["agent:a:main"]),
        (
            serde_json::json!({ "personaId": "default", "status": "active" }),
            vec!["agent:a:dm:x", "agent:a:main", "main"],
        ),
        (serde_json::json!({ "status": "archived" }), vec!["side"]),
        (serde_json::json!({ "prefix": "agent:a:" }), vec!["agent:a:dm:x", "agent:a:main"]),
        (serde_json::json!({ "prefix": "main" }), vec!["main"]),
        (serde_json::json!({ "prefix": "main", "after": "main" }), vec![]),
        (serde_json::json!({ "isSubagent": true }), vec![]),
        (serde_json::json!({ "parentSessionLabel": "main" }), vec![]),
    ] {
        let page = ledger.read.sessions(options::<SessionFilter>(filter.clone())).await.unwrap();
        assert_eq!(keys(page, |row| row.label.clone()).0, expected, "{filter}");
    }
    for (filter, expected, next) in [
        (serde_json::json!({ "limit": 2 }), vec!["t1-c0", "t2-c0"], Some("t2-c0")),
        (serde_json::json!({ "after": "t5-c0" }), vec!["t6-c0", "t7-c0"], None),
        (
            serde_json::json!({ "sessionLabel": "main", "after": "t2-c0" }),
            vec!["t3-c0", "t4-c0"],
            None,
        ),
        (serde_json::json!({ "turnId": "t5" }), vec!["t5-c0"], None),
        (serde_json::json!({ "turnId": "t5", "after": "t5-c0" }), vec![], None),
        (serde_json::json!({ "toolName": "read", "limit": 1 }), vec!["t1-c0"], Some("t1-c0")),
        (serde_json::json!({ "toolName": "write" }), vec![], None),
        (serde_json::json!({ "status": "failed" }), vec![], None),
    ] {
        let page = ledger.read.tool_calls(options::<ToolCallFilter>(filter.clone())).await.unwrap();
        let found = keys(page, |row| row.call.call_id.clone());
        assert_eq!(
            (found.0, found.1.as_deref()),
            (expected.into_iter().map(String::from).collect(), next),
            "{filter}"
        );
    }
    let wrong =
        ledger.read.tool_calls(options(serde_json::json!({ "after": "none" }))).await.unwrap_err();
    assert_eq!(wrong.field.as_deref(), Some("filter.after"));
}
