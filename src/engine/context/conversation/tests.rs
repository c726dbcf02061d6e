//! That pieces are reused must never show: the bytes of a request are those of the whole transcript encoded at once, and the
//! request of call n begins the request of call n+1.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use model::{Api, Block, Completion, DeltaSink, Failure, Provenance, TranscriptRules, TurnStatus};
use provider::{AnthropicWire, Attempted, ChatWire, Credential, ModelRequest, Wire};
use turn::transcript::project_all;

/// The encoding half of a provider.
struct Encoder(Box<dyn Wire>);

impl Provider for Encoder {
    fn api(&self) -> Api {
        self.0.api()
    }

    fn transcript_rules(&self) -> TranscriptRules {
        self.0.transcript_rules()
    }

    fn encode_messages(&self, messages: &[Message]) -> Bytes {
        self.0.encode_messages(messages)
    }

    fn stream<'a>(
        &'a self,
        _request: &'a ModelRequest,
        _credential: Option<&'a Credential>,
        _sink: &'a mut dyn DeltaSink,
    ) -> Attempted<'a> {
        let failure = Failure::new(model::FailureKind::Unknown, "", "only encodes");
        Box::pin(async { Err::<Completion, _>(failure) })
    }
}

fn encoders() -> [Encoder; 2] {
    [
        Encoder(Box::new(AnthropicWire::default())),
        Encoder(Box::new(ChatWire::for_host("api.openai.com"))),
    ]
}

fn target(api: Api) -> Target {
    Target {
        api,
        provider: "p".to_owned(),
        model: "m".to_owned(),
        rules: TranscriptRules::default(),
    }
}

fn message(role: Role, blocks: Vec<Block>, api: Api) -> Message {
    Message {
        id: "m".to_owned(),
        role,
        blocks,
        sequence: 0,
        created_at: 0,
        provenance: (role == Role::Assistant).then(|| Provenance {
            provider: "p".to_owned(),
            api: api.as_str().to_owned(),
            model: "m".to_owned(),
            response_id: None,
        }),
        provider_stop_reason: None,
    }
}

/// The parts of a turn: rounds of tool calls, whether an answer ends it, its status.
type Shape = (u8, bool, bool, u8);

fn turn(n: usize, (rounds, answers, aborted, text): Shape, api: Api) -> HistoryTurn {
    let user = message(Role::User, vec![Block::text(format!("question {n}"))], api);
    let mut messages = vec![user];
    for round in 0..rounds {
        let id = format!("call_{round}");
        let mut blocks = vec![Block::Thinking {
            thinking: "hm".to_owned(),
            signature: Some("sig".to_owned()),
            provider_data: None,
        }];
        if text % 2 == 0 {
            blocks.push(Block::text("let me see"));
        }
        blocks.push(Block::ToolCall {
            id: id.clone(),
            name: "t".to_owned(),
            arguments_json: "{\"a\":1}".to_owned(),
            incomplete: false,
            provider_data: None,
        });
        messages.push(message(Role::Assistant, blocks, api));
        let result = Block::ToolResult {
            tool_call_id: id,
            tool_name: "t".to_owned(),
            content: vec![Block::text("r")],
            is_error: false,
        };
        messages.push(message(Role::Tool, vec![result], api));
    }
    if answers {
        messages.push(message(Role::Assistant, vec![Block::text(format!("answer {n}"))], api));
    }
    let status = if aborted { TurnStatus::Aborted } else { TurnStatus::Completed };
    HistoryTurn { id: format!("t{n}"), status, edited: false, edited_messages: 0, messages }
}

fn join_pieces(pieces: &[Bytes]) -> String {
    let texts: Vec<&str> = pieces.iter().map(|piece| std::str::from_utf8(piece).unwrap()).collect();
    texts.join(",")
}

proptest! {
    #[test]
    fn pieces_are_the_whole_and_each_request_begins_the_next(
        shapes in prop::collection::vec((0..3u8, any::<bool>(), any::<bool>(), any::<u8>()), 0..40),
        rounds in 0..3u8,
    ) {
        for encoder in encoders() {
            let api = encoder.api();
            let turns: Vec<HistoryTurn> =
                shapes.iter().enumerate().map(|(n, shape)| turn(n, *shape, api)).collect();
            let current = turn(999, (rounds, false, false, 0), api).messages;
            let mut conversation = Conversation::new(target(api));
            for turn in &turns {
                conversation.push_turn(turn, &encoder);
            }
            // The running turn is sent call by call: the question, then each round.
            let mut sent = String::new();
            let mut from = 0;
            for to in (1..=current.len()).step_by(2) {
                conversation.push_current(&current[from..to], &encoder);
                from = to;
                let request = join_pieces(&conversation.pieces(&encoder));
                let closed = join_pieces(&conversation.pieces);
                if let (Some((back, _)), true) = (conversation.earlier, from > 2) {
                    // The previous call ended there.
                    prop_assert_eq!(&closed[..closed.len() - back], &sent);
                }
                prop_assert!(conversation.sendable().is_ok());
                // Anthropic's open message may grow at its end; the bytes before its closing bracket stay.
                let stays = sent.strip_suffix("]}").unwrap_or(&sent);
                prop_assert!(request.starts_with(stays), "{stays}\n{request}");
                sent = request;
            }
            let whole = encoder.encode_messages(&project_all(target(api), &turns, &current));
            prop_assert_eq!(sent, join_pieces(&[whole]));
            let all = project_all(target(api), &turns, &current);
            let links: Vec<u64> = all.iter().map(|message| link(message, None)).collect();
            prop_assert_eq!(conversation.links(), links);
        }
    }
}

proptest! {
    #[test]
    fn a_turn_that_was_compacted_under_way_is_projected_later_as_it_was_from_there_on(
        rounds in 1..5u8,
        at in 0..5u8,
        text in any::<u8>(),
    ) {
        for encoder in encoders() {
            let api = encoder.api();
            let summary = turn(0, (0, false, false, 0), api);
            let whole = turn(1, (rounds, true, false, text), api);
            let cut = 1 + 2 * usize::from(at.min(rounds));
            let mut running = Conversation::new(target(api));
            running.push_turn(&summary, &encoder);
            running.push_edited(&whole.messages[..cut], &encoder);
            let rest = &whole.messages[cut..whole.messages.len() - 1];
            rest.chunks(2).for_each(|round| running.push_current(round, &encoder));
            let sent = join_pieces(&running.pieces(&encoder));
            let edited_messages = if cut > 1 { cut } else { 0 };
            let mut later = Conversation::new(target(api));
            later.push_turn(&summary, &encoder);
            later.push_turn(&HistoryTurn { edited_messages, ..whole }, &encoder);
            let projected = join_pieces(&later.pieces(&encoder));
            prop_assert!(projected.starts_with(&sent), "{sent}\n{projected}");
            prop_assert!(later.links().starts_with(&running.links()));
        }
    }
}

mod proof;
