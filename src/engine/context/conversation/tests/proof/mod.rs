//! The proof of the projection: random histories, projected and encoded for every API, against a strict validator
//! of each, which was written from docs/rules/wire and sees only the body.
//!
//! `PROJECTION_CASES=100000 cargo test --profile fast --no-default-features --lib proof::` runs the whole proof (nextest
//! ends a test after two minutes); the usual suite runs fewer cases. The validators must never share code with the code that
//! they check.

mod anthropic;
mod bedrock;
mod chat;
mod check;
mod given;
mod google;
mod histories;
mod responses;
mod resumed;
mod switches;

use std::cell::Cell;

use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::Value;

use super::*;
use check::{Facts, Verdict};
use histories::{Conversed, WRITERS, conversed};
use provider::{BedrockWire, GoogleWire, ResponsesWire};
use turn::transcript::TranscriptError;

/// Histories per server in the usual suite.
const CASES: u32 = 1_000;

/// A server: its target, its encoder, and its validator.
struct Server {
    writer: usize,
    encoder: Encoder,
    /// The field of a body with the conversation.
    field: &'static str,
    accepts: for<'a> fn(&[Value], Facts<'a>) -> Verdict,
}

impl Server {
    fn target(&self) -> Target {
        let (api, model) = WRITERS[self.writer];
        assert_eq!(api, self.encoder.api());
        Target {
            api,
            provider: "p".to_owned(),
            model: model.to_owned(),
            rules: self.encoder.0.transcript_rules(),
        }
    }

    fn body(&self, pieces: Vec<Bytes>) -> String {
        let request = ModelRequest {
            model: WRITERS[self.writer].1.to_owned(),
            messages: pieces,
            max_tokens: 1_000,
            ..ModelRequest::default()
        };
        let body: Vec<u8> = self.encoder.0.body(&request).concat();
        String::from_utf8(body).expect("a body is UTF-8")
    }

    fn conversation_of(&self, body: &str) -> Result<Vec<Value>, String> {
        let parsed: Value = serde_json::from_str(body).map_err(|error| error.to_string())?;
        parsed[self.field].as_array().cloned().ok_or_else(|| "no conversation".to_owned())
    }
}

fn anthropic() -> Server {
    Server {
        writer: 0,
        encoder: Encoder(Box::new(AnthropicWire::default())),
        field: "messages",
        accepts: anthropic::check,
    }
}

fn chat(host: &str, accepts: for<'a> fn(&[Value], Facts<'a>) -> Verdict) -> Server {
    let wire = ChatWire::for_host(host);
    Server { writer: 1, encoder: Encoder(Box::new(wire)), field: "messages", accepts }
}

fn openai_chat() -> Server {
    chat("api.openai.com", |messages, facts| chat::check(messages, chat::Server::OpenAi, facts))
}

fn mistral() -> Server {
    chat("api.mistral.ai", |messages, facts| chat::check(messages, chat::Server::Mistral, facts))
}

fn deepseek() -> Server {
    chat("api.deepseek.com", |messages, facts| chat::check(messages, chat::Server::DeepSeek, facts))
}

fn openai_responses() -> Server {
    Server {
        writer: 2,
        encoder: Encoder(Box::new(ResponsesWire::default())),
        field: "input",
        accepts: responses::check,
    }
}

fn gemini() -> Server {
    Server {
        writer: 3,
        encoder: Encoder(Box::new(GoogleWire::default())),
        field: "contents",
        accepts: google::check,
    }
}

fn converse() -> Server {
    Server {
        writer: 4,
        encoder: Encoder(Box::new(BedrockWire)),
        field: "messages",
        accepts: bedrock::check,
    }
}

