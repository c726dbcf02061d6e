//! Blocks through the columns and back, byte for byte.

use proptest::prelude::*;

use super::*;
use model::Role;

fn message(blocks: Vec<Block>) -> Message {
    Message {
        id: "m".to_owned(),
        role: Role::Assistant,
        blocks,
        sequence: 0,
        created_at: 0,
        provenance: None,
        provider_stop_reason: None,
    }
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![Just(String::new()), any::<String>(), "[a-z\"\\\\\u{0}\u{1f600}]{0,12}"]
}

fn origin() -> impl Strategy<Value = Option<BlockOrigin>> {
    prop::option::of(prop_oneof![Just(BlockOrigin::Event), Just(BlockOrigin::Memory)])
}

fn leaf() -> impl Strategy<Value = Block> {
    let data = || prop::option::of(text());
    prop_oneof![
        (text(), data(), origin()).prop_map(|(text, provider_data, origin)| Block::Text {
            text,
            provider_data,
            origin
        }),
        (text(), text()).prop_map(|(mime_type, data)| Block::Image { mime_type, data }),
        (text(), data(), data()).prop_map(|(thinking, signature, provider_data)| {
            Block::Thinking { thinking, signature, provider_data }
        }),
        (text(), data())
            .prop_map(|(data, provider_data)| Block::RedactedThinking { data, provider_data }),
        (text(), text(), text(), any::<bool>(), data()).prop_map(
            |(id, name, arguments_json, incomplete, provider_data)| Block::ToolCall {
                id,
                name,
                arguments_json,
                incomplete,
                provider_data
            }
        ),
        text().prop_map(|raw_json| Block::Opaque { raw_json }),
    ]
}

fn block() -> impl Strategy<Value = Block> {
    leaf().prop_recursive(2, 8, 3, |inner| {
        (text(), text(), prop::collection::vec(inner, 0..3), any::<bool>()).prop_map(
            |(tool_call_id, tool_name, content, is_error)| Block::ToolResult {
                tool_call_id,
                tool_name,
                content,
                is_error,
            },
        )
    })
}

proptest! {
    #[test]
    fn every_list_of_blocks_survives(blocks in prop::collection::vec(block(), 0..5)) {
        let columns = encode(&message(blocks.clone())).unwrap();
        prop_assert_eq!(decode(columns.lend()).unwrap(), blocks);
    }
}

#[test]
fn one_plain_text_needs_no_frame() {
    let columns = encode(&message(vec![Block::text("hello")])).unwrap();
    assert_eq!(
        columns,
        Content {
            content: "hello".to_owned(),
            thinking: None,
            blocks_json: None,
            tool_call_id: None,
            is_error: None
        }
    );
}

#[test]
fn a_text_that_the_host_put_there_is_not_in_the_content() {
    let columns = encode(&message(vec![
        Block::injected(BlockOrigin::Event, "<event>"),
        Block::text("hello"),
    ]))
    .unwrap();
    assert_eq!(columns.content, "hello");
    assert_eq!(
        columns.blocks_json.as_deref(),
        Some(
            r#"[{"type":"text","text":"<event>","origin":"event"},{"type":"text","textBytes":5}]"#
        )
    );
    let alone = encode(&message(vec![Block::injected(BlockOrigin::Memory, "m")])).unwrap();
    assert_eq!(
        (alone.content.as_str(), alone.blocks_json.as_deref()),
        ("", Some(r#"[{"type":"text","text":"m","origin":"memory"}]"#))
    );
}

#[test]
fn no_text_is_stored_twice() {
    let columns = encode(&message(vec![
        Block::Thinking {
            thinking: "why".to_owned(),
            signature: Some("c2ln".to_owned()),
            provider_data: None,
        },
        Block::text("grün"),
        Block::ToolResult {
            tool_call_id: "call_0".to_owned(),
            tool_name: "read".to_owned(),
            content: vec![Block::text("of a")],
            is_error: true,
        },
    ]))
    .unwrap();
    assert_eq!(
        columns,
        Content {
            content: "grünof a".to_owned(),
            thinking: Some("why".to_owned()),
            blocks_json: Some(
                concat!(
                    r#"[{"type":"thinking","thinkingBytes":3,"signature":"c2ln"},"#,
                    r#"{"type":"text","textBytes":5},"#,
                    r#"{"type":"tool_result","toolName":"read","content":[{"type":"text","textBytes":4}]}]"#
                )
                .to_owned()
            ),
            tool_call_id: Some("call_0".to_owned()),
            is_error: Some(true),
        }
    );
}

#[test]
fn a_frame_that_does_not_fit_its_text_is_damage() {
    for (content, frame) in [
        ("abc", r#"[{"type":"text","textBytes":2}]"#),
        ("abc", r#"[{"type":"text","textBytes":4}]"#),
        ("ü", r#"[{"type":"text","textBytes":1},{"type":"text","textBytes":1}]"#),
        ("abc", r#"[{"type":"text"}]"#),
        ("abc", r#"[{"type":"other","textBytes":3}]"#),
        ("abc", "{"),
        ("", r#"[{"type":"tool_result","toolName":"x","content":[]}]"#),
    ] {
        let columns = ContentRef {
            content,
            thinking: None,
            blocks_json: Some(frame),
            tool_call_id: None,
            is_error: None,
        };
        let error = decode(columns).unwrap_err();
        assert_eq!(error.kind, model::StorageErrorKind::Corrupt, "{frame}");
    }
}

#[test]
fn the_checksum_distinguishes_columns() {
    let columns = |content, thinking| ContentRef {
        content,
        thinking,
        blocks_json: None,
        tool_call_id: None,
        is_error: None,
    };
    let sums = [
        checksum("user", columns("ab", None), [None; 5]),
        checksum("user", columns("a", Some("b")), [None; 5]),
        checksum("user", columns("ab", Some("")), [None; 5]),
        checksum("tool", columns("ab", None), [None; 5]),
        checksum("user", columns("ab", None), [Some(""), None, None, None, None]),
    ];
    for (index, sum) in sums.iter().enumerate() {
        assert_eq!(sums.iter().position(|other| other == sum), Some(index));
    }
}
