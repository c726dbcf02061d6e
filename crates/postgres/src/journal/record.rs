//! W1 to W3: what is new in a running turn, in one statement under its lease.
//!
//! Sent twice it changes nothing more: a message that is stored stays as it is, and a call has its newest state.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};
use crate::events::new_events::{Tail, insert_events};
use crate::journal::begin::riding;
use crate::journal::pointer::stale_writer;
use crate::queue::budgets::{self, Reserving};
use crate::queue::{approvals, turn_end};
use crate::rows::written::{Calls, Messages, insert_calls, insert_messages};
use model::{Reservation, Reserved, TurnStep};

/// W1 to W3.
///
/// # Errors
/// `stale_writer` where the lease is another's by now; any of storage. Nothing is written then.
pub(crate) async fn record(
    server: &Server,
    step: &TurnStep,
    events: Option<&Tail>,
    reservation: Option<&Reservation>,
) -> Stored<Reserved> {
    let requested = step
        .parking
        .as_ref()
        .map_or(Ok(Vec::new()), |parking| approvals::requested(&parking.requested))?;
    let events = events.filter(|events| !events.is_empty());
    let sql = statement(server, step, events.is_some(), reservation.is_some());
    let reserving = reservation.map(|it| Reserving::of(server, it));
    let messages = Messages::of(&step.messages, &step.layers)?;
    let calls = Calls::of_steps(&step.calls)?;
    let mut params: Vec<Param<'_>> = vec![
        (&step.session_label, Type::TEXT),
        (&server.owner, Type::TEXT),
        (&step.epoch, Type::INT8),
        (&step.turn_id, Type::TEXT),
        (&step.progress, Type::TEXT),
        (&server.lease_ms, Type::INT8),
    ];
    params.extend(messages.params());
    params.extend(calls.params());
    params.push((&step.items, Type::TEXT_ARRAY));
    params.push((&requested, Type::TEXT_ARRAY));
    if let Some(events) = events {
        params.extend(events.params());
    }
    if let Some(reserving) = &reserving {
        params.extend(reserving.params());
    }
    let written = server.run("write a step of a turn", async |client, may_be_done| {
        let rows = client.query_typed(&sql, &params).await.map_err(turn_end::refused)?;
        match rows.first() {
            Some(row) => Ok(reserving.as_ref().map(|_| budgets::reserved(row)).transpose()?),
            None if may_be_done && is_parked(server, client, step).await? => Ok(None),
            None => Err(stale_writer(&step.session_label).into()),
        }
    });
    written.await
}

/// Whether an earlier try has parked the turn, and so given up its lease.
async fn is_parked(server: &Server, client: &Client, step: &TurnStep) -> Result<bool, Failure> {
    let sql = server.sql("select from @sessions where label = $1 and epoch = $2 and parked = $3");
    let params: [Param<'_>; 3] =
        [(&step.session_label, Type::TEXT), (&step.epoch, Type::INT8), (&step.turn_id, Type::TEXT)];
    Ok(step.parking.is_some() && !client.query_typed(&sql, &params).await?.is_empty())
}

fn statement(server: &Server, step: &TurnStep, has_events: bool, reserves: bool) -> String {
    let messages = insert_messages("$4", "leased", 7);
    let calls = insert_calls("$4", "leased", 7 + Messages::PARAMS);
    let last = 7 + Messages::PARAMS + Calls::PARAMS;
    let events = if has_events { insert_events("$4", "leased", last + 2) } else { String::new() };
    let after = last + 2 + if has_events { Tail::PARAMS } else { 0 };
    let (reserved, reserves) = riding(reserves, after);
    let (ids, bodies) = (format!("${last}"), format!("${}", last + 1));
    let lease = if step.parking.is_some() {
        let ask = approvals::ask(&bodies, "leased");
        format!(
            "parks as (
               update @sessions s set owner = null, running = null, parked = $4 from leased where s.label = $1),
             {ask}"
        )
    } else {
        "renewed as (
           update @sessions s set expires_at = @now_ms() + $6 from leased
           where s.label = $1 and s.epoch = $3 and leased.expires_at < @now_ms() + $6 / 2)"
            .to_owned()
    };
    let (items, all_taken) = if step.items.is_empty() {
        Default::default()
    } else {
        let take = turn_end::take((&ids, None), "$4", "leased");
        (format!("{take}, "), format!(", {}", turn_end::all_taken((&ids, None), "$4")))
    };
    server.sql(&format!(
        "with leased as (
           select expires_at from @sessions where label = $1 and owner = $2 and epoch = $3 and running = $4 for share),
         {lease},
         progressed as (update @turns t set progress = $5 from leased where t.id = $4 and $5::text is not null),
         {items}messages as ({messages}),
         calls as ({calls}){events}
         select 1 as one{all_taken}{reserved} from leased{reserves}"
    ))
}
