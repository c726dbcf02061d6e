//! The histories of interrupted and resumed turns that the kill harness recorded
//! (`__test__/recovery/interrupted-turns.spec.ts`, `__test__/recovery/kill-points.spec.ts`): every provider's strict
//! validator accepts each, at every call of the resumed run and of the run after it. It must never invent a history: a new
//! one of the harness fails there until it is recorded.

use serde_json::value::RawValue;

use super::histories::{WRITERS, message};
use super::*;
use model::{Defaults, parse_message};

const FOUND: &str = include_str!("../../../../../../__test__/fixtures/resumed.json");

fn histories() -> Vec<Vec<Message>> {
    let found: Vec<Vec<Box<RawValue>>> = serde_json::from_str(FOUND).unwrap();
    let parse = |(index, json): (usize, Box<RawValue>)| {
        let mut new_id = || "new".to_owned();
        let mut defaults = Defaults { new_id: &mut new_id, now_ms: 0 };
        let mut parsed = parse_message("message", json.get(), &mut defaults).unwrap();
        parsed.sequence = index.try_into().unwrap();
        parsed
    };
    found.into_iter().map(|one| one.into_iter().enumerate().map(parse).collect()).collect()
}

/// The same history with answers of the server's own model, which receives its thinking again, or of the original one.
fn written_by(server: &Server, own: bool, history: &[Message]) -> Vec<Message> {
    let mut history = history.to_vec();
    for message in history.iter_mut().filter(|_| own) {
        if let Some(provenance) = &mut message.provenance {
            let (api, model) = WRITERS[server.writer];
            (provenance.api, provenance.model) = (api.as_str().to_owned(), model.to_owned());
            "p".clone_into(&mut provenance.provider);
        }
    }
    history
}

#[test]
fn every_provider_accepts_the_history_of_a_resumed_turn() {
    let servers = [
        anthropic(),
        openai_chat(),
        mistral(),
        deepseek(),
        openai_responses(),
        gemini(),
        converse(),
    ];
    let found = histories();
    // With and without the unsafe tool's outcome, in either round, by one process or two; and turns of one round.
    assert!(found.len() >= 8, "{} histories", found.len());
    for server in &servers {
        for (history, own) in found.iter().flat_map(|found| [(found, false), (found, true)]) {
            let history = written_by(server, own, history);
            let own_ids = check::own_ids(&server.target(), history.iter());
            let facts = Facts { writer: server.writer, may_continue: false, own_ids: &own_ids };
            // The run itself: each of its model calls begins with the previous one.
            let mut running = Conversation::new(server.target());
            let answers = history.iter().enumerate().skip(1);
            let cuts = answers.filter(|(_, message)| message.role == Role::Assistant);
            let (mut from, mut bodies) = (0, 0);
            for (cut, _) in cuts {
                running.push_current(&history[from..cut], &server.encoder);
                from = cut;
                accepts(server, &running, facts);
                bodies += 1;
            }
            assert!(bodies >= 2, "one round at least");
            // The next run, for every end of the resumed one.
            for status in [TurnStatus::Completed, TurnStatus::Failed, TurnStatus::Aborted] {
                let mut next = Conversation::new(server.target());
                let (id, messages) = ("t".to_owned(), history.clone());
                let turn = HistoryTurn { id, status, edited: false, edited_messages: 0, messages };
                next.push_turn(&turn, &server.encoder);
                next.push_current(
                    &[message(Role::User, vec![Block::text("and now?")])],
                    &server.encoder,
                );
                let body = accepts(server, &next, facts);
                for tool in ["pure", "idempotent", "reconcilable", "unsafe"] {
                    assert!(body.contains(tool), "`{tool}` is lost in {body}");
                }
            }
        }
    }
}

fn accepts(server: &Server, conversation: &Conversation, facts: Facts<'_>) -> String {
    assert_eq!(conversation.sendable(), Ok(()));
    let body = server.body(conversation.pieces(&server.encoder));
    let messages = server.conversation_of(&body).unwrap();
    assert_eq!((server.accepts)(&messages, facts), Ok(()), "{body}");
    body
}
