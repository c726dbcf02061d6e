//! The scripted provider: answers from a script, for tests and demos.
//!
//! It behaves as a provider: deltas in order, waits, failures before and after the first token, truncation. It must never
//! open a socket.

mod gates;
mod record;
mod script;
#[cfg(test)]
mod tests;

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;

use super::classify::http_failure;
use super::{
    Api, Attempted, BlockStart, Completion, Credential, Delta, DeltaSink, Failure, ModelRequest,
    Provider,
};
use gates::Gates;
use model::{FailureKind, Message};
use record::Record;
pub use record::ScriptedRequest;
use script::Reply;
pub use script::{
    Script, ScriptedCall, ScriptedError, ScriptedParts, ScriptedReplies, ScriptedReply,
    ScriptedStep, ScriptedStop, ScriptedUsage,
};

/// A provider that answers from a script.
pub struct ScriptedProvider {
    replies: Vec<Reply>,
    repeat: bool,
    calls: AtomicUsize,
    call_ids: AtomicUsize,
    gates: Gates,
    record: Record,
}

impl ScriptedProvider {
    /// A provider at the script's beginning.
    #[must_use]
    pub fn new(script: Script) -> Self {
        let (replies, repeat) = match script {
            Script::Replies(replies) => (replies, false),
            Script::Whole(ScriptedReplies { replies, repeat }) => (replies, repeat == Some(true)),
        };
        Self {
            replies: replies.into_iter().map(Reply::from).collect(),
            repeat,
            calls: AtomicUsize::new(0),
            call_ids: AtomicUsize::new(0),
            gates: Gates::default(),
            record: Record::default(),
        }
    }

    /// Opens a gate, for current and later waits.
    pub fn open_gate(&self, name: &str) {
        self.gates.open(name);
    }

    /// The last requests (at most 1,000), oldest first: a JSON array of [`ScriptedRequest`].
    #[must_use]
    pub fn requests_json(&self) -> String {
        self.record.to_json()
    }

    fn next_reply(&self) -> Result<(usize, &Reply), Failure> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let at = if self.repeat { call.checked_rem(self.replies.len()) } else { Some(call) };
        let reply = at.and_then(|at| self.replies.get(at)).ok_or_else(|| {
            let count = self.replies.len();
            let message =
                format!("the script has `{count}` replies and this was call `{}`", call + 1);
            Failure {
                should_retry: Some(false),
                ..Failure::new(FailureKind::Format, "script_exhausted", message)
            }
        })?;
        Ok((call, reply))
    }

    async fn play(
        &self,
        request: &ModelRequest,
        sink: &mut dyn DeltaSink,
    ) -> Result<Completion, Failure> {
        let (call, reply) = self.next_reply()?;
        let mut player = Player {
            sink,
            chunk_size: reply.chunk_size.and_then(|size| usize::try_from(size).ok()),
            open: None,
            blocks: 0,
        };
        let response_id = format!("scripted_{}", call + 1);
        player.sink.delta(Delta::Started { response_id: &response_id, model: &request.model });
        let mut stop = ScriptedStop::EndTurn;
        for step in &reply.steps {
            match step {
                ScriptedStep::Text { text } => {
                    let index = player.block(Kind::Text);
                    player.pieces(text, |text| Delta::Text { index, text }).await?;
                }
                ScriptedStep::Thinking { thinking, signature } => {
                    let index = player.block(Kind::Thinking);
                    player.pieces(thinking, |text| Delta::Thinking { index, text }).await?;
                    if let Some(signature) = signature {
                        player.sink.delta(Delta::Signature { index, signature });
                    }
                }
                ScriptedStep::ToolCall { tool_call } => {
                    stop = ScriptedStop::ToolUse;
                    self.call(tool_call, &mut player).await?;
                }
                ScriptedStep::Delay { delay_ms } => {
                    tokio::time::sleep(Duration::from_millis(*delay_ms)).await;
                }
                ScriptedStep::Gate { gate } => self.gates.pass(gate).await,
                ScriptedStep::Usage { usage } => player.sink.delta(Delta::Usage((*usage).into())),
                ScriptedStep::Stop { stop: given } => {
                    stop = *given;
                    break;
                }
                ScriptedStep::Fail { error } => return Err(failure(error)),
                ScriptedStep::Truncate { .. } => {
                    let message = "the script ends the connection before the reply";
                    return Err(Failure::new(FailureKind::Network, "stream_truncated", message));
                }
            }
            player.ready().await?;
        }
        player.close();
        let (stop, word) = stop.stop();
        Ok(Completion { stop, stop_raw: word.to_owned(), status: 200 })
    }

    async fn call(&self, call: &ScriptedCall, player: &mut Player<'_>) -> Result<(), Failure> {
        player.close();
        let index = player.index();
        let made = match &call.id {
            Some(id) => id.clone(),
            None => format!("call_{}", self.call_ids.fetch_add(1, Ordering::Relaxed) + 1),
        };
        let start = BlockStart::ToolCall { id: &made, name: &call.name };
        player.sink.delta(Delta::BlockStart { index, start });
        let json = match (&call.arguments_text, &call.arguments) {
            (Some(text), _) => text.as_str(),
            (None, Some(arguments)) => arguments.get(),
            (None, None) => "{}",
        };
        player.pieces(json, |json| Delta::Arguments { index, json }).await?;
        player.sink.delta(Delta::BlockStop { index });
        Ok(())
    }
}

