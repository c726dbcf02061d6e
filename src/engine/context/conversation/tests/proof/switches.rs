//! Every pair of a writing model and the next called model: between turns, and inside a turn. A value must never reach
//! another model than its writer.

use super::histories::{WRITERS, answer, message};
use super::*;

fn opaque(raw_json: String) -> Block {
    Block::Opaque { raw_json }
}

/// The values of a writer's answer that only the writer may receive again, with its text and a call.
fn answer_of(writer: usize, call: &str) -> Message {
    let mark = format!("OPQ-{writer}-");
    let signed = |provider_data| Block::Thinking {
        thinking: format!("SECRET-{writer}-"),
        signature: Some(mark.clone()),
        provider_data,
    };
    let (thinking, own) = match WRITERS[writer].0 {
        Api::AnthropicMessages => (
            signed(None),
            vec![
                opaque(format!(
                    "{{\"type\":\"server_tool_use\",\"id\":\"{mark}1\",\"name\":\"web_search\",\"input\":{{}}}}"
                )),
                opaque(format!(
                    "{{\"type\":\"web_search_tool_result\",\"tool_use_id\":\"{mark}1\",\"content\":[]}}"
                )),
            ],
        ),
        Api::OpenaiChat => (
            signed(Some(format!("{{\"reasoning_details\":[{{\"data\":\"{mark}\"}}]}}"))),
            Vec::new(),
        ),
        Api::OpenaiResponses => (
            signed(Some(format!(
                "{{\"type\":\"reasoning\",\"id\":\"rs\",\"summary\":[],\"encrypted_content\":\"{mark}\"}}"
            ))),
            vec![opaque(format!(
                "{{\"type\":\"web_search_call\",\"id\":\"ws_{mark}\",\"status\":\"completed\",\"action\":{{}}}}"
            ))],
        ),
        Api::GoogleGenerativeAi => (
            signed(None),
            vec![opaque(format!(
                "{{\"executableCode\":{{\"language\":\"PYTHON\",\"code\":\"{mark}\"}}}}"
            ))],
        ),
        Api::BedrockConverse | Api::Scripted => (signed(None), Vec::new()),
    };
    let mut blocks = vec![thinking];
    blocks.extend(own);
    blocks.push(Block::text(format!("A{call}.")));
    blocks.push(Block::ToolCall {
        id: call.to_owned(),
        name: "read".to_owned(),
        arguments_json: format!("{{\"by\":{writer}}}"),
        incomplete: false,
        provider_data: None,
    });
    answer(writer, blocks)
}

fn result(call: &str) -> Message {
    message(
        Role::Tool,
        vec![Block::ToolResult {
            tool_call_id: call.to_owned(),
            tool_name: "read".to_owned(),
            content: vec![Block::text(format!("R{call}."))],
            is_error: false,
        }],
    )
}

fn user(text: &str) -> Message {
    message(Role::User, vec![Block::text(text)])
}

#[test]
fn every_model_continues_a_turn_of_every_other_model() {
    let servers = [
        anthropic(),
        openai_chat(),
        mistral(),
        deepseek(),
        openai_responses(),
        gemini(),
        converse(),
    ];
    let mut pairs = 0;
    for server in &servers {
        for writer in 0..WRITERS.len() {
            let turn = |messages| HistoryTurn {
                id: "t".to_owned(),
                status: TurnStatus::Completed,
                edited: false,
                edited_messages: 0,
                messages,
            };
            let round = |call: &str| vec![answer_of(writer, call), result(call)];
            let done = answer(writer, vec![Block::text("A3.done")]);
            let mut first = vec![user("U1.")];
            first.extend(round("call|1"));
            first.push(done);
            // The call follows a turn of the other model, or a result inside such a turn.
            let between = (vec![turn(first.clone())], vec![user("U2.")]);
            let within = {
                let mut current = vec![user("U2.")];
                current.extend(round("call|2"));
                (vec![turn(first)], current)
            };
            for (turns, current) in [between, within] {
                let mut conversation = Conversation::new(server.target());
                for turn in &turns {
                    conversation.push_turn(turn, &server.encoder);
                }
                conversation.push_current(&current, &server.encoder);
                assert_eq!(conversation.sendable(), Ok(()));
                let body = server.body(conversation.pieces(&server.encoder));
                let messages = server.conversation_of(&body).unwrap();
                let all = turns.iter().flat_map(|turn| &turn.messages).chain(&current);
                let own_ids = check::own_ids(&server.target(), all);
                let facts = Facts { writer: server.writer, may_continue: false, own_ids: &own_ids };
                assert_eq!((server.accepts)(&messages, facts), Ok(()), "{body}");
                for mark in ["U1.", "Acall|1.", "Rcall|1.", "A3.done", "U2."] {
                    assert!(body.contains(mark), "{mark} is lost in {body}");
                }
                let present = body.matches(&format!("OPQ-{writer}-")).count() > 0;
                assert_eq!(present, writer == server.writer, "{body}");
                pairs += 1;
            }
        }
    }
    assert_eq!(pairs, servers.len() * WRITERS.len() * 2);
}