/// The positions at which the driver may have cut the running turn: before an answer of the target that is not empty, and
/// that has the results for which the previous answer was paused.
fn cuts(target: &Target, current: &[Message]) -> Vec<usize> {
    let usable = |block: &Block| match block {
        Block::Text { text, .. } => !text.trim().is_empty(),
        Block::ToolCall { id, name, incomplete, .. } => {
            let good = |name: &str| check::matches(name, 64, check::word);
            !id.is_empty() && good(name) && !incomplete
        }
        _ => false,
    };
    // Provider-run uses without their results so far.
    let mut waiting: Vec<Value> = Vec::new();
    let follow = |message: &Message, waiting: &mut Vec<Value>| {
        for block in &message.blocks {
            let Block::Opaque { raw_json } = block else { continue };
            let raw: Value =
                serde_json::from_str(&raw_json.replace("\\ud83d", "")).unwrap_or_default();
            if raw["type"].as_str().is_some_and(|it| it.ends_with("_tool_use")) {
                waiting.push(raw["id"].clone());
            }
            waiting.retain(|id| raw["tool_use_id"] != *id);
        }
    };
    let mut cuts = Vec::new();
    for (index, message) in current.iter().enumerate() {
        let own = message
            .provenance
            .as_ref()
            .is_some_and(|from| from.api == target.api.as_str() && from.model == target.model);
        let waited = !waiting.is_empty();
        follow(message, &mut waiting);
        let has_results = !waited || waiting.is_empty();
        if own && index > 0 && message.blocks.iter().any(usable) && has_results {
            cuts.push(index);
        }
    }
    cuts
}

/// Blocks by kind: thinking, opaque, calls, results.
fn kinds<'a>(messages: impl Iterator<Item = &'a Message>) -> [usize; 4] {
    let mut count = [0; 4];
    for block in messages.flat_map(|message| &message.blocks) {
        match block {
            Block::Thinking { .. } | Block::RedactedThinking { .. } => count[0] += 1,
            Block::Opaque { .. } => count[1] += 1,
            Block::ToolCall { .. } => count[2] += 1,
            Block::ToolResult { .. } => count[3] += 1,
            Block::Text { .. } | Block::Image { .. } => {}
        }
    }
    count
}

/// The results that answer a usable call of the previous answer, the first one for each call, with the calls.
fn answered(messages: &[Message]) -> Vec<&Block> {
    let mut found = Vec::new();
    let mut open_calls: Vec<&str> = Vec::new();
    for message in messages {
        if message.role == Role::Assistant {
            open_calls.clear();
            open_calls.extend(message.blocks.iter().filter_map(|block| match block {
                Block::ToolCall { id, name, incomplete: false, .. }
                    if !id.is_empty() && check::matches(name, 64, check::word) =>
                {
                    Some(id.as_str())
                }
                _ => None,
            }));
        }
        for block in &message.blocks {
            if let Block::ToolResult { tool_call_id, .. } = block
                && let Some(index) = open_calls.iter().position(|id| id == tool_call_id)
            {
                open_calls.remove(index);
                found.push(block);
            }
        }
    }
    found
}

/// The marks (`U7.`) of texts that must be in every projection, by kind, and how many images.
fn marks(turn: &[Message]) -> (Vec<String>, usize) {
    fn collect(blocks: &[Block], found: &mut (Vec<String>, usize)) {
        for block in blocks {
            match block {
                Block::Text { text, .. } => {
                    found.0.extend(
                        text.split_once('.')
                            .filter(|_| !text.trim().is_empty())
                            .map(|(mark, _)| format!("{mark}.")),
                    );
                }
                Block::Image { mime_type, .. }
                    if mime_type.len() > 5 && mime_type != "image/tiff" =>
                {
                    found.1 += 1
                }
                _ => {}
            }
        }
    }
    let mut found = (Vec::new(), 0);
    for message in turn {
        match message.role {
            Role::User | Role::System => collect(&message.blocks, &mut found),
            Role::Assistant => {
                let images = found.1;
                collect(&message.blocks, &mut found);
                found.1 = images;
            }
            Role::Tool => {}
        }
    }
    for block in answered(turn) {
        if let Block::ToolResult { content, .. } = block {
            collect(content, &mut found);
        }
    }
    found
}

