//! The steps of a copy, over the rows of one ledger. Turns and sessions are lines of the engine's JSONL, so a step of one backend
//! fits the other.
//!
//! A copy has no state of its own: what the target has is what was copied. It must never move a session that was used there.

use crate::error::Stored;
use crate::own::{LineOut, Read, read};
use crate::report::Problems;
use crate::restore::Restore;
use crate::rows::Rows;
use model::{CopyAnswer, CopyStep, StorageError, StorageErrorKind, TransferCode};

/// Turns of a page.
const PAGE: i64 = 256;
/// Bytes of lines after which no further turn of a page is read.
const PAGE_BYTES: usize = 16 << 20;

/// What a copy does not have, by kind.
const LEFT: [(&str, &str); 8] = [
    // Where a copy ends that turns overtake.
    ("until", "select coalesce(max(n), 0) as count from @turns"),
    ("openTurns", ""),
    ("queueItems", "select count(*) from @queue_items where status in ('pending', 'processing')"),
    ("deliveries", "select count(*) from @deliveries where status <> 'delivered'"),
    ("schedules", "select count(*) from @schedules"),
    ("dispatches", "select count(*) from @dispatches where status = 'active'"),
    ("facts", "select count(*) from @memory_facts"),
    ("budgets", "select count(*) from @budget_accounts"),
];

/// Whether a step writes.
#[must_use]
pub fn writes(step: &CopyStep) -> bool {
    matches!(
        step,
        CopyStep::Write(_)
            | CopyStep::Fence { .. }
            | CopyStep::Release(_)
            | CopyStep::Finish(_)
            | CopyStep::Mark(_)
            | CopyStep::WriteRows(..)
    )
}

/// Does a step in the transaction of `rows`.
///
/// # Errors
/// Those of storage.
pub async fn perform(rows: &dyn Rows, step: &CopyStep) -> Stored<CopyAnswer> {
    let mut answer = CopyAnswer::default();
    match step {
        CopyStep::Ids { after } => {
            (answer.list, answer.last) = rows.turns_after(*after, PAGE).await?;
        }
        CopyStep::Missing(turns) => answer.list = rows.missing(turns).await?,
        CopyStep::Labels => answer.list = rows.labels().await?,
        CopyStep::Turns(turns) => {
            let mut problems = Problems::default();
            let mut bytes = 0;
            for id in turns {
                if bytes > PAGE_BYTES {
                    break;
                }
                answer.last += 1;
                match turn(rows, id).await {
                    Ok(line) => {
                        bytes += line.len();
                        answer.list.push(line);
                    }
                    Err(error) if error.kind == StorageErrorKind::Corrupt => {
                        let message = format!("turn `{id}` is not copied: {}", error.message);
                        problems.add(None, TransferCode::Unreadable, message);
                    }
                    // It was deleted meanwhile.
                    Err(error) if error.kind == StorageErrorKind::UnknownTurn => {}
                    Err(error) => return Err(error),
                }
            }
            answer.problems = problems.list;
        }
        CopyStep::Sessions(labels) => {
            for label in labels {
                if let Some(record) = rows.session(label).await? {
                    answer.list.push(line(&LineOut::Session(&record))?);
                }
            }
        }
        CopyStep::Write(lines) => {
            let mut restore = Restore::default();
            restore.is_copy = true;
            for line in lines {
                if let Read::Record(record) = read(line)? {
                    restore.take(rows, None, &record).await?;
                }
            }
            restore.finish(rows).await?;
            answer.turns = restore.turns;
            answer.behind = restore.behind;
            answer.problems = restore.problems.list;
        }
        CopyStep::Left => {
            for (name, statement) in LEFT {
                let count = match statement {
                    "" => rows.open_turns(None).await?,
                    statement => rows.count(statement).await?,
                };
                answer.counts.push((name.to_owned(), count));
            }
        }
        CopyStep::Fence { place, token } => rows.fence(place, token).await?,
        CopyStep::Release(token) => drop(rows.release(token).await?),
        CopyStep::Finish(token) => {
            if !rows.finish_move(token).await? {
                let why = "another call of `copyTo` has closed this ledger, or opened it again, since this one had closed it; \
                           wait until that call has ended, then cut over again";
                return Err(StorageError::new(StorageErrorKind::Locked, why));
            }
        }
        CopyStep::Identity => answer.list = rows.identity().await?,
        CopyStep::Mark(mark) => drop(rows.set_copy_mark(mark).await?),
        CopyStep::Rows(of, after) => answer.rows = rows.rows_after(*of, after).await?,
        CopyStep::MissingRows(of, list) => answer.rows = rows.missing_rows(*of, list).await?,
        CopyStep::WriteRows(of, list) => rows.write_rows(*of, list).await?,
    }
    Ok(answer)
}

async fn turn(rows: &dyn Rows, id: &str) -> Stored<String> {
    let mut turn = rows.turn(id).await?;
    turn.approvals = rows.approvals(id).await?;
    line(&LineOut::Turn(&turn))
}

fn line(of: &LineOut<'_>) -> Stored<String> {
    serde_json::to_string(of).map_err(|error| {
        StorageError::new(StorageErrorKind::Io, format!("a line has no JSON: {error}"))
    })
}
