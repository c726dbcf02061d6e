//! The state of auth profiles and of token ratios, shared by all processes: each change is one transaction.
//!
//! It must never hold a key, and never decide what a failure means.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::{Stored, damaged};
use crate::connect::once::Tried;
use crate::connect::server::{Param, Server};
use crate::rows::turn_read::get;
use model::{ProfileChange, ProfileUsage, RateChange, TokenRatio};

/// The states of all profiles.
pub(crate) async fn all(server: &Server) -> Stored<Vec<(String, ProfileUsage)>> {
    let rows = server
        .rows("read the auth profiles", "select id, used_at, state from @auth_profiles", &[])
        .await?;
    rows.iter().map(|row| Ok((get(row, "id")?, state(row)?))).collect()
}

fn state(row: &Row) -> Stored<ProfileUsage> {
    let usage: ProfileUsage = serde_json::from_str(get(row, "state")?)
        .map_err(|_| damaged("the state of an auth profile cannot be read"))?;
    let last_used_at = usage.last_used_at.max(get(row, "used_at")?);
    Ok(ProfileUsage { last_used_at, ..usage })
}

/// Writes a profile's last use.
pub(crate) async fn used(server: &Server, id: &str, at_ms: i64) -> Stored<()> {
    let sql = server.sql(
        "insert into @auth_profiles as p (id, used_at, state) values ($1, $2, '{}')
         on conflict (id) do update set used_at = greatest(p.used_at, excluded.used_at)",
    );
    let written = server.run("write the use of an auth profile", async |client, _| {
        client.execute_typed(&sql, &[(&id, Type::TEXT), (&at_ms, Type::INT8)]).await?;
        Ok(())
    });
    written.await
}

/// Changes the state of a profile, under a lock of its row.
pub(crate) async fn change(
    server: &Server,
    id: &str,
    mut apply: ProfileChange,
) -> Stored<ProfileUsage> {
    let add = server
        .sql("insert into @auth_profiles (id, state) values ($1, '{}') on conflict do nothing");
    let read = server.sql("select used_at, state from @auth_profiles where id = $1 for update");
    let write = server.sql("update @auth_profiles set state = $2 where id = $1");
    let of: [Param<'_>; 1] = [(&id, Type::TEXT)];
    let tried = Tried::default();
    let changed = server.run("write an auth profile", async |client, _| {
        let transaction = client.transaction().await?;
        transaction.execute_typed(&add, &of).await?;
        let row = transaction.query_typed_one(&read, &of).await?;
        let mut usage = state(&row)?;
        // Twice, one failure would count as two, and the profile would rest longer.
        if tried.has_committed(transaction.client()).await? {
            return Ok(usage);
        }
        apply(&mut usage);
        let json = serde_json::to_string(&usage)
            .map_err(|_| damaged("the state of an auth profile cannot be written"))?;
        transaction.execute_typed(&write, &[(&id, Type::TEXT), (&json, Type::TEXT)]).await?;
        transaction.commit().await?;
        Ok(usage)
    });
    changed.await
}

/// What the processes share of the limits of a queue, with the server's time.
pub(crate) async fn rates(server: &Server, queue: &str) -> Stored<(Option<String>, i64)> {
    let text =
        "select (select state from @rate_queues where queue = $1) as state, @now_ms() as now";
    let row = server.row("read the rate limits", text, &[(&queue, Type::TEXT)]).await?;
    let row = row.ok_or_else(|| damaged("the server has no time"))?;
    Ok((get(&row, "state")?, get(&row, "now")?))
}

/// Changes that, under a lock of its row. It does not wait for the disk: the next answers say what is left.
pub(crate) async fn change_rates(
    server: &Server,
    queue: &str,
    mut apply: RateChange,
) -> Stored<()> {
    let add = server.sql("insert into @rate_queues (queue) values ($1) on conflict do nothing");
    let read =
        server.sql("select state, @now_ms() as now from @rate_queues where queue = $1 for update");
    let write = server.sql("update @rate_queues set state = $2 where queue = $1");
    let of: [Param<'_>; 1] = [(&queue, Type::TEXT)];
    let changed = server.run("write the rate limits", async |client, _| {
        let transaction = client.transaction().await?;
        transaction.batch_execute("set local synchronous_commit = off").await?;
        let mut rows = transaction.query_typed(&read, &of).await?;
        if rows.is_empty() {
            transaction.execute_typed(&add, &of).await?;
            rows = transaction.query_typed(&read, &of).await?;
        }
        let Some(row) = rows.first() else {
            return Err(damaged("the rate limits are gone").into());
        };
        let state = apply(get(row, "state")?, get(row, "now")?);
        transaction.execute_typed(&write, &[(&queue, Type::TEXT), (&state, Type::TEXT)]).await?;
        Ok(transaction.commit().await?)
    });
    changed.await
}

/// The ratios of all models.
pub(crate) async fn ratios(server: &Server) -> Stored<Vec<TokenRatio>> {
    let text = "select provider, model, per_mille, samples, updated_at from @token_ratios";
    let rows = server.rows("read how models count tokens", text, &[]).await?;
    let number = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
    let ratios = rows.iter().map(|row| {
        Ok(TokenRatio {
            provider: get(row, "provider")?,
            model: get(row, "model")?,
            per_mille: number(get(row, "per_mille")?),
            samples: number(get(row, "samples")?),
            updated_at: get(row, "updated_at")?,
        })
    });
    ratios.collect()
}

/// Stores the ratio of a model.
pub(crate) async fn store_ratio(server: &Server, ratio: &TokenRatio) -> Stored<()> {
    let sql = server.sql(
        "insert into @token_ratios (provider, model, per_mille, samples, updated_at) values ($1, $2, $3, $4, $5)
         on conflict (provider, model) do update set per_mille = excluded.per_mille, samples = excluded.samples,
           updated_at = excluded.updated_at",
    );
    let (per_mille, samples) = (i64::from(ratio.per_mille), i64::from(ratio.samples));
    let params: [Param<'_>; 5] = [
        (&ratio.provider, Type::TEXT),
        (&ratio.model, Type::TEXT),
        (&per_mille, Type::INT8),
        (&samples, Type::INT8),
        (&ratio.updated_at, Type::INT8),
    ];
    let stored = server.run("store how a model counts tokens", async |client, _| {
        client.execute_typed(&sql, &params).await?;
        Ok(())
    });
    stored.await
}
