//! A compaction: a turn of its own with the summary, which becomes the head of its session, in one statement.
//!
//! It makes no decisions: the commit names the summarised and the retained turns.

use base::clock::Clock;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};
use crate::journal::pointer::{
    Identity, POINTER, POINTER_PARAMS, is_taken, stale_writer, unknown_turn,
};
use crate::memory::turns;
use crate::rows::body;
use crate::rows::turn_body::{HeaderBody, OutcomeBody, integer};
use crate::rows::turn_read::get;
use crate::rows::written::{Messages, insert_messages};
use model::{Block, CompactionCommit, Message, Role, StorageError, StorageErrorKind, summary_text};

/// Writes the compaction. The open turn that needed it follows it from then on.
///
/// # Errors
/// `stale_writer`, `stale_head`, `unknown_turn`. Nothing is written then.
pub(crate) async fn compact(
    server: &Server,
    commit: &CompactionCommit,
    clock: &Clock,
) -> Stored<()> {
    let label = &commit.header.session_label;
    if commit.header.parent_turn_id.is_none() {
        return Err(StorageError::new(
            StorageErrorKind::UnknownTurn,
            format!("session `{label}` has no turn that could be compacted"),
        ));
    }
    let summary_id = clock.new_id();
    let written = server.run("write a compaction", async |client, may_be_done| {
        if may_be_done && is_written(server, client, &commit.id).await? {
            return Ok(());
        }
        match write(server, client, commit, &summary_id).await {
            Ok(true) => Ok(()),
            // The server may have gone on with an earlier try after its connection was lost.
            Ok(false) if may_be_done && is_written(server, client, &commit.id).await? => Ok(()),
            Ok(false) => Err(Failure::Refused(reason(server, client, commit).await?)),
            // The id is this call's own: an earlier try has written it.
            Err(Failure::Server(error)) if is_taken(&error, "turns_pkey") => Ok(()),
            Err(failure) => Err(failure),
        }
    });
    written.await
}

/// Whether an earlier try has written the compaction: its id is this call's own.
async fn is_written(server: &Server, client: &Client, id: &str) -> Result<bool, Failure> {
    let sql = server.sql("select from @turns where id = $1");
    Ok(!client.query_typed(&sql, &[(&id, Type::TEXT)]).await?.is_empty())
}

/// Why nothing was written.
async fn reason(
    server: &Server,
    client: &Client,
    commit: &CompactionCommit,
) -> Result<StorageError, Failure> {
    let CompactionCommit { header, open_turn, .. } = commit;
    let sql = server.sql(
        "select exists (select from @turns where id = $1 and status <> 'streaming') as parent,
           $2::bigint is null or exists (select from @sessions
             where label = $3 and epoch = $2 and owner = $4 and running = $5) as leased",
    );
    let epoch = open_turn.as_ref().map(|lease| lease.epoch);
    let turn_id = open_turn.as_ref().map(|lease| lease.turn_id.as_str());
    let of: [Param<'_>; 5] = [
        (&header.parent_turn_id, Type::TEXT),
        (&epoch, Type::INT8),
        (&header.session_label, Type::TEXT),
        (&server.owner, Type::TEXT),
        (&turn_id, Type::TEXT),
    ];
    let row = client.query_typed_one(&sql, &of).await?;
    let label = &header.session_label;
    Ok(if !get::<bool>(&row, "leased")? {
        stale_writer(label)
    } else if get::<bool>(&row, "parent")? {
        StorageError::new(
            StorageErrorKind::StaleHead,
            format!("session `{label}` has moved on while it was compacted; compact it again"),
        )
    } else {
        unknown_turn(header.parent_turn_id.as_deref().unwrap_or_default())
    })
}

