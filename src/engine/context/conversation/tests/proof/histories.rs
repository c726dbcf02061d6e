//! Random histories with every irregularity that ledgers, hosts and providers can cause: interrupted calls, repeated ids,
//! results out of order, answers of every API with values that only that API understands. It must never use the projection
//! that it tests.
//!
//! Each text has a mark, so that the bytes show a loss and a leak: `U<n>.` a user's or host's text, `A<n>.` an answer's,
//! `R<n>.` a result's, `OPQ-<writer>-` values that only their writer may receive again, `SECRET-<writer>-` thinking.

use proptest::prelude::*;

use model::{Api, Block, HistoryTurn, Message, Provenance, Role, TurnStatus};

/// The possible writers of an answer: every API, and another model of each.
pub(super) const WRITERS: [(Api, &str); 12] = [
    (Api::AnthropicMessages, "claude-a"),
    (Api::OpenaiChat, "chat-a"),
    (Api::OpenaiResponses, "gpt-a"),
    (Api::GoogleGenerativeAi, "gemini-3-a"),
    (Api::BedrockConverse, "anthropic.claude-b"),
    (Api::Scripted, "script"),
    (Api::AnthropicMessages, "claude-z"),
    (Api::OpenaiChat, "chat-z"),
    (Api::OpenaiResponses, "gpt-z"),
    (Api::GoogleGenerativeAi, "gemini-2.5-z"),
    (Api::BedrockConverse, "anthropic.claude-z"),
    (Api::Scripted, "script-z"),
];

/// A history, and the running turn.
#[derive(Debug, Clone)]
pub(super) struct Conversed {
    pub(super) turns: Vec<HistoryTurn>,
    pub(super) current: Vec<Message>,
}

pub(super) fn message(role: Role, blocks: Vec<Block>) -> Message {
    Message {
        id: "m".to_owned(),
        role,
        blocks,
        sequence: 0,
        created_at: 1,
        provenance: None,
        provider_stop_reason: None,
    }
}

/// An answer of a writer.
pub(super) fn answer(writer: usize, blocks: Vec<Block>) -> Message {
    let (api, model) = WRITERS[writer];
    Message {
        provenance: Some(Provenance {
            provider: "p".to_owned(),
            api: api.as_str().to_owned(),
            model: model.to_owned(),
            response_id: None,
        }),
        ..message(Role::Assistant, blocks)
    }
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => Just(String::new()),
        1 => Just(" \n\t".to_owned()),
        6 => "[a-z]{1,6}",
        1 => Just("ends in space \n".to_owned()),
        1 => Just("\u{feff}ünï \u{1f600}\u{fffd}\u{2028}\"\\\u{7}".to_owned()),
        1 => Just("{\"role\":\"tool\"}],\"role\":\"user\"".to_owned()),
    ]
}

fn ids() -> impl Strategy<Value = String> {
    prop_oneof![
        6 => Just("call_0".to_owned()),
        4 => Just("call_1".to_owned()),
        1 => Just("call_0_2".to_owned()),
        1 => Just("call0".to_owned()),
        1 => Just("abcDEF123".to_owned()),
        1 => Just(String::new()),
        1 => Just("a b|ü".to_owned()),
        1 => Just("___".to_owned()),
        1 => Just("x".repeat(40)),
        1 => Just("x".repeat(64)),
        1 => Just("x".repeat(90)),
        1 => Just(format!("call_abc|fc_{}", "y".repeat(416))),
    ]
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => Just("read".to_owned()),
        2 => Just("9-lives".to_owned()),
        1 => Just("-x".to_owned()),
        1 => Just(String::new()),
        1 => Just("not a name".to_owned()),
        1 => Just("n".repeat(64)),
        1 => Just("n".repeat(65)),
    ]
}

