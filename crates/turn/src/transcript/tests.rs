//! Projection by property, over random hostile histories of ledgers and hosts, and by example.

use proptest::prelude::*;

use super::validator::check;
use super::{Projector, Target, TranscriptError, join, needs_merge, project_all};
use model::{
    Api, Block, BlockOrigin, HistoryTurn, IdRule, Message, Provenance, Role, TranscriptRules,
    TurnStatus,
};

mod given;

fn target(api: Api) -> Target {
    Target {
        api,
        provider: "main".to_owned(),
        model: "model-1".to_owned(),
        rules: TranscriptRules::default(),
    }
}

fn provenance(api: Api, model: &str) -> Provenance {
    Provenance {
        provider: "main".to_owned(),
        api: api.as_str().to_owned(),
        model: model.to_owned(),
        response_id: None,
    }
}

fn message(role: Role, blocks: Vec<Block>) -> Message {
    Message {
        id: "m".to_owned(),
        role,
        blocks,
        sequence: 0,
        created_at: 1,
        provenance: (role == Role::Assistant)
            .then(|| provenance(Api::AnthropicMessages, "model-1")),
        provider_stop_reason: None,
    }
}

fn user(text: &str) -> Message {
    message(Role::User, vec![Block::text(text)])
}

fn assistant(blocks: Vec<Block>) -> Message {
    message(Role::Assistant, blocks)
}

fn thinking(text: &str) -> Block {
    Block::Thinking {
        thinking: text.to_owned(),
        signature: Some("sig==".to_owned()),
        provider_data: None,
    }
}

fn redacted(data: &str) -> Block {
    Block::RedactedThinking { data: data.to_owned(), provider_data: None }
}

fn provider_run(raw_json: &str) -> Block {
    Block::Opaque { raw_json: raw_json.to_owned() }
}

fn call(id: &str) -> Block {
    Block::ToolCall {
        id: id.to_owned(),
        name: "read".to_owned(),
        arguments_json: "{ \"path\": \"a\" }".to_owned(),
        incomplete: false,
        provider_data: None,
    }
}

fn result(id: &str, text: &str) -> Message {
    message(
        Role::Tool,
        vec![Block::ToolResult {
            tool_call_id: id.to_owned(),
            tool_name: "read".to_owned(),
            content: vec![Block::text(text)],
            is_error: false,
        }],
    )
}

fn image(mime_type: &str) -> Block {
    Block::Image { mime_type: mime_type.to_owned(), data: "AAAA".to_owned() }
}

fn turn(status: TurnStatus, messages: Vec<Message>) -> HistoryTurn {
    HistoryTurn { id: "t".to_owned(), status, edited: false, edited_messages: 0, messages }
}

/// One line per message, for snapshots.
fn shape(messages: &[Message]) -> String {
    fn line(blocks: &[Block]) -> String {
        let parts: Vec<String> = blocks
            .iter()
            .map(|block| match block {
                Block::Text { text, .. } => format!("{text:?}"),
                Block::Image { mime_type, .. } => mime_type.clone(),
                Block::Thinking { thinking, .. } => format!("thinking({thinking})"),
                Block::RedactedThinking { data, .. } => format!("redacted({data})"),
                Block::ToolCall { id, name, arguments_json, .. } => {
                    format!("call {id} {name} {arguments_json}")
                }
                Block::ToolResult { tool_call_id, content, is_error, .. } => format!(
                    "{} {tool_call_id} {}",
                    if *is_error { "error" } else { "result" },
                    line(content)
                ),
                Block::Opaque { raw_json } => format!("opaque {raw_json}"),
            })
            .collect();
        parts.join(" | ")
    }
    messages
        .iter()
        .map(|message| format!("{}: {}", message.role.as_str(), line(&message.blocks)))
        .collect::<Vec<_>>()
        .join("\n")
}

fn flat(api: Api, messages: &[Message]) -> Vec<Message> {
    Projector::new(target(api)).project_current(messages)
}

