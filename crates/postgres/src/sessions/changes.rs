//! What a host sets on a session: creating one without a turn, and its metadata.
//!
//! It must never move a pointer.

use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::{Param, Server};
use crate::journal::pointer::{Identity, unknown_session};
use crate::reading::sessions::{IS_THERE, TAKE_FREE, session};
use model::{
    MetadataChange, SessionChange, SessionRow, StorageError, StorageErrorKind, names_no_session,
};

/// Creates a session without a turn.
///
/// # Errors
/// `storage_constraint` for a label that is taken, or that names no session; `ledger_moved`.
pub(crate) async fn create(
    server: &Server,
    label: &str,
    with: &SessionChange,
) -> Stored<SessionRow> {
    let refused = |why: &str| {
        let message = format!("session `{label}` {why}; pass another label");
        StorageError::new(StorageErrorKind::Constraint, message).at("label")
    };
    if names_no_session(label) {
        return Err(refused("would be a run in no session"));
    }
    let text = format!("insert into @sessions as s (label, persona_id, agent_id, created_at, updated_at, opening, metadata, metadata_values)
        select $1, coalesce(main.id, $2, 'default'), coalesce($3, main.id, 'default'), @now_ms(), @now_ms(), false, $4, $4::jsonb
        from (select where @is_open()) as one left join @personas main on main.main_session_label = $1
        where not exists (select from @session_aliases where alias = $1)
        {TAKE_FREE} returning 1");
    let identity = Identity::of(label);
    let metadata = text_of(&with.metadata);
    let params: [Param<'_>; 4] = [
        (&label, Type::TEXT),
        (&identity.persona, Type::TEXT),
        (&identity.agent, Type::TEXT),
        (&metadata, Type::TEXT),
    ];
    if server.once("create a session", &text, &params).await?.is_empty() {
        return Err(refused("exists already"));
    }
    session(server, label).await?.ok_or_else(|| unknown_session(label))
}

fn text_of(change: &MetadataChange) -> Option<&str> {
    match change {
        MetadataChange::Replace(metadata) => Some(metadata.as_str()),
        MetadataChange::None | MetadataChange::Remove => None,
    }
}

/// Sets what is given of the session.
///
/// # Errors
/// `unknown_session`; `ledger_moved`.
pub(crate) async fn update(
    server: &Server,
    label: &str,
    with: &SessionChange,
) -> Stored<SessionRow> {
    if names_no_session(label) {
        return Err(unknown_session(label));
    }
    if with.metadata != MetadataChange::None {
        let text = format!(
            "update @sessions set metadata = $2, metadata_values = $2::jsonb where label = $1 and {IS_THERE} and @is_open()"
        );
        let metadata = text_of(&with.metadata);
        let params: [Param<'_>; 2] = [(&label, Type::TEXT), (&metadata, Type::TEXT)];
        server.exec("write the metadata of a session", &text, &params).await?;
    }
    session(server, label).await?.ok_or_else(|| unknown_session(label))
}
