//! The last step of an import, after all turns: writes the rows of compactions, and makes the sessions visible. References
//! to lost turns are replaced and reported.
//!
//! It must never let a session point at a turn that is not in the ledger.

use crate::error::Stored;
use crate::record::SessionRecord;
use crate::report::Problems;
use crate::rows::Rows;
use model::{CompactionResult, SessionKey, SessionRow, TransferCode};

/// The persona of a session that has none.
pub(crate) const DEFAULT_PERSONA: &str = "default";

/// The agent of a session without one: the one that its label names, else its persona.
pub(crate) fn agent_of(label: &str, persona: &str) -> String {
    SessionKey::parse(label).agent_id.unwrap_or_else(|| persona.to_owned())
}

/// A session of an import, with its line if the file has one line for each session.
#[derive(Debug, Clone)]
pub(crate) struct Imported {
    pub(crate) line: Option<u64>,
    pub(crate) record: Box<SessionRecord>,
    /// The turn at which it pointed before.
    pub(crate) before: Option<String>,
    /// It is copied: what it points at may be copied later.
    pub(crate) is_copy: bool,
}

/// Writes the row of the compaction `id`.
pub(crate) async fn compaction(
    rows: &dyn Rows,
    (line, id): (Option<u64>, &str),
    mut result: CompactionResult,
    problems: &mut Problems,
) -> Stored<()> {
    for named in [&mut result.summarized_through_turn_id, &mut result.first_kept_turn_id] {
        if !rows.exists(named).await? {
            problems.add(
                line,
                TransferCode::LostReference,
                format!("compaction `{id}` names turn `{named}`, which is lost"),
            );
            // A turn is not its own ancestor: the context is bounded by the other reference, or not at all.
            id.clone_into(named);
        }
    }
    // In a reattached thread, the turn may be on another branch.
    let through = &mut result.summarized_through_turn_id;
    if through != id && !rows.is_above(id, through).await? {
        let message =
            format!("compaction `{id}` summarises turn `{through}`, which is no longer above it");
        problems.add(line, TransferCode::LostReference, message);
        id.clone_into(through);
    }
    rows.compaction(id, &result).await
}

/// Completes a session that the import has created, and makes it visible. Whether its newest turns are not there yet.
pub(crate) async fn session(
    rows: &dyn Rows,
    label: &str,
    imported: Option<&Imported>,
    problems: &mut Problems,
) -> Stored<bool> {
    let deepest = rows.deepest(label).await?;
    let Some(Imported { line, record, before, is_copy }) = imported else {
        problems.add(
            None,
            TransferCode::Rebuilt,
            format!("the record of session `{label}` is lost; it points at its deepest turn"),
        );
        let (turn, at) = deepest.map_or((None, 0), |(turn, at)| (Some(turn), at));
        rows.point(label, turn.as_deref(), at).await?;
        return Ok(false);
    };
    let session = &record.session;
    let there = rows.session(label).await?;
    let logged_before = there.map(|there| there.history).unwrap_or_default();
    let deepest = deepest.map(|(turn, _)| turn);
    let pointer = match is_copy {
        true => copied(rows, record).await?.or_else(|| before.clone()),
        false => pointer(rows, (*line, record), deepest, problems).await?,
    };
    let is_behind = *is_copy && pointer != session.thread_id;
    let mut parent_turn_id = session.parent_turn_id.clone();
    if let Some(lost) = &session.parent_turn_id
        && !*is_copy
        && !rows.exists(lost).await?
    {
        parent_turn_id = None;
        problems.add(
            *line,
            TransferCode::LostReference,
            format!("session `{label}` was spawned in `{lost}`, which is lost"),
        );
    }
    let agent_id = match session.agent_id.as_str() {
        // Without an agent in the file, the label or the persona decides.
        "" => agent_of(label, &session.persona_id),
        named => named.to_owned(),
    };
    let row = SessionRow { thread_id: pointer, parent_turn_id, agent_id, ..session.clone() };
    rows.write_session(&row).await?;
    // What was logged before stays where the log goes on from it: turns of a log may be deleted, or come later than the ones after them.
    let known = logged_before.len();
    let goes_on = record.history.get(..known).is_some_and(|start| *start == *logged_before);
    if !goes_on {
        rows.forget_log(label).await?;
    }
    let skipped = if goes_on { known } else { 0 };
    let mut logged = logged_before.last().filter(|_| goes_on).map(|moved| &moved.turn_id);
    for moved in record.history.iter().skip(skipped) {
        if rows.parent(&moved.turn_id).await?.is_some() {
            rows.log(label, &moved.turn_id, moved.changed_at).await?;
            logged = Some(&moved.turn_id);
        }
    }
    if let Some(turn) = &row.thread_id
        && logged != Some(turn)
    {
        rows.log(label, turn, session.updated_at).await?;
    }
    Ok(is_behind)
}

/// The newest turn of a session that is there already.
async fn copied(rows: &dyn Rows, record: &SessionRecord) -> Stored<Option<String>> {
    let logged = record.history.iter().rev().map(|moved| &moved.turn_id);
    for turn in record.session.thread_id.iter().chain(logged) {
        if rows.parent(turn).await?.is_some() {
            return Ok(Some(turn.clone()));
        }
    }
    Ok(None)
}

/// The turn that a session points at: its own, else the last one of its log or its deepest one.
async fn pointer(
    rows: &dyn Rows,
    (line, record): (Option<u64>, &SessionRecord),
    deepest: Option<String>,
    problems: &mut Problems,
) -> Stored<Option<String>> {
    let label = &record.session.label;
    let mut logged = record.history.iter().rev().map(|moved| &moved.turn_id);
    let mut pointer = record.session.thread_id.clone();
    if pointer.is_none()
        && let Some(turn) = logged.next()
    {
        let message = format!(
            "session `{label}` points at no turn, and its log at `{turn}`, which it points at now"
        );
        problems.add(line, TransferCode::LostReference, message);
        pointer = Some(turn.clone());
    }
    let Some(lost) = pointer else { return Ok(None) };
    if rows.parent(&lost).await?.is_some() {
        return Ok(Some(lost));
    }
    let mut found = deepest;
    while found.is_none()
        && let Some(turn) = logged.next()
    {
        found = rows.parent(turn).await?.is_some().then(|| turn.clone());
    }
    let to = found.as_deref().unwrap_or("no turn");
    problems.add(
        line,
        TransferCode::LostReference,
        format!("session `{label}` pointed at `{lost}`, which is lost; it points at `{to}`"),
    );
    Ok(found)
}