#[test]
fn a_valid_transcript_stays_byte_for_byte() {
    let messages = [
        user("Hello"),
        assistant(vec![
            thinking("first"),
            redacted("xyz"),
            Block::text("Reading. "),
            call("toolu_1"),
            call("toolu_2"),
        ]),
        result("toolu_1", "one"),
        result("toolu_2", "two"),
        user("And also this"),
        assistant(vec![
            thinking(""),
            provider_run(r#"{"type":"server_tool_use","id":"srvtoolu_1","input":{ }}"#),
            provider_run(r#"{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1"}"#),
            Block::Text {
                text: "cited ".to_owned(),
                provider_data: Some("{\"citations\":[]}".to_owned()),
                origin: None,
            },
        ]),
        user("Next"),
    ];
    assert_eq!(flat(Api::AnthropicMessages, &messages), messages);
}

#[test]
fn thinking_and_opaque_blocks_stay_with_the_model_that_wrote_them() {
    let mut foreign = assistant(vec![
        thinking("secret"),
        redacted("xyz"),
        Block::Text {
            text: "Answer".to_owned(),
            provider_data: Some("{\"id\":1}".to_owned()),
            origin: None,
        },
        Block::Opaque { raw_json: "{}".to_owned() },
    ]);
    foreign.provenance = Some(provenance(Api::AnthropicMessages, "model-0"));
    let mut unsigned = assistant(vec![
        Block::Thinking { thinking: "cut".to_owned(), signature: None, provider_data: None },
        Block::text("Partial"),
    ]);
    unsigned.provenance = Some(provenance(Api::AnthropicMessages, "model-1"));
    let mut unknown = assistant(vec![thinking("whose?")]);
    unknown.provenance = None;
    let history = [user("a"), foreign, user("b"), unsigned, user("c"), unknown, user("d")];
    insta::assert_snapshot!(shape(&flat(Api::AnthropicMessages, &history)));
}

#[test]
fn an_aborted_turn_retains_texts_and_answered_calls() {
    let turns = [
        turn(
            TurnStatus::Aborted,
            vec![
                user("Read both"),
                assistant(vec![thinking("hm"), Block::text("Reading.\n"), call("a"), call("b")]),
                result("a", "one"),
            ],
        ),
        turn(
            TurnStatus::Failed,
            vec![
                user("Again"),
                assistant(vec![
                    thinking("cut"),
                    Block::text("I was go "),
                    Block::ToolCall {
                        id: "c".to_owned(),
                        name: "read".to_owned(),
                        arguments_json: "{\"pa".to_owned(),
                        incomplete: true,
                        provider_data: None,
                    },
                ]),
            ],
        ),
        turn(TurnStatus::Streaming, vec![user("Torn"), assistant(vec![call("d")])]),
    ];
    let all = project_all(target(Api::AnthropicMessages), &turns, &[user("Now")]);
    insta::assert_snapshot!(shape(&all));
}

#[test]
fn pairs_are_repaired_within_their_assistant_message() {
    let history = [
        result("call_0", "orphan at the start"),
        assistant(vec![call("call_0"), call("call_1"), call("call_1")]),
        user("said meanwhile"),
        result("call_1", "one"),
        result("call_0", "zero"),
        result("call_0", "zero again"),
        result("call_9", "nobody asked"),
        assistant(vec![call("call_0")]),
        result("call_1", "too late"),
        user("next"),
        assistant(vec![call("call_0")]),
        result("call_0", "third"),
    ];
    insta::assert_snapshot!(shape(&flat(Api::OpenaiChat, &history)));
}

#[test]
fn ids_and_calls_are_adapted_to_the_api() {
    let long = "x".repeat(70);
    let with = |id: &str, name: &str, arguments: &str| Block::ToolCall {
        id: id.to_owned(),
        name: name.to_owned(),
        arguments_json: arguments.to_owned(),
        incomplete: false,
        provider_data: None,
    };
    let history = [
        user("go"),
        assistant(vec![
            with("functions.read:0|fc", "read", ""),
            with(&long, "read", "[1]"),
            with(&format!("{long}y"), "read", "{\"a\":"),
            with("", "read", "{}"),
            with("n", "", "{}"),
            with("m", "not a name", "{}"),
            with("s", "read", "{\"a\":\"\\ud83d\"}"),
        ]),
    ];
    let history = history.map(|message| Message {
        provenance: message.is_assistant().then(|| provenance(Api::AnthropicMessages, "model-0")),
        ..message
    });
    let both = format!(
        "{}\n\n{}",
        shape(&flat(Api::AnthropicMessages, &history)),
        shape(&flat(Api::OpenaiChat, &history))
    );
    insta::assert_snapshot!(both);
}

#[test]
fn user_messages_are_merged_system_messages_are_marked_and_images_stay() {
    let failed = message(
        Role::Tool,
        vec![Block::ToolResult {
            tool_call_id: "a".to_owned(),
            tool_name: "read".to_owned(),
            content: vec![image("image/png"), Block::text(" ")],
            is_error: true,
        }],
    );
    let history = [
        user("one"),
        message(Role::User, vec![Block::text(" "), Block::text("two"), image("image/jpg")]),
        message(Role::User, vec![image("image/tiff"), Block::text("three")]),
        user(""),
        message(Role::System, vec![Block::text("The door is open.")]),
        assistant(vec![Block::text("  ")]),
        assistant(vec![call("a")]),
        failed,
    ];
    let both = format!(
        "{}\n\n{}",
        shape(&flat(Api::AnthropicMessages, &history)),
        shape(&flat(Api::OpenaiChat, &history))
    );
    insta::assert_snapshot!(both);
}

#[test]
fn pieces_share_a_message_only_where_both_are_the_users() {
    use Role::{Assistant, System, Tool, User};
    let merged = |api| -> Vec<(Role, Role)> {
        [User, Assistant, System, Tool]
            .into_iter()
            .flat_map(|left| [User, Assistant, System, Tool].map(|right| (left, right)))
            .filter(|&(left, right)| needs_merge(left, right, api))
            .collect()
    };
    assert_eq!(merged(Api::AnthropicMessages), [(User, User), (Tool, User)]);
    assert_eq!(merged(Api::OpenaiChat), [(User, User)]);
    assert_eq!(merged(Api::Scripted), [(User, User)]);
}

#[test]
fn a_transcript_that_ends_with_an_answer_is_refused_before_it_is_sent() {
    let sendable = |api, messages: &[Message]| {
        let mut projector = Projector::new(target(api));
        projector.project_current(messages);
        projector.sendable()
    };
    let api = Api::AnthropicMessages;
    assert_eq!(sendable(api, &[]), Err(TranscriptError::Empty));
    assert_eq!(sendable(api, &[user(" ")]), Err(TranscriptError::Empty));
    let done = [user("Hi"), assistant(vec![Block::text("Done")])];
    assert_eq!(sendable(api, &done), Err(TranscriptError::NothingToAnswer));
    assert_eq!(sendable(api, &[user("Hi")]), Ok(()));
    assert_eq!(sendable(api, &[assistant(vec![call("a")]), result("a", "one")]), Ok(()));
    assert_eq!(TranscriptError::Empty.to_failure().code.as_deref(), Some("transcript_empty"));

    // A paused answer continues in its run, and only there.
    let mut paused = assistant(vec![Block::text("Searching")]);
    paused.provider_stop_reason = Some("pause_turn".to_owned());
    assert_eq!(sendable(api, &[user("Hi"), paused.clone()]), Ok(()));
    let mut over = Projector::new(target(api));
    over.project_flat(&[user("Hi"), paused]);
    assert_eq!(over.sendable(), Err(TranscriptError::NothingToAnswer));
}

#[test]
fn thinking_from_before_a_compaction_is_left_out_and_an_open_loop_is_ended() {
    let mut projector = Projector::new(target(Api::AnthropicMessages));
    let turn_messages = [user("Hi"), assistant(vec![thinking("old"), Block::text("Hello")])];
    let mut out = projector.project_turn(TurnStatus::Completed, true, &turn_messages);
    let before = [user("Read"), assistant(vec![thinking("old"), call("a")]), result("a", "one")];
    out.extend(projector.project_edited(&before));
    out.extend(projector.project_current(&[assistant(vec![thinking("new"), call("a")])]));
    assert_eq!(projector.dropped().thinking, 2);
    insta::assert_snapshot!(shape(&out));
}

#[test]
fn a_loop_of_another_model_is_ended_where_thinking_must_begin_it() {
    let mut foreign = assistant(vec![thinking("theirs"), call("a")]);
    foreign.provenance = Some(provenance(Api::OpenaiChat, "model-0"));
    let messages = [user("Read"), foreign, result("a", "one")];
    let both = [Api::BedrockConverse, Api::OpenaiResponses].map(|api| shape(&flat(api, &messages)));
    insta::assert_snapshot!(both.join("\n\n"));
}

#[test]
fn reasoning_stays_with_its_item_or_the_item_loses_its_id() {
    let reasoning = || Block::Thinking {
        thinking: "r".to_owned(),
        signature: None,
        provider_data: Some("{}".to_owned()),
    };
    let texts = |text: &str| Block::Text {
        text: text.to_owned(),
        provider_data: Some(
            r#"{"item":{"id":"msg_1","phase":"commentary"},"part":{"n":1.0}}"#.to_owned(),
        ),
        origin: None,
    };
    let own = |blocks| Message {
        provenance: Some(provenance(Api::OpenaiResponses, "model-1")),
        ..assistant(blocks)
    };
    let data = |blocks: Vec<Block>| -> Vec<String> {
        let projected = flat(Api::OpenaiResponses, &[user("a"), own(blocks), user("b")]);
        let line = |block: &Block| match block {
            Block::Text { text, provider_data, .. } => {
                format!("{text} {}", provider_data.as_deref().unwrap_or_default())
            }
            Block::Thinking { .. } => "reasoning".to_owned(),
            Block::ToolCall { id, .. } => id.clone(),
            other => format!("{other:?}"),
        };
        projected[1].blocks.iter().map(line).collect()
    };
    let with_id = r#"{"item":{"id":"msg_1","phase":"commentary"},"part":{"n":1.0}}"#;
    let without = r#"{"item":{"phase":"commentary"},"part":{"n":1.0}}"#;
    assert_eq!(
        data(vec![reasoning(), texts("one")]),
        ["reasoning".to_owned(), format!("one {with_id}")]
    );
    // Cut after its reasoning: no item requires it.
    assert_eq!(
        data(vec![reasoning(), texts("one"), reasoning()]),
        ["reasoning".to_owned(), format!("one {with_id}")]
    );
    // Its item cannot be identified, so it is dropped too.
    let unusable = Block::ToolCall {
        id: "x".to_owned(),
        name: "not a name".to_owned(),
        arguments_json: "{}".to_owned(),
        incomplete: false,
        provider_data: None,
    };
    let web = Block::Opaque { raw_json: "{\"type\":\"web_search_call\"}".to_owned() };
    assert_eq!(data(vec![reasoning(), unusable, texts("one"), web]), [format!("one {without}")]);
}

#[test]
fn a_call_without_a_signature_gets_the_documented_value_where_gemini_requires_one() {
    let signatures = |model: &str| -> Vec<Option<String>> {
        let target = Target { model: model.to_owned(), ..target(Api::GoogleGenerativeAi) };
        let messages = [user("a"), assistant(vec![call("a"), call("b")]), user("b")];
        let projected = Projector::new(target).project_current(&messages);
        let of = |block: &Block| match block {
            Block::ToolCall { provider_data, .. } => provider_data.clone(),
            _ => None,
        };
        projected[1].blocks.iter().map(of).collect()
    };
    let escape = r#"{"thoughtSignature":"skip_thought_signature_validator"}"#.to_owned();
    assert_eq!(signatures("gemini-3-pro-preview"), [Some(escape.clone()), None]);
    assert_eq!(signatures("gemini-flash-latest"), [Some(escape), None]);
    assert_eq!(signatures("gemini-2.5-pro"), [None, None]);
    assert_eq!(signatures("model-1"), [None, None]);
}

#[test]
fn ids_have_the_alphabet_and_length_of_each_server() {
    let ids = |api, ids: IdRule| -> Vec<String> {
        let target =
            Target { rules: TranscriptRules { ids, ..TranscriptRules::default() }, ..target(api) };
        let long = "x".repeat(90);
        let given = ["call_0", "call0", "call_0", "abcDEF123", "ü", &long, &long];
        let calls = given.map(call).to_vec();
        let projected = Projector::new(target).project_current(&[user("a"), assistant(calls)]);
        let of = |block: &Block| match block {
            Block::ToolCall { id, .. } => id.clone(),
            other => format!("{other:?}"),
        };
        projected[1].blocks.iter().map(of).collect()
    };
    let all = [
        ids(Api::GoogleGenerativeAi, IdRule::OfApi),
        ids(Api::BedrockConverse, IdRule::OfApi),
        ids(Api::OpenaiResponses, IdRule::OfApi),
        ids(Api::OpenaiChat, IdRule::NineAlphanumeric),
    ];
    insta::assert_snapshot!(all.map(|ids| ids.join(" ")).join("\n"));
}

#[test]
fn ids_of_the_target_itself_stay_unchanged_and_a_repeated_one_is_numbered() {
    let long = format!("call_1__thought__{}==", "Eq+/".repeat(130));
    let given = [long.as_str(), "functions.read:0|fc ü", "call_0", "call_0", &long];
    let ids = |messages: &[Message]| -> Vec<String> {
        let blocks = messages.iter().flat_map(|message| &message.blocks);
        let id = |block: &Block| match block {
            Block::ToolCall { id, .. } => Some(id.clone()),
            _ => None,
        };
        blocks.filter_map(id).collect()
    };
    let shapes = [
        (Api::AnthropicMessages, IdRule::OfApi, "_"),
        (Api::OpenaiChat, IdRule::OfApi, "_"),
        (Api::OpenaiResponses, IdRule::OfApi, "_"),
        (Api::GoogleGenerativeAi, IdRule::OfApi, ""),
        (Api::BedrockConverse, IdRule::OfApi, "_"),
        (Api::OpenaiChat, IdRule::NineAlphanumeric, ""),
    ];
    for (api, rule, separator) in shapes {
        let rules = TranscriptRules { ids: rule, ..TranscriptRules::default() };
        let target = Target { rules, ..target(api) };
        let answer = |id: &&str| Message {
            provenance: Some(provenance(api, "model-1")),
            ..assistant(vec![call(id)])
        };
        let mut history = vec![user("a")];
        history.extend(given.iter().map(answer));
        let once = Projector::new(target.clone()).project_current(&history);
        let found = ids(&once);
        assert_eq!(found[..3], given[..3], "{api:?}");
        assert_eq!(found[3], format!("call_0{separator}2"), "{api:?}");
        assert_eq!(found[4], format!("{long}{separator}2"), "{api:?}");
        assert_eq!(ids(&Projector::new(target).project_current(&once)), found, "{api:?}");
    }
}

#[test]
fn reasoning_is_sent_to_responses_only_with_its_item() {
    let of = |model: &str, blocks| Message {
        provenance: Some(provenance(Api::OpenaiResponses, model)),
        ..message(Role::Assistant, blocks)
    };
    let nameless = Block::ToolCall {
        id: "b".to_owned(),
        name: "no name".to_owned(),
        arguments_json: "{}".to_owned(),
        incomplete: false,
        provider_data: None,
    };
    let blocks = vec![
        thinking("1"),
        call("a"),
        thinking("2"),
        nameless,
        thinking("3"),
        Block::text("said"),
        thinking("4"),
    ];
    let sent = |model: &str| {
        let history = [user("go"), of(model, blocks.clone()), result("a", "x")];
        shape(&flat(Api::OpenaiResponses, &history))
    };
    let with = |blocks: Vec<Block>| shape(&[user("go"), of("model-1", blocks), result("a", "x")]);
    assert_eq!(
        sent("model-1"),
        with(vec![thinking("1"), call("a"), thinking("3"), Block::text("said")])
    );
    assert_eq!(sent("model-0"), with(vec![call("a"), Block::text("said")]));
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => Just(String::new()),
        1 => Just(" \n".to_owned()),
        4 => "[a-z]{1,6}",
        1 => Just("ends in space \n".to_owned()),
    ]
}

fn any_id() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just("call_0".to_owned()),
        2 => Just("call_1".to_owned()),
        1 => Just("call_0_2".to_owned()),
        1 => Just(String::new()),
        1 => Just("a b|ü".to_owned()),
        1 => Just("x".repeat(64)),
        1 => Just("x".repeat(90)),
        1 => Just(format!("{}_2", "x".repeat(62))),
    ]
}

