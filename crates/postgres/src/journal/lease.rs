//! The leases of this process: renewed while turns run, released when one ends without a commit.
//!
//! A lease is a row with an epoch that only grows; the server's clock ends it. It must never renew a lease that another
//! process has taken.

use std::rc::Rc;

use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::pool::RESERVED;
use crate::connect::server::{Param, Server};
use crate::events::{announce, waiting};
use crate::queue::budgets;
use model::TurnLease;

/// Renews the leases of all turns that run, in one statement, over a connection that nothing else may use.
pub(crate) async fn renew(server: &Server) -> Stored<()> {
    let (labels, epochs) = server.held.all();
    if labels.is_empty() {
        return Ok(());
    }
    let sql = server.sql(
        "update @sessions s set expires_at = @now_ms() + $4 from unnest($1::text[], $2::int8[]) as h (label, epoch)
         where s.label = h.label and s.epoch = h.epoch and s.owner = $3 and s.running is not null",
    );
    let params: [Param<'_>; 4] = [
        (&labels, Type::TEXT_ARRAY),
        (&epochs, Type::INT8_ARRAY),
        (&server.owner, Type::TEXT),
        (&server.lease_ms, Type::INT8),
    ];
    let renewed = server.run("renew the leases", async |client, _| {
        client.execute_typed(&sql, &params).await?;
        Ok(())
    });
    RESERVED.scope((), renewed).await
}

/// Renews what else ends without a heartbeat: what this process shows others, its runs that wait, what its calls have reserved.
pub(crate) async fn renew_others(server: Rc<Server>) {
    if server.live.has_broker() {
        announce::show(&server).await;
    }
    // What could not be renewed is tried again with the next heartbeat.
    drop(tokio::join!(waiting::renew(&server), budgets::renew(&server)));
}

/// Frees the session of a turn that ended without a commit. A lease of another process stays as it is.
pub(crate) async fn release(server: &Server, label: &str, lease: &TurnLease) -> Stored<()> {
    let sql = server.sql(
        "update @sessions set owner = null, running = null
         where label = $1 and epoch = $2 and owner = $3 and running = $4",
    );
    let params: [Param<'_>; 4] = [
        (&label, Type::TEXT),
        (&lease.epoch, Type::INT8),
        (&server.owner, Type::TEXT),
        (&lease.turn_id, Type::TEXT),
    ];
    let released = server.run("release a session", async |client, _| {
        client.execute_typed(&sql, &params).await?;
        Ok(())
    });
    released.await
}

/// Frees the sessions of this process, and leaves every queue. Leases that stay end by themselves.
pub(crate) async fn free(server: &Server) -> Stored<()> {
    let sql = server.sql(
        "with gone as (delete from @waits where owner = $1),
         gone_runs as (delete from @runs where owner = $1)
         update @sessions s set owner = null, running = null from @turns t
         where t.status = 'streaming' and s.label = t.session_label and s.running = t.id and s.owner = $1",
    );
    let freed = server.run("free the sessions", async |client, _| {
        client.execute_typed(&sql, &[(&server.owner, Type::TEXT)]).await?;
        Ok(())
    });
    freed.await
}
