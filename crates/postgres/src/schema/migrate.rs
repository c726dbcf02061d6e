//! Brings a schema to the newest version: numbered migrations, each once, under a lock of the transaction.
//!
//! What is foreign, newer or on a server that is too old is refused and left as it is. It must never change a row of a
//! schema that it refuses.

use model::{StorageError, StorageErrorKind};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Transaction};

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};

/// In the order of their numbers; a schema's version is how many it has.
const MIGRATIONS: &[&str] = &[
    include_str!("migrations/001_turns.sql"),
    include_str!("migrations/010_events.sql"),
    include_str!("migrations/020_reading.sql"),
    include_str!("migrations/030_care.sql"),
    include_str!("migrations/050_broker.sql"),
    include_str!("migrations/060_memory.sql"),
    include_str!("migrations/070_layers_and_links.sql"),
    include_str!("migrations/080_transfer.sql"),
    include_str!("migrations/085_lost_calls.sql"),
];

/// The oldest server that the statements run on.
const OLDEST: i32 = 150_000;
/// Migrations of one schema wait for each other under this number and the schema's hash.
const LOCK: i32 = 0x6c65_6467;

/// Opens the schema, or creates it. Returns the ledger's id; `fresh` is the one of a new ledger.
///
/// # Errors
/// `ledger_newer`, `ledger_foreign`; any of storage.
pub(crate) async fn open(server: &Server, schema: &str, fresh: &str) -> Stored<String> {
    let opening = server.run_soon("open the ledger", async |client, _| {
        check_server(client).await?;
        let transaction = client.transaction().await?;
        let id = migrate(server, &transaction, schema, fresh).await?;
        transaction.commit().await?;
        Ok(id)
    });
    opening.await
}

async fn check_server(client: &Client) -> Result<(), Failure> {
    let settings =
        "select current_setting('server_version_num')::int, current_setting('server_encoding')";
    let row = client.query_typed_one(settings, &[]).await?;
    let (version, encoding): (i32, String) = (row.try_get(0)?, row.try_get(1)?);
    let wrong = if version < OLDEST {
        format!("the server is PostgreSQL {}; the ledger needs 15 or newer", version / 10_000)
    } else if encoding == "UTF8" {
        return Ok(());
    } else {
        format!("the database has the encoding `{encoding}`; create one with `encoding 'UTF8'`")
    };
    Err(Failure::Refused(StorageError::new(StorageErrorKind::Foreign, wrong)))
}

async fn migrate(
    server: &Server,
    transaction: &Transaction<'_>,
    schema: &str,
    fresh: &str,
) -> Result<String, Failure> {
    let name: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 1] = [(&schema, Type::TEXT)];
    let lock = format!("select pg_advisory_xact_lock({LOCK}, hashtext($1))");
    transaction.query_typed(&lock, &name).await?;
    let exists = "select exists (select from pg_namespace where nspname = $1),
        exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1),
        exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
          where n.nspname = $1 and c.relname = 'ledger')";
    let row = transaction.query_typed_one(exists, &name).await?;
    let (exists, has_tables, is_ledger): (bool, bool, bool) =
        (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    if has_tables && !is_ledger {
        return Err(Failure::Refused(StorageError::new(
            StorageErrorKind::Foreign,
            format!("schema `{schema}` has tables that are no ledger; name another schema"),
        )));
    }
    if !exists {
        transaction.batch_execute(&format!("create schema \"{schema}\"")).await?;
    }
    let known = if is_ledger {
        let version = server.sql("select version, id from @ledger");
        let row = transaction.query_typed_one(&version, &[]).await?;
        Some((row.try_get::<_, i32>(0)?, row.try_get::<_, String>(1)?))
    } else {
        None
    };
    let (version, id) = known.unwrap_or_else(|| (0, fresh.to_owned()));
    let newest = i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX);
    if version > newest {
        return Err(Failure::Refused(StorageError::new(
            StorageErrorKind::Newer,
            format!(
                "schema `{schema}` has version {version}, and this package knows {newest}; update it"
            ),
        )));
    }
    if version == newest {
        return Ok(id);
    }
    for migration in MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or_default()) {
        transaction.batch_execute(&server.sql(migration)).await?;
    }
    let note = server.sql(
        "insert into @ledger (only_row, id, version, engine_version) values (true, $1, $2, $3)
         on conflict (only_row) do update set version = excluded.version",
    );
    let params: [Param<'_>; 3] =
        [(&id, Type::TEXT), (&newest, Type::INT4), (&env!("CARGO_PKG_VERSION"), Type::TEXT)];
    transaction.execute_typed(&note, &params).await?;
    Ok(id)
}