fn any_call() -> impl Strategy<Value = Block> {
    let names = prop_oneof![
        6 => Just("read"), 2 => Just("write"), 1 => Just(""), 1 => Just("not a name")
    ];
    let arguments = prop_oneof![
        4 => Just("{\"a\": 1}"),
        1 => Just(""),
        1 => Just("[1]"),
        1 => Just("{\"a\":"),
        1 => Just("{\"a\":\"\\udead\"}"),
    ];
    (any_id(), names, arguments, prop::bool::weighted(0.1), any::<bool>()).prop_map(
        |(id, name, arguments, incomplete, signed)| Block::ToolCall {
            id,
            name: name.to_owned(),
            arguments_json: arguments.to_owned(),
            incomplete,
            provider_data: signed.then(|| "{\"thought_signature\":1}".to_owned()),
        },
    )
}

fn any_image() -> impl Strategy<Value = Block> {
    prop_oneof![Just("image/png"), Just("image/jpg"), Just("image/tiff")].prop_map(image)
}

fn any_shown() -> impl Strategy<Value = Block> {
    let injected = any_text().prop_map(|text| Block::injected(BlockOrigin::Event, text));
    prop_oneof![4 => any_text().prop_map(Block::text), 1 => injected, 1 => any_image()]
}

fn any_assistant_block() -> impl Strategy<Value = Block> {
    prop_oneof![
        3 => (any_text(), any::<bool>()).prop_map(|(text, cited)| Block::Text {
            text,
            provider_data: cited.then(|| "{\"citations\":[]}".to_owned()),
            origin: None,
        }),
        2 => any::<bool>().prop_map(|signed| Block::Thinking {
            thinking: "SECRET".to_owned(),
            signature: signed.then(|| "sig".to_owned()),
            provider_data: None,
        }),
        1 => Just(redacted("SECRET")),
        1 => Just(Block::Opaque { raw_json: "{}".to_owned() }),
        4 => any_call(),
        1 => any_image(),
    ]
}

