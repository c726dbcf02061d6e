//! Histories built from bytes, and the properties of their projection for every API.
//!
//! It must never share code with the projection it checks.

use super::response::wire;
use model::{Api, Block, Message, Provenance, Role, TranscriptRules, TurnStatus};
use turn::transcript::{Projector, Target, join};

const APIS: [Api; 5] = [
    Api::AnthropicMessages,
    Api::OpenaiChat,
    Api::OpenaiResponses,
    Api::GoogleGenerativeAi,
    Api::BedrockConverse,
];

/// Texts, ids and names that hosts and models use, and invalid ones.
const TEXTS: [&str; 8] =
    ["hello", "", " ", "\n\t", "a \"quoted\" \\ text", "\u{1F600} ünïcode", "\u{0}\u{7f}", "{}"];
const IDS: [&str; 8] =
    ["call_0", "call_0", "toolu_01AbC", "", "id with spaces", "é|fc_77", "call_1", "0123456789"];
const NAMES: [&str; 6] = ["read", "write_file", "", "a.b:c", "read", "näme"];
const ARGUMENTS: [&str; 6] = ["{}", "", "{\"path\":\"a\"}", "{\"path\":", "[1]", "null"];
const PROVIDERS: [&str; 2] = ["here", "elsewhere"];

/// Reads choices from the bytes; zeros once they are used up.
struct Choices<'a>(std::slice::Iter<'a, u8>);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        self.0.next().copied().unwrap_or(0)
    }

    fn of<T: Copy + Default, const N: usize>(&mut self, all: [T; N]) -> T {
        let at = usize::from(self.byte()) % N.max(1);
        all.get(at).copied().unwrap_or_default()
    }

    fn text(&mut self) -> String {
        self.of(TEXTS).to_owned()
    }

    fn is_over(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    fn shown(&mut self) -> Block {
        match self.byte() % 4 {
            0 => Block::Image { mime_type: "image/png".to_owned(), data: "aGk=".to_owned() },
            _ => Block::text(self.text()),
        }
    }

    fn block(&mut self, role: Role) -> Block {
        if role != Role::Assistant {
            return self.shown();
        }
        match self.byte() % 6 {
            0 | 1 => Block::ToolCall {
                id: self.of(IDS).to_owned(),
                name: self.of(NAMES).to_owned(),
                arguments_json: self.of(ARGUMENTS).to_owned(),
                incomplete: self.byte().is_multiple_of(4),
                provider_data: None,
            },
            2 => Block::Thinking {
                thinking: self.text(),
                signature: (self.byte().is_multiple_of(2)).then(|| "c2lnbmVk".to_owned()),
                provider_data: None,
            },
            3 => Block::RedactedThinking { data: "cmVkYWN0ZWQ=".to_owned(), provider_data: None },
            _ => Block::text(self.text()),
        }
    }

    fn message(&mut self, sequence: u32) -> Message {
        let role = match self.byte() % 8 {
            0 | 1 => Role::User,
            2..=4 => Role::Assistant,
            5 | 6 => Role::Tool,
            _ => Role::System,
        };
        let blocks = if role == Role::Tool {
            vec![Block::ToolResult {
                tool_call_id: self.of(IDS).to_owned(),
                tool_name: self.of(NAMES).to_owned(),
                content: (0..self.byte() % 3).map(|_| self.shown()).collect(),
                is_error: self.byte().is_multiple_of(3),
            }]
        } else {
            (0..self.byte() % 4).map(|_| self.block(role)).collect()
        };
        let api = APIS.get(usize::from(self.byte()) % APIS.len()).copied();
        let provenance = (role == Role::Assistant).then(|| Provenance {
            provider: self.of(PROVIDERS).to_owned(),
            api: api.map(Api::as_str).unwrap_or_default().to_owned(),
            model: "model".to_owned(),
            response_id: None,
        });
        Message {
            id: format!("message {sequence}"),
            role,
            blocks,
            sequence,
            created_at: 0,
            provenance,
            provider_stop_reason: None,
        }
    }

    fn turn(&mut self) -> (TurnStatus, Vec<Message>) {
        let status = match self.byte() % 4 {
            0 | 1 => TurnStatus::Completed,
            2 => TurnStatus::Aborted,
            _ => TurnStatus::Failed,
        };
        let count = u32::from(self.byte() % 6);
        (status, (0..count).map(|sequence| self.message(sequence)).collect())
    }
}

/// A history of any turns projects for every API to one that answers each call once, in order, right after it, that is
/// JSON when encoded, and that projects to itself.
pub(super) fn projection(data: &[u8]) {
    let mut choices = Choices(data.iter());
    // The number of turns before a compaction.
    let edited = usize::from(choices.byte() % 4);
    let mut turns = Vec::new();
    while !choices.is_over() && turns.len() < 16 {
        turns.push(choices.turn());
    }
    for api in APIS {
        let target = || Target {
            api,
            provider: "here".to_owned(),
            model: "model".to_owned(),
            rules: TranscriptRules::default(),
        };
        let project = || {
            let mut projector = Projector::new(target());
            let mut out = Vec::new();
            for (at, (status, messages)) in turns.iter().enumerate() {
                join(&mut out, projector.project_turn(*status, at < edited, messages));
            }
            out
        };
        let projected = project();
        assert_eq!(project(), projected, "deterministic");
        let again = Projector::new(target()).project_flat(&projected);
        assert_eq!(again, projected, "idempotent for {api:?}");
        answered(&projected);
        let Some(wire) = wire(api) else { continue };
        let encoded = wire.encode_messages(&projected);
        let array = [b"[".as_slice(), &encoded, b"]"].concat();
        let parsed = serde_json::from_slice::<Vec<serde_json::Value>>(&array);
        assert!(parsed.is_ok(), "{}", String::from_utf8_lossy(&array));
    }
}

fn answered(messages: &[Message]) {
    let mut open: Vec<&str> = Vec::new();
    for message in messages {
        match message.role {
            Role::Tool => {
                for block in &message.blocks {
                    let Block::ToolResult { tool_call_id, .. } = block else { continue };
                    assert_eq!(open.first().copied(), Some(tool_call_id.as_str()), "in order");
                    open.remove(0);
                }
            }
            Role::User | Role::Assistant | Role::System => {
                assert_eq!(open, Vec::<&str>::new(), "answered before anything else");
                open.extend(message.blocks.iter().filter_map(|block| match block {
                    Block::ToolCall { id, .. } => Some(id.as_str()),
                    _ => None,
                }));
            }
        }
    }
    assert_eq!(open, Vec::<&str>::new(), "answered");
}
