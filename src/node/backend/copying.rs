//! A copy of the ledger to another one: each request of JavaScript is one part of it, and opens the other ledger for it.
//!
//! It has no state between parts: what the other ledger has is what was copied.

use serde::{Deserialize, Serialize};

use super::{open, table_rows};
use crate::node::options::LedgerFields;
use crate::node::reply::{Answer, json};
use base::clock::Clock;
use base::config::Environment;
use base::error::EngineError;
use model::{
    CopyAnswer, CopyStep, InputError, LedgerCopy, LedgerPorts, Limit, PageOptions, StorageError,
    StorageErrorKind, TransferCode, TransferProblem,
};

/// Pages of a part, so that progress is reported and an abort is noticed.
const PAGES: usize = 4;
/// Sessions of one transaction.
const SESSIONS: usize = 128;

#[derive(Deserialize)]
pub(crate) struct CopyPart {
    to: LedgerFields,
    phase: Phase,
    #[serde(default)]
    after: i64,
    /// The number of the last turn that is copied; null for all, where no new ones come.
    #[serde(default)]
    until: Option<i64>,
    /// The ledger takes nothing new any more.
    #[serde(default)]
    moved: bool,
    /// The id of the call of `copyTo` that the part belongs to: a ledger stores which one has closed it.
    token: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Phase {
    /// Refuses a target that is the ledger itself.
    Distinct,
    /// Copies what was forgotten and which events are known, and the suspended queues of a ledger that moves.
    Notes,
    /// Copies turns.
    Turns,
    /// Copies sessions, names, and the schedules of a ledger that moves.
    Sessions,
    /// Compares what was copied.
    Compare,
    /// Refuses new turns.
    Fence,
    /// Allows them again, unless the ledger was moved for good.
    Release,
    /// The ledger was moved for good.
    Finish,
    /// Counts what is not copied.
    Left,
}

/// What a part did.
#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct PartDone {
    #[serde(flatten)]
    done: LedgerCopy,
    /// Where the next part goes on; null after the last.
    next: Option<i64>,
}

/// Checks the options of the other ledger.
pub(crate) fn check(part: &CopyPart) -> Result<(), EngineError> {
    open::check(&part.to, &Environment::process()).map_err(EngineError::option)
}

/// Does one part.
pub(crate) async fn part(from: LedgerPorts, part: CopyPart) -> Answer {
    let place = place(&part.to);
    let CopyPart { to, phase, after, until, moved, token } = part;
    let range = (after, until.unwrap_or(i64::MAX));
    let step = match phase {
        Phase::Fence => Some(CopyStep::Fence { place, token: token.clone() }),
        Phase::Release => Some(CopyStep::Release(token.clone())),
        Phase::Finish => Some(CopyStep::Finish(token.clone())),
        Phase::Left => Some(CopyStep::Left),
        Phase::Distinct | Phase::Notes | Phase::Turns | Phase::Sessions | Phase::Compare => None,
    };
    if let Some(step) = step {
        let answer = from.admin.copy_step(step).await?;
        let done =
            LedgerCopy { left: answer.counts.into_iter().collect(), ..LedgerCopy::default() };
        return json(&PartDone { done, next: None });
    }
    // Opening waits for a disk or a server.
    let open = move || open::open(to, &Environment::process(), &Clock::default(), None);
    let opened = tokio::task::spawn_blocking(open).await;
    let to =
        opened.map_err(|_| StorageError::new(StorageErrorKind::Closed, "the engine closes"))??;
    let done = match phase {
        Phase::Distinct if is_same_ledger(&from, &to, token).await? => {
            to.admin.close().await?;
            let why = "is this ledger itself; pass another one";
            return Err(EngineError::option(InputError::new("target", why)));
        }
        Phase::Distinct => Ok(PartDone::default()),
        Phase::Notes => table_rows::copy(&from, &to, moved).await.map(|()| PartDone::default()),
        Phase::Turns => turns(&from, &to, range).await,
        Phase::Compare => compare(&from, &to, range, moved).await,
        Phase::Sessions | Phase::Fence | Phase::Release | Phase::Finish | Phase::Left => {
            sessions(&from, &to, moved).await
        }
    };
    to.admin.close().await?;
    json(&done?)
}

/// Whether both are one ledger: a backup has the same id, but not what is written now.
async fn is_same_ledger(
    from: &LedgerPorts,
    to: &LedgerPorts,
    mark: String,
) -> Result<bool, StorageError> {
    let here = from.admin.copy_step(CopyStep::Identity).await?.list;
    let there = to.admin.copy_step(CopyStep::Identity).await?.list;
    if here.first() != there.first() {
        return Ok(false);
    }
    from.admin.copy_step(CopyStep::Mark(mark.clone())).await?;
    let there = to.admin.copy_step(CopyStep::Identity).await?.list;
    Ok(there.get(1) == Some(&mark))
}

/// The other ledger in words, without a password.
fn place(to: &LedgerFields) -> String {
    match (&to.url, &to.path) {
        (Some(url), _) => {
            // Cut as the URL is read: a password among the parameters may have an `@`.
            let end = url.find(['#', '?']).unwrap_or(url.len());
            let host = url.get(..end).unwrap_or_default().rsplit('@').next().unwrap_or_default();
            let host = host.split("://").last().unwrap_or_default();
            let schema = to.schema.as_deref().unwrap_or("agent");
            format!("the schema `{schema}` of `{host}`")
        }
        (None, path) => format!("`{}`", path.as_deref().unwrap_or_default()),
    }
}

