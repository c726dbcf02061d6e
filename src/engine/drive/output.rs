//! Whether the last answer is the output that the run requested, and what the model reads where it is not.
//!
//! It must never change an answer: a value that does not fit is repaired by the model, or fails the run.

use crate::engine::active_run::ActiveRun;
use model::{
    AgentError, AssembledContext, Block, ErrorDetail, FailureKind, InputError, Message,
    ResponseFormat, Role, StopReason,
};
use tools::{ResultSchema, ToolHost};
use turn::machine::{Event, Machine, Step};

/// The output that a run requests.
pub(crate) struct OutputCheck {
    schema: ResultSchema,
    /// How often the model repairs an answer.
    retries: u32,
}

/// The repairs where a context names none.
const RETRIES: u32 = 1;
/// The first words of a request for a repair. Repairs are counted by them, so that a resumed turn knows those from before.
const REPAIR: &str = "Your answer does not fit the JSON Schema of the output:";

impl OutputCheck {
    /// The check of a context; `None` where it requests no output.
    ///
    /// # Errors
    /// The schema cannot be used.
    pub(crate) fn of(context: &AssembledContext) -> Result<Option<Box<Self>>, InputError> {
        let Some(ResponseFormat::JsonSchema { schema, .. }) = &context.request.response_format
        else {
            return Ok(None);
        };
        let schema = ResultSchema::compile(schema.get())
            .map_err(|why| InputError::new("responseFormat.schema", why))?;
        let retries = context.request.output_retries.unwrap_or(RETRIES);
        Ok(Some(Box::new(Self { schema, retries })))
    }
}

/// What follows from an answer that would end the turn.
pub(super) enum Settled {
    /// The model repairs it.
    Continues(Step),
    /// The turn ends, unless a message was sent to it meanwhile. The event is that it has no output though one was requested.
    Ends(Option<Box<Event>>),
}

/// Judges the last answer, and requests its repair where it is not the output.
pub(super) async fn settle(
    active: &ActiveRun,
    check: Option<&OutputCheck>,
    host: &dyn ToolHost,
    machine: &mut Machine,
) -> Settled {
    let Some(check) = check else { return Settled::Ends(None) };
    let text = last_answer(machine);
    let json = unfenced(&text);
    let problems = match check.schema.mismatch(json) {
        Some(problems) => problems,
        None => match active.guard(host.output_problems(json.to_owned())).await {
            Ok(None) => return Settled::Ends(None),
            Ok(Some(problems)) => problems,
            Err(cause) => return Settled::Ends(Some(Box::new(Event::OutputUnchecked(cause)))),
        },
    };
    // One that was cut off would be cut off again.
    let is_cut = machine.outcome().is_some_and(|it| it.stop_reason == StopReason::MaxTokens);
    if !is_cut && repairs(machine) < check.retries {
        let request = format!("{REPAIR}{problems}\nAnswer again with the whole JSON alone.");
        match active.feed(machine, Event::Steered(vec![vec![Block::text(request)]])) {
            // The limit of iterations is reached.
            Step::Done => {}
            next => return Settled::Continues(next),
        }
    }
    Settled::Ends(Some(Box::new(Event::OutputInvalid(invalid(&problems, is_cut)))))
}

fn last_answer(machine: &Machine) -> String {
    let answer = machine.messages().iter().rfind(|message| message.role == Role::Assistant);
    answer.map(Message::content).unwrap_or_default()
}

/// The text within a Markdown code fence around all of it: models without structured output write one. `lib/run/output.ts` reads it alike.
fn unfenced(text: &str) -> &str {
    let all = text.trim_matches([' ', '\t', '\r', '\n']);
    let fenced = all.strip_prefix("```").and_then(|rest| rest.strip_suffix("```"));
    let Some((language, json)) = fenced.and_then(|inner| inner.split_once('\n')) else {
        return all;
    };
    let language = language.trim_end_matches([' ', '\t', '\r']);
    if matches!(language, "" | "json" | "JSON") { json } else { all }
}

fn repairs(machine: &Machine) -> u32 {
    let requests = machine.messages().iter().filter(|message| {
        message.role == Role::User
            && message
                .blocks
                .first()
                .and_then(Block::as_text)
                .is_some_and(|it| it.starts_with(REPAIR))
    });
    u32::try_from(requests.count()).unwrap_or(u32::MAX)
}

fn invalid(problems: &str, is_cut: bool) -> AgentError {
    let kind = FailureKind::OutputInvalid;
    let cut = if is_cut { "\n  - root: was cut off; raise `maxResponseTokens`" } else { "" };
    AgentError {
        kind: kind.agent_kind(),
        message: format!("the answer does not fit the JSON Schema of the output:{problems}{cut}"),
        retryable: kind.is_retryable(),
        detail: ErrorDetail {
            kind,
            status: None,
            code: Some(kind.as_str().to_owned()),
            retry_after_ms: None,
            retry_after_source: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::unfenced;

    #[test]
    fn a_code_fence_around_the_whole_answer_is_no_part_of_the_output() {
        for (text, json) in [
            ("{\"a\":1}", "{\"a\":1}"),
            (" \n{\"a\":1}\n", "{\"a\":1}"),
            ("```json\n{\"a\":1}\n```", "{\"a\":1}\n"),
            ("```\n[1]\n```\n", "[1]\n"),
            ("\"```\"", "\"```\""),
            ("```yaml\na: 1\n```", "```yaml\na: 1\n```"),
            ("Here:\n```json\n{}\n```", "Here:\n```json\n{}\n```"),
            ("```", "```"),
            ("``````", "``````"),
        ] {
            assert_eq!(unfenced(text), json, "{text}");
        }
    }
}
