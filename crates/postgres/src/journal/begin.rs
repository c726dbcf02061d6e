//! W0: leases the session and opens the turn in one statement.
//!
//! The row of the session decides: it has the head and the lease, and is locked by the statement that changes it. It must
//! never open a turn in a session that another process runs, nor after a head that the run did not know.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};
use crate::events::new_events::{Tail, insert_events};
use crate::events::waiting;
use crate::journal::pointer::{
    Identity, already_stored, duplicate_run, is_taken, stale_writer, unknown_turn,
};
use crate::queue::budgets::{self, Reserving};
use crate::queue::turn_end;
use crate::rows::body;
use crate::rows::turn_body::{HeaderBody, OpeningBody};
use crate::rows::turn_read::get;
use crate::rows::written::{Messages, insert_messages};
use model::{Metadata, Opened, Reservation, Reserved, TurnOpening};

/// Another process may change the session between a statement and the look for its reason; then the statement is sent again.
const TRIES: usize = 8;

/// W0.
///
/// # Errors
/// `unknown_turn` for a parent that does not exist, `storage_constraint` for an id that exists.
pub(crate) async fn begin(
    server: &Server,
    opening: &TurnOpening,
    events: Option<&Tail>,
    reservation: Option<&Reservation>,
) -> Stored<(Opened<i64>, Reserved)> {
    let has = (!opening.items.is_empty(), events.is_some(), reservation.is_some());
    let sql = server.built(form(has), || statement(has));
    let header = body::encode(&HeaderBody::of_opening(opening)?)?;
    let context = OpeningBody { context: opening.context.clone(), target: opening.target.clone() };
    let context = body::encode(&context)?;
    let messages = Messages::of(&opening.messages, &opening.settings.layers)?;
    let reserving = reservation.map(|it| Reserving::of(server, it));
    let identity = Identity::of(&opening.header.session_label);
    let of = &opening.header;
    let role = of.role.as_str();
    let metadata = opening.settings.metadata.as_ref().map(Metadata::as_str);
    let held = server.held.running(&of.session_label).map(|lease| lease.turn_id);
    let mut params: Vec<Param<'_>> = vec![
        (&of.session_label, Type::TEXT),
        (&server.owner, Type::TEXT),
        (&opening.turn_id, Type::TEXT),
        (&of.expected_head, Type::TEXT),
        (&server.lease_ms, Type::INT8),
        (&of.parent_turn_id, Type::TEXT),
        (&of.run_id, Type::TEXT),
        (&of.started_at, Type::INT8),
        (&role, Type::TEXT),
        (&opening.settings.provider, Type::TEXT),
        (&opening.settings.model, Type::TEXT),
        (&identity.persona, Type::TEXT),
        (&identity.agent, Type::TEXT),
        (&context.bytes, Type::BYTEA),
        (&context.checksum, Type::INT8),
        (&header.bytes, Type::BYTEA),
        (&header.checksum, Type::INT8),
        (&metadata, Type::TEXT),
        (&held, Type::TEXT),
    ];
    params.extend(messages.params());
    if !opening.items.is_empty() {
        params.push((&opening.items, Type::TEXT_ARRAY));
        params.push((&opening.named, Type::TEXT_ARRAY));
    }
    if let Some(events) = events {
        params.extend(events.params());
    }
    if let Some(reserving) = &reserving {
        params.extend(reserving.params());
    }
    let done = async |client: &Client| -> Result<_, Failure> {
        let Some(epoch) = opened(server, client, opening).await? else { return Ok(None) };
        let reserved = match reservation {
            // A call that is reserved already stays so.
            Some(reservation) => budgets::reserve_again(server, client, reservation).await?,
            None => None,
        };
        Ok(Some((Opened::Leased(epoch), reserved)))
    };
    let opened = server.run("open a turn", async |client, may_be_done| {
        if may_be_done && let Some(opened) = done(client).await? {
            return Ok(opened);
        }
        for _ in 0..TRIES {
            let rows = match client.query_typed(&sql, &params).await {
                Err(error) if is_taken(&error, "turns_pkey") => {
                    let error = match may_be_done {
                        // As in `reason`.
                        true => stale_writer(&opening.header.session_label),
                        false => already_stored(&opening.turn_id),
                    };
                    return Err(error.into());
                }
                Err(error) if is_taken(&error, "turns_are_runs") => {
                    return Err(duplicate_run(&opening.header.run_id).into());
                }
                rows => rows.map_err(turn_end::refused)?,
            };
            if let Some(row) = rows.first() {
                let reserved = reserving.as_ref().map(|_| budgets::reserved(row)).transpose()?;
                return Ok((Opened::Leased(get(row, "epoch")?), reserved));
            }
            // The server may have gone on with an earlier try after its connection was lost.
            if may_be_done && let Some(opened) = done(client).await? {
                return Ok(opened);
            }
            if let Some(reason) = reason(server, client, opening, may_be_done).await? {
                return Ok((reason, None));
            }
        }
        Ok((Opened::Busy, None))
    });
    opened.await
}