async fn turns(
    from: &LedgerPorts,
    to: &LedgerPorts,
    (mut after, until): (i64, i64),
) -> Result<PartDone, StorageError> {
    let mut part = PartDone::default();
    for _ in 0..PAGES {
        let page = from.admin.copy_step(CopyStep::Ids { after }).await?;
        if page.list.is_empty() || after >= until {
            return Ok(part);
        }
        after = page.last;
        let all = page.list.len();
        let missing = to.admin.copy_step(CopyStep::Missing(page.list)).await?.list;
        part.done.skipped_turns += (all - missing.len()) as u64;
        let mut missing = missing.as_slice();
        while !missing.is_empty() {
            let read = from.admin.copy_step(CopyStep::Turns(missing.to_vec())).await?;
            missing = missing.get(many(&read)..).unwrap_or_default();
            part.done.problems.extend(read.problems);
            let written = to.admin.copy_step(CopyStep::Write(read.list)).await?;
            part.done.turns += written.turns;
            part.done.problems.extend(written.problems);
        }
    }
    part.next = (after < until).then_some(after);
    Ok(part)
}

async fn sessions(
    from: &LedgerPorts,
    to: &LedgerPorts,
    moved: bool,
) -> Result<PartDone, StorageError> {
    let mut part = PartDone::default();
    let labels = from.admin.copy_step(CopyStep::Labels).await?.list;
    for labels in labels.chunks(SESSIONS) {
        let read = from.admin.copy_step(CopyStep::Sessions(labels.to_vec())).await?;
        let written = to.admin.copy_step(CopyStep::Write(read.list)).await?;
        let CopyAnswer { behind, problems, .. } = written;
        let left = behind + problems.len() as u64;
        part.done.sessions += (labels.len() as u64).saturating_sub(left);
        part.done.behind += behind;
        part.done.problems.extend(problems);
    }
    let mut page = PageOptions { after: None, limit: Limit::default() };
    loop {
        let personas = from.read.personas(page.clone()).await?;
        for persona in personas.items {
            to.admin.put_persona(persona.id, Some(persona.main_session_label)).await?;
        }
        page.after = personas.next;
        if page.after.is_none() {
            break;
        }
    }
    loop {
        let aliases = from.read.aliases(None, page.clone()).await?;
        for alias in aliases.items {
            to.admin.set_alias(alias.alias, alias.session_label).await?;
        }
        page.after = aliases.next;
        if page.after.is_none() {
            break;
        }
    }
    if moved {
        for schedule in from.schedules.schedules().await? {
            to.schedules.put(schedule.id, schedule.spec, schedule.item, schedule.next_at).await?;
        }
    }
    Ok(part)
}

/// Compares turns as both ledgers read them, and after the last turn the sessions of a ledger that moves.
async fn compare(
    from: &LedgerPorts,
    to: &LedgerPorts,
    (mut after, until): (i64, i64),
    moved: bool,
) -> Result<PartDone, StorageError> {
    let mut part = PartDone::default();
    let differs = |what: &str| TransferProblem {
        line: None,
        code: TransferCode::Differs,
        message: format!("{what} is not the same in the copy"),
    };
    for _ in 0..PAGES {
        let mut page = from.admin.copy_step(CopyStep::Ids { after }).await?;
        if page.list.is_empty() {
            if moved {
                let labels = from.admin.copy_step(CopyStep::Labels).await?.list;
                for label in labels {
                    if !is_same(from, to, CopyStep::Sessions(vec![label.clone()])).await? {
                        part.done.problems.push(differs(&format!("session `{label}`")));
                    }
                }
                for table in table_rows::differing(from, to).await? {
                    part.done.problems.push(differs(&format!("a row of `{table}`")));
                }
            }
            return Ok(part);
        }
        after = page.last;
        if !moved {
            // What has ended since is copied by the next call.
            let missing = to.admin.copy_step(CopyStep::Missing(page.list.clone())).await?.list;
            page.list.retain(|id| !missing.contains(id));
        }
        part.done.compared_turns += page.list.len() as u64;
        let mut rest = page.list.as_slice();
        while !rest.is_empty() {
            let here = from.admin.copy_step(CopyStep::Turns(rest.to_vec())).await?;
            let (read, others) = rest.split_at_checked(many(&here)).unwrap_or((rest, &[]));
            let there = to.admin.copy_step(CopyStep::Turns(read.to_vec())).await?;
            let is_same_page = here.list == there.list;
            drop((here, there));
            for id in if is_same_page { &[] } else { read } {
                if !is_same(from, to, CopyStep::Turns(vec![id.clone()])).await? {
                    part.done.problems.push(differs(&format!("turn `{id}`")));
                }
            }
            rest = others;
        }
    }
    part.next = (after < until).then_some(after);
    Ok(part)
}

/// How many of the turns were read.
fn many(read: &CopyAnswer) -> usize {
    usize::try_from(read.last).unwrap_or(usize::MAX)
}

async fn is_same(
    from: &LedgerPorts,
    to: &LedgerPorts,
    step: CopyStep,
) -> Result<bool, StorageError> {
    let here = from.admin.copy_step(step.clone()).await?;
    let there = to.admin.copy_step(step).await?;
    Ok(here.list == there.list)
}
