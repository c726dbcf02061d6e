//! The summariser: what it is asked, what is asked again, and whether its answer will do (RULES §3).
//!
//! It tells the run's reader nothing. It must never give back a text that is worse than what it stands for.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::Instant;

use super::super::Core;
use super::super::budgets::Payer;
use super::super::governor::Pass;
use super::Compactor;
use super::fit::MARGIN;
use super::options::Preset;
use crate::model::{
    Block, Delta, DeltaSink, Failure, FailureKind, Message, RateLimits, ReportedUsage, Role, Stop,
    TokenUsage,
};
use crate::provider::ModelRequest;
use crate::turn::calibration::Ratio;
use crate::turn::compact::{
    Facts, Flaw, Judged, Part, Task, chunks, instructions, judge, merge_request, parts, request,
    retry_request, share,
};
use crate::turn::fallback::{Choice, Plan};
use crate::turn::governor::Priority;
use crate::turn::{Accumulator, estimate, retry};

/// The most tokens of a summary.
const MOST_TOKENS: u64 = 16_000;

/// What is summarised.
pub(super) struct Work<'a> {
    pub(super) messages: &'a [Message],
    /// The summary of what came before them.
    pub(super) previous: Option<&'a str>,
    /// What the user says in what stays.
    pub(super) asks: &'a str,
    pub(super) instructions: Option<&'a str>,
}

/// A summary that will do, and what it cost.
#[derive(Debug, Default)]
pub(super) struct Summary {
    pub(super) text: String,
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
    /// US dollars; `None` where a price is unknown.
    pub(super) cost: Option<f64>,
}

/// Takes what the summariser says.
struct Quiet {
    said: Accumulator,
    pass: Pass,
}

impl DeltaSink for Quiet {
    fn answered(&mut self, status: u16, limits: &RateLimits) {
        self.pass.answered(status, limits);
    }

    fn delta(&mut self, delta: Delta<'_>) {
        self.said.apply(&delta);
    }

    fn withheld(&mut self, index: u32, bytes: usize) {
        self.said.withheld(index, bytes);
    }

    fn refusal(&self) -> Option<Failure> {
        self.said.refusal()
    }

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Ready(())
    }
}

/// One compaction's conversation with its summariser.
pub(super) struct Summariser<'a> {
    pub(super) compactor: &'a Compactor,
    core: &'a Core,
    payer: Payer<'a>,
    pub(super) deadline: Instant,
    /// The profile in use.
    profile: Option<String>,
    spent: Summary,
}

impl<'a> Summariser<'a> {
    pub(super) fn new(compactor: &'a Compactor, core: &'a Core, payer: Payer<'a>) -> Self {
        let limit = Duration::from_millis(compactor.options.timeout_ms);
        let spent = Summary { cost: Some(0.0), ..Summary::default() };
        let deadline = core.clock.instant() + limit;
        Self { compactor, core, payer, deadline, profile: None, spent }
    }

    /// The summary, or why there is none. What it cost counts in both cases: see [`Summariser::spent`].
    pub(super) async fn run(&mut self, work: &Work<'_>) -> Result<String, String> {
        let deadline = self.deadline;
        match tokio::time::timeout_at(deadline, self.write(work)).await {
            Ok(written) => written,
            Err(_) => {
                let limit = self.compactor.options.timeout_ms;
                Err(format!("the summariser did not finish within `{limit}` ms"))
            }
        }
    }

    /// What the calls have cost so far.
    pub(super) fn spent(self) -> Summary {
        self.spent
    }