/// Sends the statement of a compaction; false where it wrote nothing.
pub(crate) async fn write(
    server: &Server,
    client: &Client,
    commit: &CompactionCommit,
    summary_id: &str,
) -> Result<bool, Failure> {
    let CompactionCommit { id, header, open_turn, completed_at, compaction, usage } = commit;
    let label = &header.session_label;
    let ended_at = header.started_at.saturating_add(integer(compaction.duration_ms));
    let summary = Message {
        id: summary_id.to_owned(),
        role: Role::User,
        blocks: vec![Block::text(summary_text(&compaction.summary))],
        sequence: 0,
        created_at: ended_at,
        provenance: None,
        provider_stop_reason: None,
    };
    let messages = Messages::of(std::slice::from_ref(&summary), None)?;
    let head = body::encode(&HeaderBody::of_compaction(header)?)?;
    let outcome = body::encode(&OutcomeBody::of_compaction(usage))?;
    let checksum = head.checksum ^ outcome.checksum;
    let row = body::encode(compaction)?;
    let identity = Identity::of(label);
    let epoch = open_turn.as_ref().map(|lease| lease.epoch);
    let turn_id = open_turn.as_ref().map(|lease| lease.turn_id.as_str());
    let ends = false;
    let role = header.role.as_str();
    let tokens = usage.tokens;
    let tokens = [
        tokens.input_tokens,
        tokens.output_tokens,
        tokens.cached_input_tokens,
        tokens.cache_write_tokens,
        tokens.reasoning_tokens,
        tokens.total_tokens,
    ]
    .map(integer);
    let mut params: Vec<Param<'_>> = vec![
        (label, Type::TEXT),
        (id, Type::TEXT),
        (&header.expected_head, Type::TEXT),
        (&epoch, Type::INT8),
        (&server.owner, Type::TEXT),
        (&turn_id, Type::TEXT),
        (completed_at, Type::INT8),
        (&header.parent_turn_id, Type::TEXT),
        (&identity.persona, Type::TEXT),
        (&identity.agent, Type::TEXT),
        (&ends, Type::BOOL),
        (&header.run_id, Type::TEXT),
        (&header.started_at, Type::INT8),
        (&ended_at, Type::INT8),
        (&compaction.provider, Type::TEXT),
        (&compaction.model, Type::TEXT),
        (&role, Type::TEXT),
        (&usage.cost, Type::FLOAT8),
        (&head.bytes, Type::BYTEA),
        (&outcome.bytes, Type::BYTEA),
        (&checksum, Type::INT8),
        (&compaction.first_kept_turn_id, Type::TEXT),
        (&compaction.summarized_through_turn_id, Type::TEXT),
        (&row.bytes, Type::BYTEA),
        (&row.checksum, Type::INT8),
    ];
    for count in &tokens {
        params.push((count, Type::INT8));
    }
    params.push((&usage.estimated, Type::BOOL));
    params.extend(messages.params());
    let rows = client.query_typed(&statement(server, open_turn.is_none()), &params).await?;
    Ok(!rows.is_empty())
}

/// The statement; `of_host` where no turn under way needs the compaction.
fn statement(server: &Server, of_host: bool) -> String {
    // The table is locked by then, so that a ledger that is being closed is waited for.
    let unless_moved = if of_host { "where @takes_turns()" } else { "" };
    let p = |n: usize| format!("${}", POINTER_PARAMS + 1 + n);
    let [run, started, ended, provider, model, role] = [p(0), p(1), p(2), p(3), p(4), p(5)];
    let [cost, header, outcome, checksum] = [p(6), p(7), p(8), p(9)];
    let [first_kept, through, row, row_checksum] = [p(10), p(11), p(12), p(13)];
    let values: Vec<String> = (14..20).map(p).collect();
    let values = values.join(", ");
    let (total, estimated) = (p(19), p(20));
    let messages = insert_messages("$2", "pointed", POINTER_PARAMS + 22);
    let remembered = match server.live.memory.get() {
        None => String::new(),
        Some(_) => turns::note("$2", "pointed"),
    };
    let sql = format!(
        "with {POINTER},
         summary as (
           insert into @turns (n, id, parent_turn_id, session_label, run_id, turn_type, status, stop_reason, depth,
             thread_tokens, started_at, completed_at, provider, model, role, cost, input_tokens, output_tokens,
             cached_input_tokens, cache_write_tokens, reasoning_tokens, total_tokens, header, outcome, checksum,
             usage_estimated)
           select nextval('@turn_numbers'), $2, $8, $1, {run}, 'compaction', 'completed', 'end_turn', p.depth + 1,
             p.thread_tokens + {total}, {started}, {ended}, {provider}, {model}, {role}, {cost}, {values}, {header},
             {outcome}, {checksum}, {estimated}
           from pointed, parent p {unless_moved}),
         cut as (
           insert into @compactions (turn_id, first_kept_turn_id, summarized_through_turn_id, body, checksum)
           select $2, {first_kept}, {through}, {row}, {row_checksum} from pointed),
         followed as (
           update @turns t set parent_turn_id = $2, expected_head = $2, depth = p.depth + 2, thread_tokens = p.thread_tokens + {total}
           from pointed, parent p where t.id = $6 and t.status = 'streaming'),
         prompt as (delete from @session_prompts p using pointed where p.session_label = $1),
         messages as ({messages}){remembered}
         select head from pointed"
    );
    server.sql(&sql)
}
