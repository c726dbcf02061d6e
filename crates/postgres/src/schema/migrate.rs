//! Brings a schema to the newest version: numbered migrations, each once, under a lock of the transaction.
//!
//! What is foreign, newer or on a server that is too old is refused and left as it is. It must never change a row of a
//! schema that it refuses.

use model::{StorageError, StorageErrorKind};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, GenericClient, IsolationLevel, Transaction};

use crate::connect::error::{Failure, Stored};
use crate::connect::pool::{LIMIT, LONG, Limit};
use crate::connect::server::{Param, Server};
use base::clock::Clock;

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
    include_str!("migrations/090_runs.sql"),
    include_str!("migrations/100_prompt_caches.sql"),
    include_str!("migrations/110_rate_queues.sql"),
    include_str!("migrations/120_memory_state.sql"),
    include_str!("migrations/130_counts_and_moved.sql"),
    include_str!("migrations/140_moves.sql"),
];

/// The oldest server that the statements run on.
const OLDEST: i32 = 150_000;
/// Migrations of one schema wait for each other under this number and the schema's hash.
const LOCK: i32 = 0x6c65_6467;

/// Opens the schema, or creates it.
///
/// # Errors
/// `ledger_newer`, `ledger_foreign`; any of storage.
pub(crate) async fn open(server: &Server) -> Stored<()> {
    const DOING: &str = "open the ledger";
    let schema = &server.channel;
    let known = server.run_soon(DOING, async |client, _| {
        check_server(client).await?;
        known(server, client, schema).await
    });
    if known.await? == Some(newest()) {
        return Ok(());
    }
    // A server that answers: a migration of many rows may take long, and others wait for it.
    let fresh = Clock::default().new_id();
    let migrating = server.run_soon(DOING, async |client, _| {
        // It must see what another process has committed while it waited for the lock, whatever the server's default is.
        let begin = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted);
        let transaction = begin.start().await?;
        migrate(server, &transaction, schema, &fresh).await?;
        Ok(transaction.commit().await?)
    });
    LIMIT.scope(Limit::of(LONG), Box::pin(migrating)).await
}

/// How many migrations there are.
fn newest() -> i32 {
    i32::try_from(MIGRATIONS.len()).unwrap_or(i32::MAX)
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

/// The version of the ledger in a schema; `None` where it has none yet.
async fn known(
    server: &Server,
    client: &impl GenericClient,
    schema: &str,
) -> Result<Option<i32>, Failure> {
    let name: [Param<'_>; 1] = [(&schema, Type::TEXT)];
    let exists =
        "select count(*) > 0, coalesce(bool_or(c.relname = 'ledger'), false) from pg_class c
          join pg_namespace n on n.oid = c.relnamespace where n.nspname = $1";
    let row = client.query_typed_one(exists, &name).await?;
    let (has_tables, is_ledger): (bool, bool) = (row.try_get(0)?, row.try_get(1)?);
    if has_tables && !is_ledger {
        return Err(Failure::Refused(StorageError::new(
            StorageErrorKind::Foreign,
            format!("schema `{schema}` has tables that are no ledger; name another schema"),
        )));
    }
    if !is_ledger {
        return Ok(None);
    }
    let row = client.query_typed_one(&server.sql("select version from @ledger"), &[]).await?;
    let (version, newest) = (row.try_get::<_, i32>(0)?, newest());
    if version > newest {
        return Err(Failure::Refused(StorageError::new(
            StorageErrorKind::Newer,
            format!(
                "schema `{schema}` has version {version}, and this package knows {newest}; update it"
            ),
        )));
    }
    Ok(Some(version))
}

async fn migrate(
    server: &Server,
    transaction: &Transaction<'_>,
    schema: &str,
    fresh: &str,
) -> Result<(), Failure> {
    let name: [Param<'_>; 1] = [(&schema, Type::TEXT)];
    let lock = format!("select pg_advisory_xact_lock({LOCK}, hashtext($1))");
    transaction.query_typed(&lock, &name).await?;
    // Another process may have migrated it meanwhile.
    let version = known(server, transaction, schema).await?;
    if version == Some(newest()) {
        return Ok(());
    }
    let exists = "select from pg_namespace where nspname = $1";
    if transaction.query_typed(exists, &name).await?.is_empty() {
        transaction.batch_execute(&format!("create schema \"{schema}\"")).await?;
    }
    let version = version.unwrap_or_default();
    for migration in MIGRATIONS.iter().skip(usize::try_from(version).unwrap_or_default()) {
        transaction.batch_execute(&server.sql(migration)).await?;
    }
    let note = server.sql(
        "insert into @ledger (only_row, id, version, engine_version) values (true, $1, $2, $3)
         on conflict (only_row) do update set version = excluded.version",
    );
    let params: [Param<'_>; 3] =
        [(&fresh, Type::TEXT), (&newest(), Type::INT4), (&env!("CARGO_PKG_VERSION"), Type::TEXT)];
    transaction.execute_typed(&note, &params).await?;
    Ok(())
}
