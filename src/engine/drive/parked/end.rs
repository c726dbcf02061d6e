//! The ends of a run whose turn is parked: it returns with its approvals, is aborted, has ended elsewhere, or the engine
//! closes.
//!
//! It must never end a turn that another process runs.

use crate::engine::active_run::ActiveRun;
use crate::engine::drive::closing::close_turn;
use crate::engine::drive::driver::Driver;
use crate::engine::drive::finish::{emit_result, ended};
use crate::engine::drive::outcome;
use crate::engine::events::RecordKind;
use crate::engine::state::{RunUsage, Steered};
use base::telemetry;
use model::{
    AgentPhase, AgentResult, Approval, EndedRun, EndedTurn, StopReason, StorageError,
    StorageErrorKind, StreamEvent,
};
use turn::machine::{Event, Interrupt, Machine, Outcome};

/// Delivers the result of a run that does not wait: the host resumes the turn after the decision.
pub(in crate::engine::drive) async fn return_parked(
    active: &ActiveRun,
    machine: Machine,
    usage: RunUsage,
    approvals: Vec<Approval>,
) {
    let run = &active.run;
    let undelivered = run.control.close().iter().map(Steered::text).collect();
    let ended = ended(active, &machine, usage, undelivered, Vec::new());
    let outcome = Outcome { stop_reason: StopReason::ToolUse, error: None };
    let mut result = outcome::result(&run.context, machine, outcome, ended);
    result.pending_approvals = approvals;
    active.queue.phase(AgentPhase::End, active.shared.clock.now_ms());
    emit_result(active, result);
}

/// Ends a parked turn as aborted, and delivers that.
pub(in crate::engine::drive) async fn end_parked(driver: &mut Driver) {
    let active = &driver.active;
    let shared = &active.shared;
    let Some(journal) = &shared.journal else { return };
    let abort = Event::Interrupted { cause: Interrupt::Abort, partial: None };
    match close_turn(shared, journal, &active.run.turn_id, abort).await {
        Ok(()) => deliver_end(driver).await,
        // Another process runs it, or has ended it.
        Err(error) if error.kind == StorageErrorKind::UnknownTurn => deliver_end(driver).await,
        Err(error) => reject_failed(driver, &error),
    }
}

/// Delivers the end of a turn that was parked here and has ended without this run: its other events, and its result.
pub(in crate::engine::drive) async fn deliver_end(driver: &mut Driver) {
    // The events are those of the file from here on, whichever process writes them.
    driver.active.queue.stop_storing();
    driver.registration = None;
    let active = &driver.active;
    let Some(store) = &active.shared.approvals else { return };
    active.run.control.close();
    match store.ended_turn(&active.run.turn_id, active.queue.last_seq()).await {
        Ok(EndedTurn { events, turn }) => {
            for event in &events {
                active.queue.relay(event);
            }
            let result =
                AgentResult::from(EndedRun { turn: *turn, compaction: None, in_thread: true });
            active.queue.phase(AgentPhase::End, active.shared.clock.now_ms());
            if events.is_empty() {
                // Events are not stored: the end is that of the result.
                active.queue.event(|seq| last_event(&result).numbered(seq));
            }
            telemetry::run_ended(&result.turn_id, result.stop_reason.as_str(), result.duration_ms);
            emit_result(active, result);
        }
        Err(error) => reject_failed(driver, &error),
    }
}

/// Rejects the result of a run whose engine closes while its turn is parked.
pub(in crate::engine::drive) fn reject_closed(driver: &Driver) {
    let message = format!(
        "the engine was closed while turn `{}` waits for an approval; the turn stays parked: resume it",
        driver.active.run.turn_id
    );
    reject(driver, "engine_closed", &message);
}

/// Rejects the result of a run that leaves its turn open, because its engine or its broker closes.
pub(in crate::engine::drive) fn reject_left(driver: &Driver) {
    let message = format!(
        "it was closed while turn `{}` waits for an agent; the turn is interrupted: resume it, or let its broker do so",
        driver.active.run.turn_id
    );
    reject(driver, "engine_closed", &message);
}

/// Rejects the result of a run whose turn cannot be followed. The turn is unchanged.
pub(in crate::engine::drive) fn reject_failed(driver: &Driver, error: &StorageError) {
    reject(driver, error.kind.code(), &error.message);
}

fn reject(driver: &Driver, code: &str, message: &str) {
    let why = serde_json::json!({ "code": code, "message": message });
    driver.active.queue.host(RecordKind::Unreadable, &why.to_string());
}

fn last_event(result: &AgentResult) -> StreamEvent {
    if let Some(error) = &result.error {
        return StreamEvent::error(error.message.clone(), false);
    }
    StreamEvent::StreamEnd {
        run_id: result.run_id.clone(),
        r#final: true,
        parked: None,
        message_id: None,
        stop_reason: Some(result.stop_reason),
        turn_id: Some(result.turn_id.clone()),
        usage: Some(result.usage),
        cost: result.cost,
        persisted: Some(result.persisted),
        seq: 0,
    }
}