fn arguments(writer: usize) -> impl Strategy<Value = String> {
    prop_oneof![
        6 => Just(format!("{{\"by\":{writer}}}")),
        1 => Just(String::new()),
        1 => Just("[1]".to_owned()),
        1 => Just("{\"a\":".to_owned()),
        1 => Just(format!("{{\"by\":{writer},\"a\":\"\\udead\"}}")),
        1 => Just(format!("{{\"by\":{writer},\"__proto__\":{{}},\"a\":1,\"a\":2}}")),
    ]
}

/// JSON that JavaScript accepts and serde does not, half of the time.
fn odd() -> impl Strategy<Value = &'static str> {
    prop_oneof![3 => Just(""), 1 => Just("\\ud83d")]
}

/// The values that an API attaches to a call.
fn attached_to_call(writer: usize) -> impl Strategy<Value = Option<String>> {
    let own = odd().prop_map(move |odd| match WRITERS[writer].0 {
        Api::AnthropicMessages => Some(format!(
            "{{\"caller\":{{\"type\":\"code_execution_20250825\",\"tool_id\":\"OPQ-{writer}-srv1\",\"x\":\"{odd}\"}}}}"
        )),
        Api::OpenaiChat => Some(format!(
            "{{\"extra_content\":{{\"google\":{{\"thought_signature\":\"OPQ-{writer}-{odd}\"}}}}}}"
        )),
        Api::OpenaiResponses => Some(format!("{{\"namespace\":\"OPQ-{writer}-{odd}\"}}")),
        Api::GoogleGenerativeAi => Some(format!("{{\"thoughtSignature\":\"OPQ-{writer}-c\"}}")),
        Api::BedrockConverse | Api::Scripted => None,
    });
    prop_oneof![1 => Just(None), 1 => own]
}

fn calls(writer: usize) -> impl Strategy<Value = Block> {
    (ids(), names(), arguments(writer), prop::bool::weighted(0.07), attached_to_call(writer))
        .prop_map(|(id, name, arguments_json, incomplete, provider_data)| Block::ToolCall {
            id,
            name,
            arguments_json,
            incomplete,
            provider_data,
        })
}

fn images() -> impl Strategy<Value = Block> {
    prop_oneof![
        4 => Just("image/png"), 1 => Just("image/jpg"), 1 => Just("image/tiff"), 1 => Just("")
    ]
    .prop_map(|kind: &str| Block::Image { mime_type: kind.to_owned(), data: "AAAA".to_owned() })
}

fn shown() -> impl Strategy<Value = Block> {
    prop_oneof![5 => texts().prop_map(Block::text), 1 => images()]
}

/// Thinking in the form of the writer's API.
fn thinking(writer: usize) -> impl Strategy<Value = Block> {
    (prop::bool::weighted(0.85), any::<bool>(), odd()).prop_map(move |(signed, empty, odd)| {
        let thinking =
            if empty { String::new() } else { format!("SECRET-{writer}-\u{1f914} ") };
        let signature = signed.then(|| format!("OPQ-{writer}-sig=="));
        let provider_data = match WRITERS[writer].0 {
            Api::AnthropicMessages | Api::BedrockConverse | Api::Scripted => None,
            Api::OpenaiChat if signed => Some(format!(
                "{{\"reasoning_details\":[{{\"type\":\"reasoning.encrypted\",\"data\":\"OPQ-{writer}-{odd}\"}}]}}"
            )),
            Api::OpenaiChat => Some("{\"field\":\"reasoning_content\"}".to_owned()),
            Api::OpenaiResponses => signed.then(|| {
                format!(
                    "{{\"type\":\"reasoning\",\"id\":\"rs_1\",\"summary\":[{{\"type\":\"summary_text\",\"text\":\"SECRET-{writer}-\"}}],\"encrypted_content\":\"OPQ-{writer}-{odd}\"}}"
                )
            }),
            Api::GoogleGenerativeAi => None,
        };
        let signature = signature.filter(|_| WRITERS[writer].0 != Api::OpenaiResponses);
        Block::Thinking { thinking, signature, provider_data }
    })
}

