//! The pointer of a session: compared and set with its lease in one row, and the errors of a refused write.
//!
//! A pointer must never move without its row in `session_moves`.

use tokio_postgres::Error;

use model::{SessionKey, StorageError, StorageErrorKind};

/// The persona and the agent that a label names.
pub(crate) struct Identity {
    pub(crate) persona: Option<String>,
    pub(crate) agent: Option<String>,
}

impl Identity {
    /// The agent is that of the label, else it is resolved like the persona.
    pub(crate) fn of(label: &str) -> Self {
        let key = SessionKey::parse(label);
        Self { agent: key.agent_id.or_else(|| key.persona_id.clone()), persona: key.persona_id }
    }
}

/// The pointer of the session `$1` moves to `$2`, or stays where that is null, if its head is `$3` still and, with the epoch
/// `$4`, the turn `$6` of the process `$5` runs in it. `$7` is the time, `$8` the parent, `$9` and `$10` the persona and
/// the agent of a label, `$11` whether the turn under way ends with it.
pub(crate) const POINTER: &str =
    "parent as (select depth, thread_tokens, session_label from @turns where id = $8 and status <> 'streaming'),
     follows as (select s.persona_id, s.agent_id from parent join @sessions s on s.label = parent.session_label),
     main as (select id from @personas where main_session_label = $1),
     pointed as (
       insert into @sessions as s (label, head, persona_id, agent_id, created_at, updated_at, opening)
       select $1, $2, coalesce((select id from main), $9, (select persona_id from follows), 'default'),
         coalesce($10, (select id from main), (select agent_id from follows), 'default'), $7, $7, false
       where ($8::text is null or exists (select from parent))
         and (($3::text is null and $4::bigint is null) or exists (select from @sessions where label = $1))
       on conflict (label) do update set head = coalesce($2, s.head), opening = false,
         updated_at = case when $2::text is null then s.updated_at else $7 end,
         status = case when $2::text is null then s.status else 'active' end,
         running = case when $11 then null else s.running end
       where s.head is not distinct from $3
         and ($4::bigint is null or (s.epoch = $4 and s.owner = $5 and s.running = $6))
       returning s.head),
     moved as (
       insert into @session_moves (session_label, thread_id, changed_at)
       select $1, $2, $7 from pointed where $2::text is not null)";

/// The number of parameters of [`POINTER`].
pub(crate) const POINTER_PARAMS: usize = 11;

/// Whether a row with the key of `constraint` exists already.
pub(crate) fn is_taken(error: &Error, constraint: &str) -> bool {
    error.as_db_error().is_some_and(|error| error.constraint() == Some(constraint))
}

/// The error for a turn whose id is used.
pub(crate) fn already_stored(turn_id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::Constraint,
        format!("turn `{turn_id}` is in the ledger already; use a new id for each turn"),
    )
}

/// The error for a run whose id another one has.
pub(crate) fn duplicate_run(run_id: &str) -> StorageError {
    let why = "the ledger has a run with this id; pass a new one, or `onDuplicateRun: 'attach'` for the result of that run";
    StorageError::new(StorageErrorKind::DuplicateRun, format!("`{run_id}`: {why}")).at("runId")
}

/// The error for a turn that does not exist or has not ended.
pub(crate) fn unknown_turn(id: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownTurn,
        format!("the ledger has no turn `{id}`; pass the id of a turn that has ended"),
    )
}

/// The error for a name that is neither a session nor a turn.
pub(crate) fn unknown_session(label: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::UnknownSession,
        format!("`{label}` is neither a session nor a turn of the ledger"),
    )
}

/// The error for a writer that no longer runs the session.
pub(crate) fn stale_writer(label: &str) -> StorageError {
    StorageError::new(
        StorageErrorKind::StaleWriter,
        format!(
            "another process has taken over session `{label}`, and this run's results are not written; read the session \
             again"
        ),
    )
}