    async fn write(&mut self, work: &Work<'_>) -> Result<String, String> {
        let all = parts(work.messages);
        let previous = work.previous.map(estimate::text_tokens).unwrap_or_default();
        let input_tokens = all.iter().fold(previous, |sum, part| sum.saturating_add(part.tokens));
        let summarised: String = all
            .iter()
            .map(|part| part.text.as_str())
            .chain(work.previous)
            .collect::<Vec<_>>()
            .join("\n");
        let window = self.compactor.model.context_window;
        let chunks = chunks(all, self.ratio().undo(window).min(window));
        let of = chunks.len();
        let mut written = Vec::new();
        let mut asked = String::new();
        for (at, chunk) in chunks.into_iter().enumerate() {
            let task = Task {
                previous: work.previous.filter(|_| at == 0),
                instructions: work.instructions,
                chunk: (at + 1, of),
            };
            let (request, text) = self.chunk(chunk, task).await?;
            asked = request;
            written.push(text);
        }
        let mut text = match written.len() {
            0 | 1 => written.pop().unwrap_or_default(),
            _ => {
                asked = merge_request(&written, work.instructions);
                self.ask(&asked).await.map_err(|failure| failure.message)?
            }
        };
        let judged = |summary: &str| {
            judge(Judged {
                summary,
                input_tokens,
                summarised: &summarised,
                asks: work.asks,
                sections: self.compactor.options.preset.is_none(),
            })
        };
        let mut flaws = judged(&text);
        if !flaws.is_empty() {
            let again = retry_request(&asked, &flaws);
            match self.ask(&again).await {
                Ok(better) if !judged(&better).iter().any(Flaw::is_fatal) => text = better,
                // What was there before may still do.
                Ok(_) | Err(_) => {}
            }
            flaws = judged(&text);
        }
        if let Some(fatal) = flaws.iter().find(|flaw| flaw.is_fatal()) {
            return Err(format!("the summary will not do: {fatal}"));
        }
        let missing: Vec<&str> = flaws
            .iter()
            .filter_map(|flaw| match flaw {
                Flaw::Identifier(text) => Some(text.as_str()),
                Flaw::Empty | Flaw::NotSmaller { .. } | Flaw::Section(_) => None,
            })
            .collect();
        let mut whole = with_identifiers(text.trim(), &missing);
        whole.push_str(&Facts::of(work.messages.iter()).sections());
        let tokens = estimate::text_tokens(&whole);
        if tokens >= input_tokens {
            // With what we have added.
            let flaw = Flaw::NotSmaller { summary: tokens, input: input_tokens };
            return Err(format!("the summary will not do: {flaw}"));
        }
        Ok(whole)
    }

    /// One chunk; where it is too large for the summariser after all, its oldest part is left out.
    async fn chunk(
        &mut self,
        mut parts: Vec<Part>,
        task: Task<'_>,
    ) -> Result<(String, String), String> {
        loop {
            let asked = request(&parts, task);
            match self.ask(&asked).await {
                Ok(text) => return Ok((asked, text)),
                Err(failure) if failure.kind == FailureKind::ContextOverflow && parts.len() > 1 => {
                    parts.remove(0);
                }
                Err(failure) => return Err(failure.message),
            }
        }
    }

    /// Asks, with whichever profile is free, and again where the failure is worth it.
    async fn ask(&mut self, text: &str) -> Result<String, Failure> {
        let keys = Arc::clone(&self.compactor.keys);
        let mut plan = Plan::new(vec![self.compactor.seat.clone()], self.profile.clone());
        loop {
            keys.look().await;
            match keys.choose(&plan, self.remaining(), &|_| false) {
                Choice::Use(profile) => {
                    if let Some(id) = profile.as_deref().filter(|_| profile != self.profile) {
                        keys.picked(id);
                    }
                    plan.using(profile.as_deref());
                    self.profile = profile;
                }
                Choice::Wait(wait) => {
                    tokio::time::sleep(wait.saturating_add(Duration::from_millis(1))).await;
                    plan.waited();
                    continue;
                }
                // One seat: there is no other.
                Choice::Switch { to, .. } => {
                    plan.switched(to);
                    continue;
                }
                Choice::Fail(failure) => return Err(failure),
            }
            let failure = match self.attempt(text).await {
                Ok(Some(answer)) => return Ok(answer),
                // Its profile was refused while it waited.
                Ok(None) => continue,
                Err(failure) => retry::judged(&failure).into_owned(),
            };
            let (remaining, dice) = (self.remaining(), self.core.clock.dice());
            let first = plan.is_first_failure();
            if let Some(wait) = plan.retry(&failure, false, remaining, dice) {
                tokio::time::sleep(wait).await;
                continue;
            }
            if let Some(id) = self.profile.clone() {
                if first && keys.renews(&id, failure.kind).await {
                    continue;
                }
                keys.failed(&id, &self.compactor.model_name, &failure).await;
                self.core.governor.dismiss(&id, &self.compactor.model_name, failure.kind);
            }
            keys.spent(&mut plan, &failure, false, remaining)?;
        }
    }

    /// How the summariser counts.
    fn ratio(&self) -> Ratio {
        let Compactor { provider_name, model_name, .. } = self.compactor;
        self.core.calibrations.of(provider_name, model_name)
    }

    fn remaining(&self) -> Duration {
        self.deadline.saturating_duration_since(self.core.clock.instant())
    }