/// A text with the values that the writer's API attaches to it.
fn attached_text(writer: usize, last: bool) -> impl Strategy<Value = Block> {
    (texts(), odd()).prop_map(move |(text, odd)| Block::Text {
        text,
        provider_data: match WRITERS[writer].0 {
            Api::AnthropicMessages => Some(format!(
                "{{\"citations\":[{{\"type\":\"web_search_result_location\",\"encrypted_index\":\"OPQ-{writer}-{odd}\"}}]}}"
            )),
            Api::OpenaiResponses => Some(format!(
                "{{\"item\":{{\"id\":\"msg_OPQ-{writer}-{}\",\"phase\":\"{}\"}},\"part\":{{\"type\":\"output_text\",\"annotations\":[\"{odd}\"]}}}}",
                if last { "r" } else { "" },
                if last { "final_answer" } else { "commentary" }
            )),
            Api::GoogleGenerativeAi => Some(format!("{{\"thoughtSignature\":\"OPQ-{writer}-x\"}}")),
            Api::OpenaiChat | Api::BedrockConverse | Api::Scripted => None,
        },
        origin: None,
    })
}

/// A provider-run tool's blocks: whole, or one half of them.
fn provider_run(writer: usize) -> impl Strategy<Value = Vec<Block>> {
    let opaque = |raw_json: String| Block::Opaque { raw_json };
    (0..3u8, 0..4u8, odd()).prop_map(move |(n, part, odd)| match WRITERS[writer].0 {
        Api::AnthropicMessages => {
            let begin = opaque(format!(
                "{{\"type\":\"server_tool_use\",\"id\":\"OPQ-{writer}-srv{n}\",\"name\":\"web_search\",\"input\":{{\"query\":\"{odd}\"}}}}"
            ));
            let end = opaque(format!(
                "{{\"type\":\"web_search_tool_result\",\"tool_use_id\":\"OPQ-{writer}-srv{n}\",\"content\":[{{\"type\":\"web_search_result\",\"encrypted_content\":\"{odd}\"}}]}}"
            ));
            match part {
                0 => vec![begin],
                1 => vec![end],
                _ => vec![begin, end],
            }
        }
        Api::OpenaiResponses => vec![opaque(format!(
            "{{\"type\":\"web_search_call\",\"id\":\"ws_OPQ-{writer}-{n}\",\"status\":\"completed\",\"action\":{{\"type\":\"search\",\"query\":\"{odd}\"}}}}"
        ))],
        Api::GoogleGenerativeAi if part == 0 => {
            vec![opaque(format!("{{\"text\":\"\",\"thoughtSignature\":\"OPQ-{writer}-e\"}}"))]
        }
        Api::GoogleGenerativeAi => vec![opaque(format!(
            "{{\"executableCode\":{{\"language\":\"PYTHON\",\"code\":\"OPQ-{writer}-{odd}\"}}}}"
        ))],
        Api::BedrockConverse => {
            let begin = opaque(format!(
                "{{\"toolUse\":{{\"toolUseId\":\"OPQ-{writer}-srv{n}\",\"name\":\"search\",\"type\":\"server_tool_use\",\"input\":{{\"q\":\"{odd}\"}}}}}}"
            ));
            let end = opaque(format!(
                "{{\"toolResult\":{{\"toolUseId\":\"OPQ-{writer}-srv{n}\",\"type\":\"search_result\",\"content\":[]}}}}"
            ));
            match part {
                0 => vec![begin],
                1 => vec![end],
                _ => vec![begin, end],
            }
        }
        Api::OpenaiChat | Api::Scripted => vec![opaque(if part == 0 {
            "not json".to_owned()
        } else {
            format!("{{\"type\":\"OPQ-{writer}-\"}}")
        })],
    })
}