fn any_result() -> impl Strategy<Value = Block> {
    (any_id(), prop::collection::vec(any_shown(), 0..3), any::<bool>()).prop_map(
        |(id, content, is_error)| Block::ToolResult {
            tool_call_id: id,
            tool_name: "read".to_owned(),
            content,
            is_error,
        },
    )
}

fn any_message() -> impl Strategy<Value = Message> {
    let provenances = prop_oneof![
        1 => Just(None),
        3 => Just(Some(provenance(Api::AnthropicMessages, "model-1"))),
        3 => Just(Some(provenance(Api::OpenaiChat, "model-1"))),
        3 => Just(Some(provenance(Api::OpenaiResponses, "model-1"))),
        1 => Just(Some(provenance(Api::AnthropicMessages, "model-0"))),
    ];
    prop_oneof![
        3 => prop::collection::vec(any_shown(), 0..4)
            .prop_map(|blocks| message(Role::User, blocks)),
        1 => (any_result(), any_shown())
            .prop_map(|(result, more)| message(Role::User, vec![result, more])),
        1 => prop::collection::vec(any_shown(), 0..2)
            .prop_map(|blocks| message(Role::System, blocks)),
        5 => (prop::collection::vec(any_assistant_block(), 0..5), provenances).prop_map(
            |(blocks, provenance)| Message {
                provenance,
                ..message(Role::Assistant, blocks)
            }
        ),
        5 => any_result().prop_map(|result| message(Role::Tool, vec![result])),
    ]
}