impl Provider for ScriptedProvider {
    fn api(&self) -> Api {
        Api::Scripted
    }

    fn encode_messages(&self, messages: &[Message]) -> Bytes {
        let mut out = Vec::new();
        for message in messages {
            if !out.is_empty() {
                out.push(b',');
            }
            out.extend(serde_json::to_vec(message).unwrap_or_default());
        }
        out.into()
    }

    fn stream<'a>(
        &'a self,
        request: &'a ModelRequest,
        credential: Option<&'a Credential>,
        sink: &'a mut dyn DeltaSink,
    ) -> Attempted<'a> {
        self.record.add(request, credential.map(|credential| credential.profile_id.as_str()));
        Box::pin(self.play(request, sink))
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thinking,
}

/// The position in a reply: which block is open, and how many there were.
struct Player<'a> {
    sink: &'a mut dyn DeltaSink,
    chunk_size: Option<usize>,
    open: Option<(Kind, u32)>,
    blocks: u32,
}

impl Player<'_> {
    fn index(&mut self) -> u32 {
        let index = self.blocks;
        self.blocks += 1;
        index
    }

    /// The open block of this kind, or a new one.
    fn block(&mut self, kind: Kind) -> u32 {
        if let Some((open, index)) = self.open
            && open == kind
        {
            return index;
        }
        self.close();
        let index = self.index();
        let start = match kind {
            Kind::Text => BlockStart::Text,
            Kind::Thinking => BlockStart::Thinking,
        };
        self.sink.delta(Delta::BlockStart { index, start });
        self.open = Some((kind, index));
        index
    }

    fn close(&mut self) {
        if let Some((_, index)) = self.open.take() {
            self.sink.delta(Delta::BlockStop { index });
        }
    }

    async fn pieces<'t>(
        &mut self,
        text: &'t str,
        delta: impl Fn(&'t str) -> Delta<'t>,
    ) -> Result<(), Failure> {
        let mut rest = text;
        while !rest.is_empty() {
            let end = self.chunk_size.and_then(|size| rest.char_indices().nth(size));
            let (piece, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
            self.sink.delta(delta(piece));
            rest = after;
            self.ready().await?;
        }
        Ok(())
    }

    /// Waits for the reader, and regularly yields to the runtime: a script has no socket at which it would yield, and an abort
    /// could not reach it.
    ///
    /// # Errors
    /// The sink's refusal.
    async fn ready(&mut self) -> Result<(), Failure> {
        tokio::task::consume_budget().await;
        poll_fn(|cx| self.sink.poll_ready(cx)).await;
        self.sink.refusal().map_or(Ok(()), Err)
    }
}

fn failure(error: &ScriptedError) -> Failure {
    let message = error.message.as_deref().unwrap_or("the script fails here");
    let mut failure = match error.status {
        Some(status) => http_failure(Api::Scripted, status, &|_| None, None, message.as_bytes(), 0),
        None => Failure::new(FailureKind::ServerError, "scripted_error", message),
    };
    if let Some(kind) = error.kind {
        failure.kind = kind;
    }
    if error.code.is_some() {
        failure.code.clone_from(&error.code);
    }
    if let Some(ms) = error.retry_after_ms {
        failure.retry_after = Some(Duration::from_millis(ms));
    }
    failure
}