fn answer_blocks(writer: usize) -> impl Strategy<Value = Vec<Block>> {
    let one = |block: Block| vec![block];
    let redacted =
        Block::RedactedThinking { data: format!("OPQ-{writer}-red"), provider_data: None };
    prop::collection::vec(
        prop_oneof![
            4 => texts().prop_map(Block::text).prop_map(one),
            2 => attached_text(writer, false).prop_map(one),
            1 => (thinking(writer), attached_text(writer, true)).prop_map(|(a, b)| vec![a, b]),
            4 => thinking(writer).prop_map(one),
            1 => Just(vec![redacted]),
            1 => provider_run(writer),
            6 => calls(writer).prop_map(one),
            1 => images().prop_map(one),
        ],
        0..6,
    )
    .prop_map(|blocks| blocks.concat())
}

fn answers(writers: Vec<usize>) -> impl Strategy<Value = Message> {
    (prop::sample::select(writers), 0..20u8).prop_flat_map(|(writer, fate)| {
        answer_blocks(writer).prop_map(move |blocks| {
            let mut message = answer(writer, blocks);
            match fate {
                0 => message.provenance = None,
                1 | 2 => message.provider_stop_reason = Some("pause_turn".to_owned()),
                3 => message.provider_stop_reason = Some("CONTINUATION".to_owned()),
                4 => message.provider_stop_reason = Some("end_turn".to_owned()),
                _ => {}
            }
            message
        })
    })
}

fn result_block(id: String) -> impl Strategy<Value = Block> {
    (prop::collection::vec(shown(), 0..3), prop::bool::weighted(0.3)).prop_map(
        move |(content, is_error)| Block::ToolResult {
            tool_call_id: id.clone(),
            tool_name: "read".to_owned(),
            content,
            is_error,
        },
    )
}

fn results() -> impl Strategy<Value = Message> {
    ids().prop_flat_map(result_block).prop_map(|block| message(Role::Tool, vec![block]))
}

/// An answer with calls and their results: in order, turned around, twice, or one missing.
fn rounds(writers: Vec<usize>) -> impl Strategy<Value = Vec<Message>> {
    (answers(writers), 0..5u8).prop_flat_map(|(answer, order)| {
        let call_ids: Vec<String> = answer
            .blocks
            .iter()
            .filter_map(|block| match block {
                Block::ToolCall { id, .. } => Some(id.clone()),
                _ => None,
            })
            .collect();
        let result_blocks: Vec<_> = call_ids.into_iter().map(result_block).collect();
        result_blocks.prop_map(move |blocks| {
            let mut result_blocks: Vec<Message> =
                blocks.into_iter().map(|block| message(Role::Tool, vec![block])).collect();
            match order {
                0 => result_blocks.reverse(),
                1 => result_blocks.extend(result_blocks.clone()),
                2 => drop(result_blocks.pop()),
                _ => {}
            }
            result_blocks.insert(0, answer.clone());
            result_blocks
        })
    })
}

/// A paused answer and its continuation.
fn pauses(writers: Vec<usize>) -> impl Strategy<Value = Vec<Message>> {
    let writers: Vec<usize> =
        writers.into_iter().filter(|writer| WRITERS[*writer].0 == Api::AnthropicMessages).collect();
    let writers = if writers.is_empty() { vec![0] } else { writers };
    (prop::sample::select(writers), any::<bool>(), any::<bool>()).prop_map(
        |(writer, whole, thinks)| {
            let opaque = |raw_json: String| Block::Opaque { raw_json };
            let mut first = vec![
                Block::text("searching"),
                opaque(format!("{{\"type\":\"server_tool_use\",\"id\":\"OPQ-{writer}-p\",\"name\":\"web_search\",\"input\":{{}}}}")),
            ];
            if thinks {
                first.insert(0, Block::Thinking { thinking: format!("SECRET-{writer}-"), signature: Some(format!("OPQ-{writer}-s")), provider_data: None });
            }
            let mut paused = answer(writer, first);
            paused.provider_stop_reason = Some("pause_turn".to_owned());
            let mut out = vec![paused];
            if whole {
                out.push(answer(writer, vec![
                    opaque(format!("{{\"type\":\"web_search_tool_result\",\"tool_use_id\":\"OPQ-{writer}-p\",\"content\":[]}}")),
                    Block::text("found"),
                ]));
            }
            out
        },
    )
}