/// The number of the statement's form; those of W4 are from 8 on.
fn form((has_items, stores_events, reserves): (bool, bool, bool)) -> u8 {
    u8::from(has_items) | u8::from(stores_events) << 1 | u8::from(reserves) << 2
}

/// The statement: whether the turn takes messages of its session's queue, stores events, and reserves its first call.
fn statement((has_items, stores_events, reserves): (bool, bool, bool)) -> String {
    let messages = insert_messages("$3", "taken", FIRST);
    let mut next = FIRST + Messages::PARAMS;
    let (items, all_taken) = if has_items {
        let (ids, named) = (format!("${next}"), format!("${}", next + 1));
        next += 2;
        let all = (ids.as_str(), Some(named.as_str()));
        let take = turn_end::take(all, "$3", "taken");
        (format!(", {take}"), format!(", {}", turn_end::all_taken(all, "$3")))
    } else {
        Default::default()
    };
    let (number, events) = match stores_events {
        false => ("null::bigint", String::new()),
        true => (waiting::NUMBER, insert_events("$3", "taken", next)),
    };
    let last = if stores_events { next + Tail::PARAMS } else { next };
    let (reserved, reserves) = riding(reserves, last);
    let (lives, take_place) =
        (waiting::lives("$2"), waiting::take_place(("$7", "$3", "$2"), "taken"));
    format!(
        "with parent as (select depth, thread_tokens, session_label from @turns where id = $6 and status <> 'streaming'),
         follows as (select s.persona_id, s.agent_id from parent join @sessions s on s.label = parent.session_label),
         main as (select id from @personas where main_session_label = $1),
         taken as (
           insert into @sessions as s
             (label, persona_id, agent_id, created_at, updated_at, opening, epoch, owner, running, expires_at)
           select $1, coalesce((select id from main), $12, (select persona_id from follows), 'default'),
             coalesce($13, (select id from main), (select agent_id from follows), 'default'), $8, $8, true, 1, $2, $3, @now_ms() + $5
           where ($6::text is null or exists (select from parent))
             and ($4::text is null or exists (select from @sessions where label = $1))
             and not exists (select from @runs r where r.run_id = $7 and r.turn_id <> $3 and {lives})
           on conflict (label) do update set epoch = case when s.owner = $2 and s.running is null then s.epoch else s.epoch + 1 end,
             owner = excluded.owner, running = excluded.running, expires_at = excluded.expires_at
           where s.head is not distinct from $4 and s.parked is null
             and (s.running is null or s.owner is null or (s.expires_at <= @now_ms() and (s.owner <> $2 or s.running is distinct from $19)))
             and not exists ({EARLIER})
           returning s.epoch),
         gone as (delete from @waits w using taken where w.session_label = $1 and w.owner = $2){take_place},
         opened as (
           insert into @turns (id, parent_turn_id, session_label, run_id, turn_type, status, depth, thread_tokens,
             expected_head, is_run, epoch, started_at, provider, model, role, opening, opening_checksum, header, checksum, run_number, metadata)
           select $3, $6, $1, $7, 'normal', 'streaming', coalesce(p.depth + 1, 0), coalesce(p.thread_tokens, 0), $4,
             true, taken.epoch, $8, $10, $11, $9, $14, $15, $16, $17, {number}, $18::jsonb
           from taken left join parent p on true),
         written as ({messages}){items}{events}
         select epoch{all_taken}{reserved} from taken{reserves}"
    )
}

/// What a statement selects, and from where, that reserves a call with what it writes; its parameters begin with `first`.
pub(crate) fn riding(reserves: bool, first: usize) -> (&'static str, String) {
    if !reserves {
        return Default::default();
    }
    let call = Reserving::call(first);
    (", account, rest, is_cost", format!(" left join lateral {call} on true"))
}

/// The first parameter of the messages.
const FIRST: usize = 20;

/// The processes that wait for the session `$1` before the process `$2`.
const EARLIER: &str = "select from @waits w where w.session_label = $1 and w.owner <> $2 and w.expires_at > @now_ms()
    and w.n < coalesce((select n from @waits where session_label = $1 and owner = $2), 9223372036854775807)";

