//! Aliases of sessions: following them, and refusing cycles.
//!
//! A session's label is its key and never changes. An alias may name a session that does not exist yet.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};
use crate::events::live::SessionHead;
use crate::queue::transaction::Transaction;
use crate::rows::turn_read::get;
use model::{AliasRow, Page, PageOptions, StorageError, StorageErrorKind};

/// The longest chain of aliases that is followed.
const MAX_CHAIN: i32 = 8;
const COLUMNS: &str = "alias, session_label, created_at, updated_at";

/// The chain of aliases that begins at `$1`, at most `$2` long.
const RESOLVE: &str = "with recursive chain as (
           select $1::text collate \"C\" as label, 0 as steps
           union all
           select a.session_label, steps + 1 from chain join @session_aliases a on a.alias = chain.label
           where steps <= $2 and not exists (select from @sessions where label = chain.label and status = 'active'))
         select label, steps from chain order by steps desc limit 1";

fn alias_row(row: &Row) -> Stored<AliasRow> {
    Ok(AliasRow {
        alias: get(row, "alias")?,
        session_label: get(row, "session_label")?,
        created_at: get(row, "created_at")?,
        updated_at: get(row, "updated_at")?,
    })
}

/// The label of the session that `label` names: the label itself, or the one to which an alias leads. An alias takes
/// precedence over an archived session.
///
/// # Errors
/// `storage_constraint` for a chain that is longer than this engine writes.
pub(crate) async fn resolve(server: &Server, label: &str) -> Stored<String> {
    let params: [Param<'_>; 2] = [(&label, Type::TEXT), (&MAX_CHAIN, Type::INT4)];
    let row = server.row("find a session", RESOLVE, &params).await?;
    resolved(label, row.as_ref())
}

/// Like [`resolve`], with the head of the session.
pub(crate) async fn resolve_with_head(
    server: &Server,
    label: &str,
) -> Stored<(String, SessionHead)> {
    let text = format!(
        "select c.label, c.steps, s.label is not null as is_there, s.head
         from ({RESOLVE}) c left join @sessions s on s.label = c.label"
    );
    let params: [Param<'_>; 2] = [(&label, Type::TEXT), (&MAX_CHAIN, Type::INT4)];
    let row = server.row("find a session", &text, &params).await?;
    let named = resolved(label, row.as_ref())?;
    let head = match row {
        Some(row) if get(&row, "is_there")? => Some(get(&row, "head")?),
        _ => None,
    };
    Ok((named, head))
}

/// What [`RESOLVE`] finds for a label.
fn resolved(label: &str, row: Option<&Row>) -> Stored<String> {
    let Some(row) = row else { return Ok(label.to_owned()) };
    if get::<i32>(row, "steps")? > MAX_CHAIN {
        return Err(too_long(label));
    }
    get(row, "label")
}

/// Like [`resolve`], in a transaction.
pub(crate) async fn resolve_in(
    transaction: &Transaction<'_>,
    label: &str,
) -> Result<String, Failure> {
    let params: [Param<'_>; 2] = [(&label, Type::TEXT), (&MAX_CHAIN, Type::INT4)];
    let row = transaction.row(RESOLVE, &params).await?;
    Ok(resolved(label, row.as_ref())?)
}

/// Resolves the label of a filter.
pub(crate) async fn resolve_filter(server: &Server, label: &mut Option<String>) -> Stored<()> {
    if let Some(label) = label {
        *label = resolve(server, label).await?;
    }
    Ok(())
}

/// Makes `alias` a name of `label`, in place of its former target.
///
/// # Errors
/// `storage_constraint` for a label that a session in use has, for a cycle, and for a chain of more than 8.
pub(crate) async fn set(server: &Server, alias: &str, label: &str) -> Stored<AliasRow> {
    // Aliases change one after the other, so that two changes close no circle.
    let lock = server.sql("lock table @session_aliases in share row exclusive mode");
    let look = server.sql(
        "with recursive up as (
           select $2::text collate \"C\" as label, 1 as steps
           union all
           select a.session_label, steps + 1 from up join @session_aliases a on a.alias = up.label
           where steps <= $3 and up.label <> $1),
         below as (
           select $1::text collate \"C\" as label, 0 as steps
           union all
           select a.alias, steps + 1 from below join @session_aliases a on a.session_label = below.label
           where steps <= $3)
         select exists (select from @sessions where label = $1 and status = 'active') as used,
           exists (select from up where label = $1) as circle, (select max(steps) from up) as up,
           (select max(steps) from below) as below",
    );
    let write = server.sql(&format!(
        "insert into @session_aliases ({COLUMNS}) values ($1, $2, @now_ms(), @now_ms())
         on conflict (alias) do update set session_label = excluded.session_label, updated_at = excluded.updated_at
         returning {COLUMNS}"
    ));
    let names: [Param<'_>; 3] =
        [(&alias, Type::TEXT), (&label, Type::TEXT), (&MAX_CHAIN, Type::INT4)];
    let written = server.run_soon("write an alias", async |client, _| {
        let transaction = client.transaction().await?;
        transaction.batch_execute(&lock).await?;
        let row = transaction.query_typed_one(&look, &names).await?;
        if get::<bool>(&row, "used")? {
            let message =
                format!("a session `{alias}` is in use; archive it first, or pass another alias");
            return Err(refused("alias", message).into());
        }
        if get::<bool>(&row, "circle")? {
            let message = format!("`{label}` leads back to alias `{alias}`");
            return Err(refused("label", message).into());
        }
        if get::<i32>(&row, "up")? + get::<i32>(&row, "below")? > MAX_CHAIN {
            return Err(too_long(alias).into());
        }
        let row = transaction.query_typed_one(&write, names.get(..2).unwrap_or_default()).await?;
        transaction.commit().await?;
        Ok(alias_row(&row)?)
    });
    written.await
}

/// Removes an alias; false if it does not exist. Its session stays.
pub(crate) async fn remove(server: &Server, alias: &str) -> Stored<bool> {
    let text = "delete from @session_aliases where alias = $1 returning 1";
    Ok(!server.once("remove an alias", text, &[(&alias, Type::TEXT)]).await?.is_empty())
}

/// The aliases, by name: all, or those that lead straight to `label`.
pub(crate) async fn list(
    server: &Server,
    label: Option<&str>,
    page: &PageOptions,
) -> Stored<Page<AliasRow>> {
    let text = match label {
        None => format!(
            "select {COLUMNS} from @session_aliases where alias > $1 and $3::text is null order by alias limit $2"
        ),
        Some(_) => format!(
            "select {COLUMNS} from @session_aliases where session_label = $3 and alias > $1 order by alias limit $2"
        ),
    };
    let (after, limit) = (page.after.as_deref().unwrap_or_default(), page.limit.and_one());
    let params: [Param<'_>; 3] = [(&after, Type::TEXT), (&limit, Type::INT8), (&label, Type::TEXT)];
    let rows = server.rows("list the aliases", &text, &params).await?;
    let found: Vec<AliasRow> = rows.iter().map(alias_row).collect::<Stored<_>>()?;
    Ok(Page::cut(found.into_iter().map(|row| (row.alias.clone(), row)).collect(), page.limit))
}

fn too_long(alias: &str) -> StorageError {
    refused(
        "alias",
        format!(
            "alias `{alias}` is part of a chain of more than {MAX_CHAIN}; point it at the session"
        ),
    )
}

fn refused(field: &str, message: String) -> StorageError {
    StorageError::new(StorageErrorKind::Constraint, message).at(field)
}
