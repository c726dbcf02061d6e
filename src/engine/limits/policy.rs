//! The policies of a run, applied to its context: what is smaller holds, and forbidden tools are not offered.
//!
//! It must never loosen a limit of the context.

use serde_json::value::RawValue;

use model::{AssembledContext, Failure, FailureKind, InputError, RunPolicy, ToolChoice, quoted};
use turn::permits::policy::Limits;

/// Adds the engine's policies to those of a context, and applies them all. `joins`: tools of servers come when the run begins.
///
/// # Errors
/// The tool choice needs a tool that they forbid.
pub(crate) fn apply(
    context: &mut AssembledContext,
    engine: &[RunPolicy],
    joins: bool,
) -> Result<(), InputError> {
    for policy in engine {
        // A resumed run has them already.
        if !context.policies.contains(policy) {
            context.policies.push(policy.clone());
        }
    }
    let limits = Limits::of(&context.policies);
    let least = |limit: Option<u32>, own: u32| limit.map_or(own, |most| most.min(own));
    context.max_iterations = least(limits.steps(), context.max_iterations);
    context.max_parallel_tools = least(limits.parallel(), context.max_parallel_tools);
    context.timeout_ms = limits.timeout_ms().unwrap_or(u64::MAX).min(context.timeout_ms);
    let allowed: Vec<bool> =
        context.tools.iter().map(|tool| limits.forbidding(&tool.name, None).is_none()).collect();
    let forbids_some = allowed.contains(&false);
    match &context.request.tool_choice {
        Some(ToolChoice::Tool { name })
            if limits.forbidding(name, None).is_some_and(|list| {
                // A list may allow a tool of a server by its own name, which is not known yet.
                let is_own = context.tools.iter().any(|tool| tool.name == *name);
                is_own || !joins || list == "deniedTools"
            }) =>
        {
            let message = format!("{} is forbidden by a policy", quoted(name));
            return Err(InputError::new("toolChoice.name", message));
        }
        Some(ToolChoice::Required) if forbids_some && !allowed.contains(&true) && !joins => {
            let message = "needs a tool, and the policies forbid all of them";
            return Err(InputError::new("toolChoice", message));
        }
        Some(
            ToolChoice::Auto | ToolChoice::None | ToolChoice::Required | ToolChoice::Tool { .. },
        )
        | None => {}
    }
    if !forbids_some {
        return Ok(());
    }
    // The text is the key of the compiled set, and what a resumed run has.
    let texts: Vec<Box<RawValue>> = serde_json::from_str(&context.tools_json).unwrap_or_default();
    let texts: Vec<_> = texts.into_iter().zip(&allowed).filter(|(_, allowed)| **allowed).collect();
    let texts: Vec<&RawValue> = texts.iter().map(|(text, _)| text.as_ref()).collect();
    context.tools_json = serde_json::to_string(&texts).unwrap_or_default();
    let mut allowed = allowed.into_iter();
    context.tools.retain(|_| allowed.next().unwrap_or_default());
    Ok(())
}

/// Why a call of a tool may not run: the model reads it. `own` is its other name, where it has one, and `nth` its number among the
/// run's calls, from 0.
pub(crate) fn refusal(
    policies: &[RunPolicy],
    tool: &str,
    own: Option<&str>,
    nth: usize,
) -> Option<String> {
    let limits = Limits::of(policies);
    if let Some(list) = limits.forbidding(tool, own) {
        return Some(format!("Tool {tool} is not allowed (policy `{list}`)"));
    }
    let most = limits.tool_calls()?;
    let is_over = u32::try_from(nth).map_or(true, |nth| nth >= most);
    is_over.then(|| {
        format!(
            "This tool was not run: the run has made the {most} tool calls that it may make (policy `maxToolCalls`). \
             Answer with what you have."
        )
    })
}

/// The failure of a run that has used `tokens`, if that is all it may use.
pub(crate) fn spent(policies: &[RunPolicy], tokens: u64) -> Option<Failure> {
    let most = Limits::of(policies).tokens().filter(|most| tokens >= *most)?;
    let message = format!("the run has used {tokens} of the {most} tokens that its policy allows");
    Some(Failure::new(FailureKind::PolicyMaxTokens, "policy_max_tokens", message))
}

/// The most characters of a tool's result under the policies, of `most`.
pub(crate) fn result_chars(policies: &[RunPolicy], most: usize) -> usize {
    let limit = Limits::of(policies).result_chars();
    limit.and_then(|chars| usize::try_from(chars).ok()).map_or(most, |chars| chars.min(most))
}
