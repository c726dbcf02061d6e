//! Personas: an identity with a main session.
//!
//! A persona's main session is created on first use like any other, with that persona. It must never move a session.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};
use crate::journal::pointer::is_taken;
use crate::rows::turn_read::get;
use model::{Page, PageOptions, PersonaRow, StorageError, StorageErrorKind};

const COLUMNS: &str = "id, main_session_label, created_at, updated_at";

fn persona_row(row: &Row) -> Stored<PersonaRow> {
    Ok(PersonaRow {
        id: get(row, "id")?,
        main_session_label: get(row, "main_session_label")?,
        created_at: get(row, "created_at")?,
        updated_at: get(row, "updated_at")?,
    })
}

/// The persona of that id.
pub(crate) async fn find(server: &Server, id: &str) -> Stored<Option<PersonaRow>> {
    let text = format!("select {COLUMNS} from @personas where id = $1");
    let row = server.row("read a persona", &text, &[(&id, Type::TEXT)]).await?;
    row.as_ref().map(persona_row).transpose()
}

/// The personas, by id.
pub(crate) async fn list(server: &Server, page: &PageOptions) -> Stored<Page<PersonaRow>> {
    let text = format!("select {COLUMNS} from @personas where id > $1 order by id limit $2");
    let (after, limit) = (page.after.as_deref().unwrap_or_default(), page.limit.and_one());
    let params: [Param<'_>; 2] = [(&after, Type::TEXT), (&limit, Type::INT8)];
    let rows = server.rows("list the personas", &text, &params).await?;
    let found: Vec<PersonaRow> = rows.iter().map(persona_row).collect::<Stored<_>>()?;
    Ok(Page::cut(found.into_iter().map(|row| (row.id.clone(), row)).collect(), page.limit))
}

/// Creates the persona, or sets its main session. Without `main` an existing one stays, and a new persona gets the default.
///
/// # Errors
/// `storage_constraint` if another persona has that main session.
pub(crate) async fn put(server: &Server, id: &str, main: Option<&str>) -> Stored<PersonaRow> {
    let default = format!("agent:{id}:main");
    let sql = server.sql(&format!(
        "insert into @personas as p ({COLUMNS}) values ($1, coalesce($2, $3), @now_ms(), @now_ms())
         on conflict (id) do update set main_session_label = coalesce($2, p.main_session_label),
           updated_at = excluded.updated_at
         returning {COLUMNS}"
    ));
    let owner = server.sql("select id from @personas where main_session_label = $1");
    let params: [Param<'_>; 3] = [(&id, Type::TEXT), (&main, Type::TEXT), (&default, Type::TEXT)];
    let written = server.run_soon("write a persona", async |client, _| {
        match client.query_typed_one(&sql, &params).await {
            Err(error) if is_taken(&error, "personas_main_session_label_key") => {
                let main = main.unwrap_or(&default);
                let row = client.query_typed_one(&owner, &[(&main, Type::TEXT)]).await?;
                let other: &str = get(&row, "id")?;
                let message = format!(
                    "`{main}` is the main session of persona `{other}`; pass another label"
                );
                let error = StorageError::new(StorageErrorKind::Constraint, message);
                Err(Failure::Refused(error.at("mainSessionLabel")))
            }
            row => Ok(persona_row(&row?)?),
        }
    });
    written.await
}
