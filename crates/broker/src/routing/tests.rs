//! Bindings, labels, targets and agents.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use model::{SessionKey, SessionKind};

fn event(value: serde_json::Value) -> RoutedEvent {
    serde_json::from_value(value).unwrap()
}

fn directory(value: serde_json::Value) -> AgentDirectory {
    serde_json::from_value(value).unwrap()
}

#[test]
fn the_most_specific_binding_decides() {
    let group = json!({ "kind": "group", "id": "42" });
    let matches = [
        ("peer", json!({ "peer": group })),
        ("guild", json!({ "guildId": "g1" })),
        ("account", json!({ "accountId": "bot" })),
        ("channel", json!({ "channel": "telegram" })),
        ("any account", json!({ "channel": "telegram", "accountId": "*" })),
    ];
    let at =
        event(json!({ "channel": "telegram", "accountId": "bot", "peer": group, "guildId": "g1" }));
    for from in 0..matches.len() {
        // The least specific stand first: the order must not matter.
        let bindings: Vec<Binding> = matches[from..]
            .iter()
            .rev()
            .map(|(id, matching)| Binding {
                agent_id: (*id).to_owned(),
                matching: serde_json::from_value(matching.clone()).unwrap(),
            })
            .collect();
        assert_eq!(agent_of(&bindings, &at), Some(matches[from].0));
    }
}

#[test]
fn everything_that_a_binding_names_must_match_and_of_equal_ones_the_first_decides() {
    let bindings: Vec<Binding> = serde_json::from_value(json!([
        { "agentId": "a", "match": { "channel": "telegram", "peer": { "kind": "dm", "id": "1" } } },
        { "agentId": "b", "match": { "peer": { "kind": "dm", "id": "1" } } },
        { "agentId": "c", "match": { "peer": { "kind": "dm", "id": "1" } } },
    ]))
    .unwrap();
    let peer = json!({ "kind": "dm", "id": "1" });
    assert_eq!(
        agent_of(&bindings, &event(json!({ "channel": "telegram", "peer": peer }))),
        Some("a")
    );
    assert_eq!(
        agent_of(&bindings, &event(json!({ "channel": "discord", "peer": peer }))),
        Some("b")
    );
    let group = json!({ "kind": "group", "id": "1" });
    assert_eq!(agent_of(&bindings, &event(json!({ "peer": group }))), None);
}

#[test]
fn the_table_of_session_keys() {
    let dm = json!({ "channel": "telegram", "peer": { "kind": "dm", "id": "tyler" } });
    let group = json!({ "channel": "telegram", "peer": { "kind": "group", "id": "123" } });
    let thread = json!({ "channel": "telegram", "peer": { "kind": "group", "id": "123" }, "threadId": "456" });
    for (at, scope, label) in [
        (json!({}), DmScope::Main, "agent:main:main"),
        (dm.clone(), DmScope::Main, "agent:main:main"),
        (dm, DmScope::PerPeer, "agent:main:dm:tyler"),
        (group, DmScope::PerPeer, "agent:main:telegram:group:123"),
        (thread, DmScope::Main, "agent:main:telegram:group:123:thread:456"),
    ] {
        assert_eq!(build_session_key("main", &event(at), scope), label);
    }
}

#[test]
fn a_target_names_exactly_one_thing() {
    let read = |value| serde_json::from_value::<RoutingTarget>(value).unwrap();
    let target = |value| read(value).target().map(|target| format!("{target:?}"));
    assert_eq!(
        target(json!({ "session": "main", "smart": true })),
        Ok("Session(\"main\")".to_owned())
    );
    assert_eq!(target(json!({ "thread": "t" })), Ok("Thread(\"t\")".to_owned()));
    assert_eq!(target(json!({ "persona": "atlas" })), Ok("Persona(\"atlas\")".to_owned()));
    assert_eq!(target(json!({ "smart": true })), Err(TargetError::Nothing));
    assert_eq!(target(json!({ "session": "main", "event": {} })), Err(TargetError::Several));
    assert_eq!(target(json!({ "session": "" })), Err(TargetError::Empty("session")));
    assert!(serde_json::from_value::<RoutingTarget>(json!({ "sesion": "main" })).is_err());
}

#[test]
fn a_smart_route_falls_back_to_the_given_target_and_says_why() {
    let answer = |session: &str, confidence| {
        Ok(Some(SmartAnswer {
            thread: None,
            session: Some(session.to_owned()),
            persona: None,
            confidence,
        }))
    };
    let route = |answer, exists| smart_route(answer, None, |_| exists);
    let given = Err;
    assert_eq!(
        route(answer("other", 0.5), true),
        Ok(RoutingTarget { session: Some("other".to_owned()), ..RoutingTarget::default() })
    );
    assert_eq!(route(answer("other", 0.49), true), given(SmartFallback::LowConfidence));
    assert_eq!(
        smart_route(answer("other", 0.49), Some(0.4), |_| false),
        given(SmartFallback::Unknown)
    );
    assert_eq!(route(answer("", 1.0), true), given(SmartFallback::Invalid));
    assert_eq!(route(answer("other", f64::NAN), true), given(SmartFallback::Invalid));
    assert_eq!(route(answer("other", 1.1), true), given(SmartFallback::Invalid));
    assert_eq!(route(Ok(None), true), given(SmartFallback::NoAnswer));
    assert_eq!(route(Err(SmartFallback::Threw), true), given(SmartFallback::Threw));
    assert_eq!(route(Err(SmartFallback::Timeout), true), given(SmartFallback::Timeout));
}