/// The epoch of the turn, if an earlier try has opened it.
async fn opened(
    server: &Server,
    client: &Client,
    opening: &TurnOpening,
) -> Result<Option<i64>, Failure> {
    let sql = server.sql(
        "select s.epoch from @sessions s join @turns t on t.id = s.running and t.epoch = s.epoch
         where s.label = $1 and s.owner = $2 and s.running = $3",
    );
    let params: [Param<'_>; 3] = [
        (&opening.header.session_label, Type::TEXT),
        (&server.owner, Type::TEXT),
        (&opening.turn_id, Type::TEXT),
    ];
    let rows = client.query_typed(&sql, &params).await?;
    Ok(rows.first().map(|row| get(row, "epoch")).transpose()?)
}

/// Why the turn was not opened; `None` where nothing is in its way any more.
async fn reason(
    server: &Server,
    client: &Client,
    opening: &TurnOpening,
    may_be_done: bool,
) -> Result<Option<Opened<i64>>, Failure> {
    // Before the session is waited for: a turn without its messages must not begin.
    if !opening.items.is_empty() && !turn_end::still_wait(server, client, opening).await? {
        return Err(turn_end::taken().into());
    }
    let of = &opening.header;
    let lives = waiting::lives("$2");
    let sql = server.sql(&format!(
        "select s.head, s.parked, s.running is not null and s.owner = $2 and (s.expires_at > @now_ms() or s.running = $6) as own,
           s.running is not null and s.owner <> $2 and s.expires_at > @now_ms() as other,
           exists ({EARLIER}) as behind,
           $3::text is null or exists (select from @turns where id = $3 and status <> 'streaming') as parent,
           exists (select from @turns where id = $5) as is_open,
           exists (select from @turns where run_id = $4 and is_run)
             or exists (select from @runs r where r.run_id = $4 and r.turn_id <> $5 and {lives}) as duplicate
         from (select) as one left join @sessions s on s.label = $1"
    ));
    let held = server.held.running(&of.session_label).map(|lease| lease.turn_id);
    let params: [Param<'_>; 6] = [
        (&of.session_label, Type::TEXT),
        (&server.owner, Type::TEXT),
        (&of.parent_turn_id, Type::TEXT),
        (&of.run_id, Type::TEXT),
        (&opening.turn_id, Type::TEXT),
        (&held, Type::TEXT),
    ];
    let rows = client.query_typed(&sql, &params).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    // An earlier try opened it, whose answer was lost, and another process has taken it over since.
    if may_be_done && get(row, "is_open")? {
        return Err(stale_writer(&of.session_label).into());
    }
    // The run that holds the session may be the same one.
    if get(row, "duplicate")? {
        return Err(duplicate_run(&of.run_id).into());
    }
    if let Some(parked) = get(row, "parked")? {
        return Ok(Some(Opened::Parked(parked)));
    }
    let [own, other]: [Option<bool>; 2] = [get(row, "own")?, get(row, "other")?];
    if own == Some(true) {
        return Ok(Some(Opened::Busy));
    }
    if other == Some(true) || get(row, "behind")? {
        wait(server, client, &of.session_label).await?;
        return Ok(Some(Opened::Busy));
    }
    if get::<Option<String>>(row, "head")? != of.expected_head {
        return Ok(Some(Opened::Moved));
    }
    match &of.parent_turn_id {
        Some(parent) if !get::<bool>(row, "parent")? => Err(unknown_turn(parent).into()),
        _ => Ok(None),
    }
}

/// Joins the queue for a session, or renews the place in it.
async fn wait(server: &Server, client: &Client, label: &str) -> Result<(), Failure> {
    let sql = server.sql(
        "with gone as (
           delete from @waits where session_label = $1 and owner <> $2 and expires_at <= @now_ms()
             and not exists (select from @waits where session_label = $1 and owner = $2))
         insert into @waits (session_label, owner, expires_at) values ($1, $2, @now_ms() + $3)
         on conflict (session_label, owner) do update set expires_at = excluded.expires_at",
    );
    let params: [Param<'_>; 3] =
        [(&label, Type::TEXT), (&server.owner, Type::TEXT), (&server.lease_ms, Type::INT8)];
    client.execute_typed(&sql, &params).await?;
    Ok(())
}

/// Leaves the queue for a session.
pub(crate) async fn stop_waiting(server: &Server, label: &str) -> Stored<()> {
    let sql = server.sql("delete from @waits where session_label = $1 and owner = $2");
    let left = server.run("leave the queue of a session", async |client, _| {
        client.execute_typed(&sql, &[(&label, Type::TEXT), (&server.owner, Type::TEXT)]).await?;
        Ok(())
    });
    left.await
}