fn any_status() -> impl Strategy<Value = TurnStatus> {
    prop_oneof![
        3 => Just(TurnStatus::Completed),
        1 => Just(TurnStatus::Aborted),
        1 => Just(TurnStatus::Failed),
        1 => Just(TurnStatus::Streaming),
    ]
}

/// Numbers the texts of users and hosts, so that a loss shows.
fn number(messages: &mut [Message], from: &mut usize) {
    for message in messages {
        if !matches!(message.role, Role::User | Role::System) {
            continue;
        }
        for block in &mut message.blocks {
            if let Block::Text { text, .. } = block
                && !text.trim().is_empty()
            {
                *text = format!("<{from}>{text}");
                *from += 1;
            }
        }
    }
}

fn any_history() -> impl Strategy<Value = Vec<HistoryTurn>> {
    prop::collection::vec((any_status(), prop::collection::vec(any_message(), 0..8)), 0..5)
        .prop_map(|turns| {
            let mut from = 0;
            turns
                .into_iter()
                .map(|(status, mut messages)| {
                    number(&mut messages, &mut from);
                    turn(status, messages)
                })
                .collect()
        })
}

fn any_api() -> impl Strategy<Value = Api> {
    prop_oneof![Just(Api::AnthropicMessages), Just(Api::OpenaiChat), Just(Api::OpenaiResponses)]
}

