//! The accumulator on deltas of every kind, whole and cut. It must never need a decoder.

use super::limits::{ANSWER_BYTES, ARGUMENT_BYTES};
use super::{Accumulated, Accumulator};
use model::{Block, BlockStart, Delta, DeltaSink as _, ReportedUsage};

fn collect(deltas: &[Delta<'_>]) -> Accumulated {
    let mut accumulator = Accumulator::new();
    for delta in deltas {
        assert!(accumulator.apply(delta), "{delta:?}");
    }
    accumulator.finish()
}

fn begin(index: u32, start: BlockStart<'_>) -> Delta<'_> {
    Delta::BlockStart { index, start }
}

fn call(index: u32) -> Delta<'static> {
    begin(index, BlockStart::ToolCall { id: "c1", name: "read" })
}

#[test]
fn a_whole_response_has_every_block_in_order() {
    let usage = ReportedUsage { input: 3, output: 5, ..ReportedUsage::default() };
    let found = collect(&[
        Delta::Started { response_id: "r1", model: "m" },
        Delta::Usage(ReportedUsage::default()),
        begin(0, BlockStart::Thinking),
        Delta::Thinking { index: 0, text: "th" },
        Delta::Thinking { index: 0, text: "ink" },
        Delta::Signature { index: 0, signature: "old" },
        Delta::Signature { index: 0, signature: "new" },
        Delta::BlockStop { index: 0 },
        begin(1, BlockStart::RedactedThinking { data: "xyz" }),
        Delta::BlockStop { index: 1 },
        begin(2, BlockStart::Text),
        Delta::Text { index: 2, text: "a" },
        Delta::Text { index: 2, text: "b" },
        Delta::ProviderData { index: 2, json: "{}" },
        Delta::BlockStop { index: 2 },
        call(3),
        Delta::Arguments { index: 3, json: "{\"p\"" },
        Delta::Arguments { index: 3, json: ":1}" },
        Delta::CallIdentity { index: 3, id: "c2", name: "" },
        Delta::BlockStop { index: 3 },
        begin(4, BlockStart::Opaque { raw_json: "{\"type\":\"s\"}" }),
        Delta::OpaqueJson { index: 4, json: "{\"type\":\"s\",\"input\":{}}" },
        Delta::BlockStop { index: 4 },
        Delta::Usage(usage),
    ]);
    let expected = Accumulated {
        blocks: vec![
            Block::Thinking {
                thinking: "think".to_owned(),
                signature: Some("new".to_owned()),
                provider_data: None,
            },
            Block::RedactedThinking { data: "xyz".to_owned(), provider_data: None },
            Block::Text {
                text: "ab".to_owned(),
                provider_data: Some("{}".to_owned()),
                origin: None,
            },
            Block::ToolCall {
                id: "c2".to_owned(),
                name: "read".to_owned(),
                arguments_json: "{\"p\":1}".to_owned(),
                incomplete: false,
                provider_data: None,
            },
            Block::Opaque { raw_json: "{\"type\":\"s\",\"input\":{}}".to_owned() },
        ],
        usage: Some(usage),
        response_id: Some("r1".to_owned()),
        model: Some("m".to_owned()),
    };
    assert_eq!(found, expected);
}

#[test]
fn a_cut_response_retains_text_and_thinking_marks_calls_and_drops_half_opaque_blocks() {
    let found = collect(&[
        begin(0, BlockStart::Thinking),
        Delta::Thinking { index: 0, text: "half" },
        begin(1, BlockStart::Text),
        Delta::Text { index: 1, text: "ha" },
        call(2),
        Delta::Arguments { index: 2, json: "{\"command\":\"rm -rf /ho" },
        begin(3, BlockStart::Opaque { raw_json: "{\"type\":\"server_tool_use\"}" }),
    ]);
    let expected = vec![
        Block::Thinking { thinking: "half".to_owned(), signature: None, provider_data: None },
        Block::text("ha"),
        Block::ToolCall {
            id: "c1".to_owned(),
            name: "read".to_owned(),
            arguments_json: "{\"command\":\"rm -rf /ho".to_owned(),
            incomplete: true,
            provider_data: None,
        },
    ];
    assert_eq!(found, Accumulated { blocks: expected, ..Accumulated::default() });
}

#[test]
fn empty_text_and_thinking_are_left_out_but_a_signature_alone_stays() {
    let found = collect(&[
        begin(0, BlockStart::Text),
        begin(1, BlockStart::Thinking),
        begin(2, BlockStart::Thinking),
        Delta::Signature { index: 2, signature: "sig" },
    ]);
    let signed = Block::Thinking {
        thinking: String::new(),
        signature: Some("sig".to_owned()),
        provider_data: None,
    };
    assert_eq!(found.blocks, [signed]);
}

#[test]
fn indexes_may_come_in_any_order_and_interleave() {
    let found = collect(&[
        begin(7, BlockStart::Text),
        begin(1, BlockStart::Text),
        begin(0, BlockStart::Text),
        Delta::Text { index: 1, text: "b" },
        Delta::Text { index: 7, text: "a" },
        Delta::Text { index: 0, text: "c" },
        begin(7, BlockStart::Thinking),
        Delta::Text { index: 7, text: "a" },
        Delta::Text { index: 9, text: "nobody" },
        Delta::BlockStop { index: 9 },
    ]);
    assert_eq!(found.blocks, [Block::text("aa"), Block::text("b"), Block::text("c")]);
}

#[test]
fn a_delta_of_the_wrong_kind_changes_nothing() {
    let found = collect(&[
        begin(0, BlockStart::Text),
        Delta::Text { index: 0, text: "a" },
        Delta::Thinking { index: 0, text: "x" },
        Delta::Signature { index: 0, signature: "x" },
        Delta::Arguments { index: 0, json: "x" },
        Delta::OpaqueJson { index: 0, json: "x" },
        Delta::CallIdentity { index: 0, id: "x", name: "x" },
    ]);
    assert_eq!(found.blocks, [Block::text("a")]);
}

/// The code of the failure after which an accumulator refuses more.
fn refused(accumulator: &Accumulator) -> Option<String> {
    accumulator.refusal().and_then(|failure| {
        assert_eq!(failure.should_retry, Some(false));
        failure.code
    })
}

#[test]
fn a_text_over_its_limit_is_refused_and_the_text_before_it_stays() {
    let mut accumulator = Accumulator::new();
    assert!(accumulator.apply(&begin(0, BlockStart::Thinking)));
    let thinking = "t".repeat(ANSWER_BYTES / 2);
    assert!(accumulator.apply(&Delta::Thinking { index: 0, text: &thinking }));
    assert!(accumulator.apply(&begin(1, BlockStart::Text)));
    let text = "x".repeat(ANSWER_BYTES / 2);
    assert!(accumulator.apply(&Delta::Text { index: 1, text: &text }));
    assert_eq!(refused(&accumulator), None);
    assert!(!accumulator.apply(&Delta::Text { index: 1, text: "y" }));
    assert_eq!(refused(&accumulator).as_deref(), Some("answer_too_large"));
    // No content is accepted after it, so that no partial block follows; usage still is.
    assert!(!accumulator.apply(&call(2)));
    let usage = ReportedUsage { output: 7, ..ReportedUsage::default() };
    assert!(accumulator.apply(&Delta::Usage(usage)));
    let found = accumulator.finish();
    assert_eq!(found.usage, Some(usage));
    assert_eq!(found.blocks.last(), Some(&Block::text(text)));
    assert_eq!(found.blocks.len(), 2);
}

#[test]
fn each_call_has_its_own_limit_of_arguments() {
    let mut accumulator = Accumulator::new();
    let whole = " ".repeat(ARGUMENT_BYTES);
    for index in 0..2 {
        assert!(accumulator.apply(&call(index)));
        assert!(accumulator.apply(&Delta::Arguments { index, json: &whole }));
    }
    assert_eq!(refused(&accumulator), None);
    assert!(!accumulator.apply(&Delta::Arguments { index: 1, json: "}" }));
    assert_eq!(refused(&accumulator).as_deref(), Some("arguments_too_large"));
}

#[test]
fn bytes_that_a_decoder_buffers_count_while_they_are_buffered() {
    let mut accumulator = Accumulator::new();
    accumulator.withheld(3, ARGUMENT_BYTES);
    accumulator.withheld(4, ARGUMENT_BYTES);
    assert_eq!(refused(&accumulator), None);
    accumulator.withheld(3, 1);
    assert_eq!(refused(&accumulator).as_deref(), Some("arguments_too_large"));
}

#[test]
fn opaque_blocks_have_a_limit_together() {
    let mut accumulator = Accumulator::new();
    let opaque = "o".repeat(ANSWER_BYTES / 4);
    for index in 0..4 {
        assert!(accumulator.apply(&begin(index, BlockStart::Opaque { raw_json: &opaque })));
    }
    assert!(!accumulator.apply(&begin(4, BlockStart::Opaque { raw_json: "{}" })));
    assert_eq!(refused(&accumulator).as_deref(), Some("answer_too_large"));
}