#[test]
fn a_sessions_agent_is_the_labels_the_personas_the_bindings_or_the_default() {
    let all = directory(json!({
        "agents": { "main": {}, "coder": {}, "support": {} },
        "personas": { "atlas": { "agentId": "coder" }, "nova": { "agentId": "support", "mainSession": "nova" } },
        "bindings": [{ "agentId": "support", "match": { "channel": "telegram", "peer": { "kind": "group", "id": "42" } } }],
    }));
    for (label, agent) in [
        ("agent:coder:main", "coder"),
        ("agent:unknown:main", "main"),
        ("agent:atlas:main", "coder"),
        ("dm:tyler:persona:atlas", "coder"),
        ("nova", "support"),
        ("group:telegram:42", "support"),
        ("group:telegram:43", "main"),
        ("anything", "main"),
    ] {
        assert_eq!(all.session_agent_id(label), agent, "{label}");
    }
    assert_eq!(all.agent_ids(), ["coder", "main", "support"]);
}

#[test]
fn the_default_agent_is_the_named_one_the_only_one_or_main() {
    let default = |value| directory(value).default_agent_id().to_owned();
    assert_eq!(default(json!({ "agents": { "a": {}, "b": {} }, "defaultAgent": "b" })), "b");
    assert_eq!(default(json!({ "agents": { "a": {} } })), "a");
    assert_eq!(default(json!({ "agents": { "a": {}, "b": {} } })), "main");
    assert_eq!(default(json!({})), "main");
}

#[test]
fn an_agents_models_come_from_its_definition_and_then_from_the_defaults() {
    let all = directory(json!({
        "defaults": { "model": "claude-sonnet-4-5", "provider": "anthropic", "fallbacks": ["claude-haiku-4-5"] },
        "agents": { "plain": {}, "other": { "model": "openai/gpt-5", "fallbacks": [] } },
    }));
    assert_eq!(
        serde_json::to_value(all.agent_model("plain").unwrap()).unwrap(),
        json!({ "provider": "anthropic", "model": "claude-sonnet-4-5", "fallbacks": ["claude-haiku-4-5"] })
    );
    assert_eq!(
        serde_json::to_value(all.agent_model("other").unwrap()).unwrap(),
        json!({ "provider": "openai", "model": "gpt-5", "fallbacks": [] })
    );
    assert_eq!(all.agent_model("unknown"), None);
    assert_eq!(directory(json!({ "agents": { "a": {} } })).agent_model("a"), None);
}

/// An id as a hostile peer would choose it.
fn any_id() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "1",
        ":",
        "%",
        "%3A",
        ":main",
        ":thread:",
        ":group:",
        ":dm:",
        ":persona:",
        "thread",
        "group",
        "\n",
    ]);
    prop::collection::vec(piece, 1..5).prop_map(|pieces| pieces.concat())
}

fn any_event() -> impl Strategy<Value = RoutedEvent> {
    let kind = prop::sample::select(vec![PeerKind::Dm, PeerKind::Group]);
    let channel = proptest::option::of(any_id());
    (channel, kind, any_id(), proptest::option::of(any_id())).prop_map(
        |(channel, kind, id, thread_id)| {
            // What a direct message's label does not have must not tell two of them apart.
            let is_dm = kind == PeerKind::Dm;
            RoutedEvent {
                channel: if is_dm { None } else { channel },
                peer: Some(Peer { kind, id }),
                thread_id: if is_dm { None } else { thread_id },
                ..RoutedEvent::default()
            }
        },
    )
}

proptest! {
    /// Nobody gets into the session of another one by the choice of an id.
    #[test]
    fn different_peers_have_different_labels(a in any_event(), b in any_event()) {
        let label = |event: &RoutedEvent| build_session_key("main", event, DmScope::PerPeer);
        prop_assert_eq!(a == b, label(&a) == label(&b), "{}", label(&a));
        prop_assert_ne!(label(&a), "agent:main:main");
        prop_assert!(!label(&a).chars().any(char::is_control));
        let kind = a.peer.map(|peer| peer.kind);
        let read = SessionKey::parse(&build_session_key("main", &b, DmScope::PerPeer));
        prop_assert_eq!(read.agent_id.as_deref(), Some("main"));
        prop_assert!(kind.is_some());
    }

    /// Reading a label gives back what it was built of, where no part has a keyword of the grammar.
    #[test]
    fn a_built_label_is_read_back(
        agent in "[a-z0-9_-]{1,12}",
        platform in "[a-z]{1,10}",
        id in "[A-Za-z0-9@+.-]{1,20}",
        thread in proptest::option::of("[0-9]{1,9}"),
    ) {
        prop_assume!(!["main", "dm", "group", "worker", "subagent", "thread", "persona"].contains(&id.as_str()));
        let group = RoutedEvent {
            channel: Some(platform.clone()),
            peer: Some(Peer { kind: PeerKind::Group, id: id.clone() }),
            thread_id: thread.clone(),
            ..RoutedEvent::default()
        };
        let key = SessionKey::parse(&build_session_key(&agent, &group, DmScope::Main));
        prop_assert_eq!(key.kind, SessionKind::Group);
        prop_assert_eq!((key.agent_id, key.platform, key.container, key.thread_id), (Some(agent.clone()), Some(platform), Some(id.clone()), thread));
        let dm = RoutedEvent { peer: Some(Peer { kind: PeerKind::Dm, id: id.clone() }), ..RoutedEvent::default() };
        let key = SessionKey::parse(&build_session_key(&agent, &dm, DmScope::PerPeer));
        prop_assert_eq!((key.kind, key.agent_id, key.peer), (SessionKind::Dm, Some(agent), Some(id)));
    }
}