/// The texts of users and hosts.
fn texts(messages: &[Message]) -> Vec<&str> {
    messages
        .iter()
        .filter(|message| matches!(message.role, Role::User | Role::System))
        .flat_map(|message| &message.blocks)
        .filter_map(|block| match block {
            Block::Text { text, .. } if !text.trim().is_empty() => Some(text.as_str()),
            _ => None,
        })
        .collect()
}

/// Whether an answer has any block beside its thinking.
fn has_content(answer: &Message) -> bool {
    answer.blocks.iter().any(|block| match block {
        Block::Text { text, .. } => !text.trim().is_empty(),
        Block::ToolCall { id, name, incomplete, .. } => {
            !id.is_empty() && ["read", "write"].contains(&name.as_str()) && !incomplete
        }
        Block::Opaque { .. } => true,
        _ => false,
    })
}

/// Pieces of the running turn, as the driver makes them: cut before answers of the target model.
fn pieces<'a>(target: &Target, current: &'a [Message]) -> Vec<&'a [Message]> {
    let mut out = Vec::new();
    let mut rest = current;
    while !rest.is_empty() {
        let at = rest
            .iter()
            .skip(1)
            .position(|message| target.wrote(message.provenance.as_ref()) && has_content(message))
            .map_or(rest.len(), |at| at + 1);
        let (piece, more) = rest.split_at(at);
        out.push(piece);
        rest = more;
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn every_projection_is_valid_whole_and_stable(turns in any_history(), api in any_api()) {
        let target = target(api);
        let (current, history) = match turns.split_last() {
            Some((last, history)) => (last.messages.clone(), history),
            None => (Vec::new(), &[] as &[HistoryTurn]),
        };
        let all = project_all(target.clone(), history, &current);
        let everything: Vec<Message> =
            turns.iter().flat_map(|turn| turn.messages.clone()).collect();
        let at_once = flat(api, &everything);

        for projected in [&all, &at_once] {
            prop_assert_eq!(check(&target, projected), Ok(()), "\n{}", shape(projected));
            prop_assert_eq!(&flat(api, projected), projected, "not idempotent");
            // The texts are there, in order.
            let text: String = texts(projected).join("\n");
            let mut at = 0;
            for wanted in texts(&everything) {
                let found = text.get(at..).and_then(|rest| rest.find(wanted));
                prop_assert!(found.is_some(), "{} is lost from\n{}", wanted, shape(projected));
                at += found.unwrap() + wanted.len();
            }
            // Thinking never becomes text.
            for block in projected.iter().flat_map(|message| &message.blocks) {
                if let Block::Text { text, .. } = block {
                    prop_assert!(!text.contains("SECRET"));
                }
            }
        }
    }

    #[test]
    fn the_pieces_add_up_to_the_whole(turns in any_history(), api in any_api()) {
        let target = target(api);
        let (current, history) = match turns.split_last() {
            Some((last, history)) => (last.messages.clone(), history),
            None => (Vec::new(), &[] as &[HistoryTurn]),
        };
        let mut projector = Projector::new(target.clone());
        let mut parts: Vec<Vec<Message>> = history
            .iter()
            .map(|turn| projector.project_turn(turn.status, turn.edited, &turn.messages))
            .collect();
        // A clone continues exactly as the original.
        let mut turn_messages = projector.clone();
        let whole_turn = turn_messages.project_current(&current);
        for piece in pieces(&target, &current) {
            parts.push(projector.project_current(piece));
        }
        parts.retain(|part| !part.is_empty());

        let whole = project_all(target.clone(), history, &current);
        let mut joined = Vec::new();
        for part in parts.clone() {
            join(&mut joined, part);
        }
        prop_assert_eq!(&joined, &whole);

        let borders = parts.windows(2).any(|pair| match pair {
            [left, right] => needs_merge(
                left.last().unwrap().role, right.first().unwrap().role, api,
            ),
            _ => false,
        });
        if !borders {
            prop_assert_eq!(parts.concat(), whole.clone());
        }
        prop_assert!(whole.ends_with(&whole_turn) || borders);
    }
}