/// The outcome of a run of the proof.
#[derive(Default)]
struct Tally {
    bodies: Cell<usize>,
    refused: Cell<usize>,
}

fn prove(server: &Server, case: &Conversed, tally: &Tally) -> Verdict {
    let fail = |what: &str, body: &str| Err(format!("{what}\n{body}"));
    let target = server.target();
    let whole = project_all(target.clone(), &case.turns, &case.current);
    if project_all(target.clone(), &case.turns, &case.current) != whole {
        return fail("not deterministic", "");
    }
    let again = Projector::new(target.clone()).project_current(&whole);
    if again != whole {
        let index = whole.iter().zip(&again).position(|(a, b)| a != b).unwrap_or(0);
        let near =
            |it: &[Message]| format!("{:#?}", &it[index.min(it.len())..it.len().min(index + 2)]);
        return fail("not idempotent", &format!("{}\nbecame\n{}", near(&whole), near(&again)));
    }

    // The run, call by call, as the driver executes it.
    let mut conversation = Conversation::new(target.clone());
    for turn in &case.turns {
        conversation.push_turn(turn, &server.encoder);
    }
    let mut cuts = cuts(&target, &case.current);
    cuts.push(case.current.len());
    let own_ids = check::own_ids(&target, turns(case).flatten());
    let mut from = 0;
    let mut sent: Vec<Value> = Vec::new();
    let mut body = String::new();
    for cut in cuts {
        conversation.push_current(&case.current[from..cut], &server.encoder);
        from = cut;
        body = server.body(conversation.pieces(&server.encoder));
        let parsed = match server.conversation_of(&body) {
            Ok(parsed) => parsed,
            Err(error) => return fail(&error, &body),
        };
        // Call n+1 begins with call n; its last message may have grown.
        let closed = sent.len().saturating_sub(1);
        if parsed.len() < closed || parsed[..closed] != sent[..closed] {
            return fail("the request before is no prefix", &body);
        }
        sent = parsed;
        match conversation.sendable() {
            Ok(()) => {}
            Err(TranscriptError::Empty | TranscriptError::NothingToAnswer) => {
                tally.refused.set(tally.refused.get() + 1);
                continue;
            }
        }
        let so_far = project_all(target.clone(), &case.turns, &case.current[..cut]);
        let may_continue = so_far.last().is_some_and(|last| {
            let from = last.provenance.as_ref().map(|from| (&*from.api, &*from.model));
            matches!(last.provider_stop_reason.as_deref(), Some("pause_turn" | "CONTINUATION"))
                && from == Some((target.api.as_str(), &*target.model))
        });
        let facts = Facts { writer: server.writer, may_continue, own_ids: &own_ids };
        if let Err(why) = (server.accepts)(&sent, facts) {
            return fail(&why, &body);
        }
        tally.bodies.set(tally.bodies.get() + 1);
    }
    match (conversation.sendable(), whole.last()) {
        (Err(TranscriptError::Empty), None) => {}
        (Err(TranscriptError::NothingToAnswer), Some(last)) if last.role == Role::Assistant => {}
        (Ok(()), Some(_)) => {}
        (verdict, last) => return fail(&format!("{verdict:?}"), &format!("{last:?}")),
    }
    let pieces =
        if whole.is_empty() { Vec::new() } else { vec![server.encoder.encode_messages(&whole)] };
    let at_once = server.body(pieces);
    if at_once != body {
        return fail("the pieces are not the whole", &format!("{body}\n{at_once}"));
    }

    nothing_lost(case, &body)?;
    nothing_leaked(server, &whole, &body)?;
    accounted(&target, case, &whole)
}

fn turns(case: &Conversed) -> impl Iterator<Item = &[Message]> {
    case.turns.iter().map(|turn| turn.messages.as_slice()).chain([case.current.as_slice()])
}