fn host_text() -> impl Strategy<Value = Message> {
    prop_oneof![
        4 => prop::collection::vec(shown(), 0..4).prop_map(|blocks| message(Role::User, blocks)),
        1 => prop::collection::vec(shown(), 0..3).prop_map(|blocks| message(Role::System, blocks)),
        // Results inside a message of the user, which some hosts write.
        1 => (ids().prop_flat_map(result_block), shown())
            .prop_map(|(result, more)| message(Role::User, vec![result, more])),
    ]
}

fn messages(writers: &[usize]) -> impl Strategy<Value = Vec<Message>> + use<> {
    let one = |message: Message| vec![message];
    prop::collection::vec(
        prop_oneof![
            4 => host_text().prop_map(one),
            3 => answers(writers.to_vec()).prop_map(one),
            5 => rounds(writers.to_vec()),
            1 => pauses(writers.to_vec()),
            2 => results().prop_map(one),
        ],
        0..6,
    )
    .prop_map(|messages| messages.concat())
}

fn statuses() -> impl Strategy<Value = TurnStatus> {
    prop_oneof![
        4 => Just(TurnStatus::Completed),
        1 => Just(TurnStatus::Aborted),
        1 => Just(TurnStatus::Failed),
        1 => Just(TurnStatus::Streaming),
    ]
}

/// Marks every text with its kind and a number.
fn mark(messages: &mut [Message], n: &mut usize) {
    fn texts(blocks: &mut [Block], kind: char, n: &mut usize) {
        for block in blocks {
            match block {
                Block::Text { text, .. } if !text.trim().is_empty() => {
                    text.insert_str(0, &format!("{kind}{n}."));
                    *n += 1;
                }
                Block::ToolResult { content, .. } => texts(content, 'R', n),
                _ => {}
            }
        }
    }
    for message in messages {
        let kind = match message.role {
            Role::User | Role::System => 'U',
            Role::Assistant => 'A',
            Role::Tool => 'R',
        };
        texts(&mut message.blocks, kind, n);
    }
}

/// Histories in which `target` wrote about half of the answers.
pub(super) fn conversed(target: usize) -> impl Strategy<Value = Conversed> {
    let mut writers: Vec<usize> = (0..WRITERS.len()).collect();
    writers.extend([target; 12]);
    let turns = prop::collection::vec((statuses(), messages(&writers)), 0..5);
    // The number of turns that a compaction retained; 0 is no compaction.
    (turns, messages(&writers), 0..6usize, host_text()).prop_map(|(turns, current, left, last)| {
        let mut n = 0;
        let mut out = Vec::new();
        let mut add = |status, edited, mut messages: Vec<Message>| {
            mark(&mut messages, &mut n);
            out.push(HistoryTurn {
                id: "t".to_owned(),
                status,
                edited,
                edited_messages: 0,
                messages,
            });
        };
        if left > 0 {
            let summary = Block::text("[Previous conversation summary]: much was host_text");
            add(TurnStatus::Completed, false, vec![message(Role::User, vec![summary])]);
        }
        for (index, (status, messages)) in turns.into_iter().enumerate() {
            add(status, index + 1 < left, messages);
        }
        let mut current = current;
        // Most runs begin with a question.
        if left != 3 {
            current.insert(0, Message { role: Role::User, ..last });
        }
        mark(&mut current, &mut n);
        Conversed { turns: out, current }
    })
}
