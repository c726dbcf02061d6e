//! Compacts a running turn: before a call that would not fit, and after one that did not.
//!
//! It must never drop a part of the history when a compaction fails.

use super::compactor::Compactor;
use super::errors::{overflow_error, warning};
use super::reproject::{read_input, rebuild};
use super::running::{compact_running, event_trigger};
use crate::engine::active_run::ActiveRun;
use crate::engine::context::{GaveUp, Session, token_budget};
use crate::engine::state::{RunUsage, Unfinished};
use model::{AgentError, AgentErrorKind, AgentPhase, CompactionPhase, RunWarning, StreamEvent};
use turn::compact::{GuardVerdict, Trigger, share};
use turn::machine::Machine;

pub(crate) use super::running::Compacted;

/// A tool result over this share of the window is truncated when nothing else helps.
const LARGE_RESULT: u64 = 30;

/// Compacts a context that would not fit. The error is the event that ends the run instead of a call.
pub(crate) async fn make_room(
    active: &ActiveRun,
    compactor: Option<&Compactor>,
    machine: &Machine,
    session: &mut Session,
    usage: &mut RunUsage,
) -> Result<(), Unfinished<Box<AgentError>>> {
    let run = &active.run;
    session.size.overhead(&run.context, run.tools());
    let budget = active.window_budget();
    let fits = session.size.needed(&session.conversation) <= budget.limit();
    if let Some(compactor) = compactor
        && !fits
        && session.size.gave_up == GaveUp::No
    {
        let trigger = Trigger::ContextLimit;
        // Boxed, as every rare part of a run: its state would otherwise be memory of each run, for as long as it lasts.
        match Box::pin(compact(active, compactor, machine, session, usage, trigger)).await {
            Ok(Compacted::Done) => {
                // A context that is still too large would not become smaller by a second compaction.
                if session.size.needed(&session.conversation) > budget.limit() {
                    session.size.gave_up = GaveUp::NothingLeft;
                }
            }
            Ok(Compacted::Nothing) => session.size.gave_up = GaveUp::NothingLeft,
            Err(Unfinished::Interrupted(cause)) => {
                return Err(Unfinished::Interrupted(cause));
            }
            Err(Unfinished::Failed(why)) => {
                let message = format!("the run continued without compaction: {why}");
                usage.notes.push(warning("compaction_failed", message));
                session.size.gave_up = GaveUp::Failed(why);
            }
        }
    }
    let used = session.size.estimate(&session.conversation);
    usage.budget = Some(token_budget(budget, used));
    guarded(active, session, usage, used).map_err(Unfinished::Failed)
}

/// Applies the context guard to a prompt of `used` tokens; it warns once per run.
fn guarded(
    active: &ActiveRun,
    session: &mut Session,
    usage: &mut RunUsage,
    used: u64,
) -> Result<(), Box<AgentError>> {
    let budget = active.window_budget();
    let window = budget.window;
    let warned: RunWarning = match active.shared.guard.rules().judge(budget, used) {
        GuardVerdict::Fine => return Ok(()),
        GuardVerdict::SmallWindow => warning(
            "context_small_window",
            format!("a window of `{window}` tokens is small; long turns will be compacted often"),
        ),
        GuardVerdict::NearLimit => warning(
            "context_near_limit",
            format!("the context has about `{used}` of `{window}` tokens"),
        ),
        GuardVerdict::WindowTooSmall | GuardVerdict::OverLimit => {
            return Err(Box::new(overflow_error(
                AgentErrorKind::ContextOverflow,
                "context_guard",
                format!(
                    "the context has about `{used}` tokens, and `contextGuard` allows no call with them; raise its limit, or send less"
                ),
            )));
        }
    };
    if !std::mem::replace(&mut session.size.warned, true) {
        usage.notes.push(warned);
    }
    Ok(())
}

/// Compacts after the provider has refused the size of the prompt (docs/rules/compaction.md#overflow-recovery).
pub(crate) async fn recover(
    active: &ActiveRun,
    compactor: Option<&Compactor>,
    machine: &Machine,
    session: &mut Session,
    usage: &mut RunUsage,
) -> Result<Compacted, Unfinished> {
    let Some(compactor) = compactor else { return Ok(Compacted::Nothing) };
    if let GaveUp::Failed(why) = &session.size.gave_up {
        return Err(Unfinished::Failed(why.clone()));
    }
    if session.size.recoveries < compactor.options.max_overflow_recoveries {
        session.size.recoveries += 1;
        let before = session.size.estimate(&session.conversation);
        let trigger = Trigger::Overflow;
        let compacted = compact(active, compactor, machine, session, usage, trigger).await?;
        if compacted == Compacted::Done && session.size.estimate(&session.conversation) < before {
            return Ok(Compacted::Done);
        }
    }
    let least = session.size.ratio.undo(share(active.window_budget().window, LARGE_RESULT));
    if session.size.truncate.is_some_and(|already| already <= least) {
        return Ok(Compacted::Nothing);
    }
    session.size.truncate = Some(least);
    let before = session.conversation.tokens();
    let mut input = read_input(active, session).await?;
    rebuild(&active.run, machine, session, &mut input).await;
    let is_smaller = session.conversation.tokens() < before;
    Ok(if is_smaller { Compacted::Done } else { Compacted::Nothing })
}

/// Compacts, and emits the phases; no steered message is accepted meanwhile.
async fn compact(
    active: &ActiveRun,
    compactor: &Compactor,
    machine: &Machine,
    session: &mut Session,
    usage: &mut RunUsage,
    trigger: Trigger,
) -> Result<Compacted, Unfinished> {
    let input = read_input(active, session).await?;
    let before = session.size.estimate(&session.conversation);
    let done = compact_running(active, compactor, machine, session, usage, trigger, input).await;
    if active.run.control.is_compacting() {
        active.run.control.set_compacting(false);
        active.queue.phase(AgentPhase::CompactionEnd, active.shared.clock.now_ms());
        let after = session.size.estimate(&session.conversation);
        active.queue.event(|seq| StreamEvent::Compaction {
            phase: CompactionPhase::End,
            trigger: event_trigger(trigger),
            tokens_before: before,
            tokens_after: Some(after),
            seq,
        });
    }
    done
}