fn nothing_lost(case: &Conversed, body: &str) -> Verdict {
    let (wanted, images): (Vec<_>, Vec<_>) = turns(case).map(marks).unzip();
    for kind in ['U', 'A', 'R'] {
        let mut at = 0;
        let marks = wanted.iter().flatten().filter(|mark| mark.starts_with(kind));
        // Results are in the order of their calls, which may differ from the stored order.
        for mark in marks {
            let found = body[at..].find(mark.as_str());
            match found {
                Some(found) if kind != 'R' => at += found + mark.len(),
                Some(_) => {}
                None => return Err(format!("`{mark}` is lost\n{body}")),
            }
        }
    }
    let (wanted, found) = (images.iter().sum::<usize>(), body.matches("AAAA").count());
    check::rule(wanted == found, &format!("{wanted} images became {found}\n{body}"), &Value::Null)
}

fn nothing_leaked(server: &Server, whole: &[Message], body: &str) -> Verdict {
    for writer in (0..WRITERS.len()).filter(|writer| *writer != server.writer) {
        for secret in [format!("OPQ-{writer}-"), format!("SECRET-{writer}-")] {
            if body.contains(&secret) {
                return Err(format!("`{secret}` has leaked\n{body}"));
            }
        }
    }
    let texts = whole.iter().flat_map(|message| &message.blocks);
    for block in texts {
        if let Block::Text { text, .. } = block
            && text.contains("SECRET-")
        {
            return Err(format!("thinking became text: {text}"));
        }
    }
    Ok(())
}

fn accounted(target: &Target, case: &Conversed, whole: &[Message]) -> Verdict {
    let mut projector = Projector::new(target.clone());
    for turn in &case.turns {
        projector.project_turn(turn.status, turn.edited, &turn.messages);
    }
    projector.project_current(&case.current);
    let Dropped { thinking, opaque, calls, results, .. } = projector.dropped();
    let given = kinds(turns(case).flatten());
    let mut projected = kinds(whole.iter());
    // A call without a result gets an interrupted one.
    let answered: usize = turns(case).map(|turn| answered(turn).len()).sum();
    projected[3] = answered;
    let counted = [
        projected[0] + thinking,
        projected[1] + opaque,
        projected[2] + calls,
        projected[3] + results,
    ];
    if given == counted {
        Ok(())
    } else {
        Err(format!("given {given:?}, projected {projected:?}, dropped {:?}", projector.dropped()))
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's own switch, which no user sets")]
fn proof(server: &Server) {
    let cases = std::env::var_os("PROJECTION_CASES");
    let cases = cases.and_then(|cases| cases.to_str()?.parse().ok());
    let config = Config {
        cases: cases.unwrap_or(CASES),
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..Config::default()
    };
    let mut runner = TestRunner::new(config.clone());
    let tally = Tally::default();
    let outcome = runner.run(&conversed(server.writer), |case| {
        prove(server, &case, &tally).map_err(TestCaseError::fail)
    });
    if let Err(error) = outcome {
        panic!("{error}");
    }
    eprintln!(
        "{} histories, {} bodies accepted, {} refused before sending",
        config.cases,
        tally.bodies.get(),
        tally.refused.get()
    );
}

#[test]
fn anthropic_accepts_every_history() {
    proof(&anthropic());
}

#[test]
fn chat_accepts_every_history() {
    proof(&openai_chat());
}

#[test]
fn mistral_accepts_every_history() {
    proof(&mistral());
}

#[test]
fn deepseek_accepts_every_history() {
    proof(&deepseek());
}

#[test]
fn responses_accepts_every_history() {
    proof(&openai_responses());
}

#[test]
fn gemini_accepts_every_history() {
    proof(&gemini());
}

#[test]
fn bedrock_accepts_every_history() {
    proof(&converse());
}