    /// Asks once. `None`: the profile is to be chosen anew.
    async fn attempt(&mut self, text: &str) -> Result<Option<String>, Failure> {
        let compactor = self.compactor;
        let who = (&*compactor.provider_name, self.profile.as_deref(), &*compactor.model_name);
        let tokens = share(self.ratio().apply(estimate::text_tokens(text)), MARGIN);
        let waiting = self.core.governor.pass(who, Priority::Compaction, tokens);
        let Some(mut pass) = waiting.await else { return Ok(None) };
        let credential = match &self.profile {
            Some(id) => Some(compactor.keys.credential(id).await?),
            None => None,
        };
        let provider = compactor.provider.as_ref();
        let question = Message {
            id: self.core.clock.new_id(),
            role: Role::User,
            blocks: vec![Block::text(text)],
            sequence: 0,
            created_at: self.core.clock.now_ms(),
            provenance: None,
            provider_stop_reason: None,
        };
        let system = match compactor.options.preset {
            Some(Preset::Myclaw) => MYCLAW.to_owned(),
            None => instructions(),
        };
        let window = compactor.model.context_window;
        let request = ModelRequest {
            model: compactor.model_name.clone(),
            system,
            messages: vec![provider.encode_messages(std::slice::from_ref(&question))],
            open_end: true,
            max_tokens: share(window, 20)
                .min(MOST_TOKENS)
                .min(compactor.model.max_output_tokens)
                .max(1),
            reasoning_model: compactor.model.reasoning,
            ..ModelRequest::default()
        };
        let estimated =
            estimate::text_tokens(text).saturating_add(estimate::text_tokens(&request.system));
        let prompt = share(self.ratio().apply(estimated).max(estimated), MARGIN);
        let asked = (prompt, request.max_tokens);
        let payer = self.payer.clone();
        let held = self.core.budgets.hold(self.core, payer, &compactor.model, asked);
        let hold = held.await?;
        pass.sent();
        let mut quiet = Quiet { said: Accumulator::default(), pass };
        let answer = provider.stream(&request, credential.as_deref(), &mut quiet).await;
        let Quiet { said, pass } = quiet;
        let said = said.finish();
        if let Err(failure) = &answer {
            pass.failed(&retry::judged(failure), credential.is_some());
        }
        let told = said.usage.map(TokenUsage::from);
        let told = told.map(|it| (it.prompt_tokens(), it.output_tokens));
        pass.settle(told);
        if let (Some((reported, _)), Ok(_)) = (told, &answer) {
            let (provider, model) = (&compactor.provider_name, &compactor.model_name);
            self.core.calibrations.learn(provider, model, reported, estimated);
        }
        let usage = said.usage.unwrap_or_else(|| match &answer {
            Ok(_) => ReportedUsage {
                input: estimated,
                output: estimate::block_tokens(&said.blocks),
                ..ReportedUsage::default()
            },
            Err(_) => ReportedUsage::default(),
        });
        let cost = compactor.model.cost_of(&usage.into(), usage.cache_write_hour);
        let usage: TokenUsage = usage.into();
        hold.settle(usage.total_tokens, cost);
        self.spent.output_tokens = self.spent.output_tokens.saturating_add(usage.output_tokens);
        self.spent.input_tokens = self.spent.input_tokens.saturating_add(usage.prompt_tokens());
        self.spent.cost = self.spent.cost.zip(cost).map(|(sum, call)| sum + call);
        let completion = answer?;
        match completion.stop {
            Stop::EndTurn
            | Stop::StopSequence
            | Stop::ToolUse
            | Stop::MaxTokens
            | Stop::ContextFull
            | Stop::Pause
            | Stop::Other => {}
            Stop::Refusal | Stop::ContentFilter | Stop::MalformedToolCall | Stop::Error => {
                let message = format!("the summariser stopped with `{}`", completion.stop_raw);
                return Err(Failure::new(FailureKind::Refusal, "", message));
            }
        }
        Ok(Some(said.blocks.iter().filter_map(Block::as_text).collect()))
    }
}

/// The system prompt of the simple form.
const MYCLAW: &str = "Summarise the conversation you are given, so that it can go on from your summary alone. Keep what was \
                      decided, what is open, and every name, path and id. Write the summary and nothing else.";

/// The summary with the identifiers that it left out, in its last section or one of their own.
fn with_identifiers(summary: &str, missing: &[&str]) -> String {
    let mut out = summary.to_owned();
    if missing.is_empty() {
        return out;
    }
    const CRITICAL: &str = "Critical context";
    let last = summary.lines().rfind(|line| line.starts_with("## "));
    if last.is_none_or(|line| line.trim_start_matches(['#', ' ']).trim() != CRITICAL) {
        out.push_str("\n\n## ");
        out.push_str(CRITICAL);
    }
    for identifier in missing {
        out.push_str("\n- ");
        out.push_str(identifier);
    }
    out
}

/// Messages of the user as one text.
pub(super) fn asks<'a>(messages: impl Iterator<Item = &'a Message>) -> String {
    let mut out = String::new();
    for block in messages.filter(|it| it.role == Role::User).flat_map(|message| &message.blocks) {
        if let Block::Text { text, .. } = block {
            out.push_str(text);
            out.push('\n');
        }
    }
    out
}
