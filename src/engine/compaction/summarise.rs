//! Makes a summary: sends the requests, and checks the answers.
//!
//! It must never return a summary that failed the quality gate.

use super::summariser::{Summariser, Unanswered};
use model::{FailureKind, Message, Role};
use turn::compact::{
    Facts, Flaw, Judged, Part, Task, chunks, judge, merge_request, parts, request, retry_request,
};
use turn::estimate;
use turn::machine::Interrupt;

/// The input of a summary.
pub(super) struct Work<'a> {
    pub(super) messages: &'a [Message],
    /// The previous summary.
    pub(super) previous: Option<&'a str>,
    /// The user's messages that stay.
    pub(super) user_requests: &'a str,
    pub(super) instructions: Option<&'a str>,
}

/// Why there is no summary.
#[derive(Debug)]
pub(super) enum Unwritten {
    /// The run or the request has ended.
    Interrupted(Interrupt),
    Failed(String),
}

impl From<Unanswered> for Unwritten {
    fn from(why: Unanswered) -> Self {
        match why {
            Unanswered::Interrupted(cause) => Self::Interrupted(cause),
            Unanswered::Failed(failure) => Self::Failed(failure.message),
        }
    }
}

/// The summary, or why there is none. The usage of its calls counts in both cases: see [`Summariser::into_usage`].
pub(super) async fn summarise(
    summariser: &mut Summariser<'_>,
    work: &Work<'_>,
) -> Result<String, Unwritten> {
    match write(summariser, work).await {
        Err(Unwritten::Interrupted(Interrupt::Timeout))
            if summariser.by.shared.clock.instant() < summariser.deadline =>
        {
            let limit = summariser.compactor.options.timeout_ms;
            let why = format!("the summariser did not finish within `{limit}` ms");
            Err(Unwritten::Failed(why))
        }
        written => written,
    }
}

async fn write(summariser: &mut Summariser<'_>, work: &Work<'_>) -> Result<String, Unwritten> {
    let all = parts(work.messages);
    let previous = work.previous.map(estimate::text_tokens).unwrap_or_default();
    let input_tokens = all.iter().fold(previous, |sum, part| sum.saturating_add(part.tokens));
    let summarised: String = all
        .iter()
        .map(|part| part.text.as_str())
        .chain(work.previous)
        .collect::<Vec<_>>()
        .join("\n");
    let window = summariser.compactor.target.model.context_window;
    let chunks = chunks(all, summariser.ratio().undo(window).min(window));
    let of = chunks.len();
    let mut written = Vec::new();
    let mut request_text = String::new();
    for (at, chunk) in chunks.into_iter().enumerate() {
        let task = Task {
            previous: work.previous.filter(|_| at == 0),
            instructions: work.instructions,
            chunk: (at + 1, of),
        };
        let (request, text) = summarise_chunk(summariser, chunk, task).await?;
        request_text = request;
        written.push(text);
    }
    let mut text = match written.len() {
        0 | 1 => written.pop().unwrap_or_default(),
        _ => {
            request_text = merge_request(&written, work.instructions);
            summariser.complete(&request_text).await?
        }
    };
    let judged = |summary: &str| {
        judge(Judged {
            summary,
            input_tokens,
            summarised: &summarised,
            user_requests: work.user_requests,
            sections: summariser.compactor.options.preset.is_none(),
        })
    };
    let mut flaws = judged(&text);
    if !flaws.is_empty() {
        let again = retry_request(&request_text, &flaws);
        match summariser.complete(&again).await {
            Ok(better) if !judged(&better).iter().any(Flaw::is_fatal) => text = better,
            Err(Unanswered::Interrupted(cause)) => return Err(Unwritten::Interrupted(cause)),
            // The first attempt may still be accepted.
            Ok(_) | Err(Unanswered::Failed(_)) => {}
        }
        flaws = judged(&text);
    }
    if let Some(fatal) = flaws.iter().find(|flaw| flaw.is_fatal()) {
        return Err(Unwritten::Failed(format!("the summary was rejected: {fatal}")));
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
        // Checked again with the added identifiers.
        let flaw = Flaw::NotSmaller { summary: tokens, input: input_tokens };
        return Err(Unwritten::Failed(format!("the summary was rejected: {flaw}")));
    }
    Ok(whole)
}

/// Summarises one chunk; if it is too large for the summariser after all, its oldest part is left out.
async fn summarise_chunk(
    summariser: &mut Summariser<'_>,
    mut parts: Vec<Part>,
    task: Task<'_>,
) -> Result<(String, String), Unwritten> {
    loop {
        let request_text = request(&parts, task);
        match summariser.complete(&request_text).await {
            Ok(text) => return Ok((request_text, text)),
            Err(Unanswered::Failed(failure))
                if failure.kind == FailureKind::ContextOverflow && parts.len() > 1 =>
            {
                parts.remove(0);
            }
            Err(why) => return Err(why.into()),
        }
    }
}

/// The summary with the missing identifiers added, in its last section or in a new one.
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

/// What the users wrote, as one text.
pub(super) fn user_requests<'a>(messages: impl Iterator<Item = &'a Message>) -> String {
    let mut out = String::new();
    for block in messages.filter(|it| it.role == Role::User).flat_map(|message| &message.blocks) {
        if let Some(text) = block.own_text() {
            out.push_str(text);
            out.push('\n');
        }
    }
    out
}
