//! The deletion of expired events, a few runs at a time, after a number of turns.
//!
//! Runs expire in the order of their beginnings, so that only the oldest that have ended are looked at. It must never hold up a turn.

use std::rc::Rc;

use tokio_postgres::types::Type;

use crate::connect::error::Stored;
use crate::connect::server::{Param, Server};
use model::Retention;

/// Ended turns of this process between two deletions.
const TURNS: u32 = 64;

impl Server {
    /// Counts an ended turn, and deletes expired events after a number of them.
    pub(crate) fn trim_sometimes(self: &Rc<Self>) {
        let Some(retention) = &self.live.retention else { return };
        let few = retention.turns.map_or(TURNS, |turns| turns.clamp(1, TURNS));
        self.ended.set(self.ended.get() + 1);
        if self.ended.get() >= few {
            let server = Rc::clone(self);
            tokio::task::spawn_local(async move {
                // One under way goes on with what ends meanwhile.
                let Some(_alone) = server.trims.alone() else { return };
                let Some(retention) = &server.live.retention else { return };
                while server.ended.get() >= few {
                    server.ended.set(0);
                    // The next turns try again.
                    drop(trim(&server, retention).await);
                }
            });
        }
    }
}

/// Deletes expired events until nothing is left to delete.
pub(crate) async fn trim(server: &Server, retention: &Retention) -> Stored<()> {
    let age = i64::try_from(retention.age.as_millis()).unwrap_or(i64::MAX);
    let turns = retention.turns.map(i64::from);
    let text = "with oldest as (
           select id, completed_at, run_number from @turns where run_number is not null and status <> 'streaming'
           order by run_number limit 100),
         old as (
           select id from oldest where (completed_at <= @now_ms() - $1
             or ($2::bigint is not null and run_number <= (select run_number from @turns
               where run_number is not null and status <> 'streaming' order by run_number desc limit 1 offset $2)))),
         gone as (delete from @events e using old where e.turn_id = old.id)
         update @turns t set run_number = null from old where t.id = old.id returning 1";
    loop {
        let params: [Param<'_>; 2] = [(&age, Type::INT8), (&turns, Type::INT8)];
        if server.rows("delete old events", text, &params).await?.is_empty() {
            break;
        }
    }
    // What processes have left that ended while their runs waited.
    let left =
        "with gone as (delete from @runs where expires_at <= @now_ms() - $1 returning turn_id)
        delete from @events e using gone where e.turn_id = gone.turn_id";
    server.exec("delete old runs", left, &[(&age, Type::INT8)]).await
}
