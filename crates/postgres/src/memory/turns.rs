//! The turns that are to be indexed and those whose facts are to be extracted: read with their texts, and taken off their list in the
//! transaction that writes what came of them.
//!
//! It must never take a turn twice, nor read one that still runs.

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::connect::error::{Failure, Stored};
use crate::connect::server::{Param, Server};
use crate::journal::pointer::Identity;
use crate::memory::chunks::{self, Chunk};
use crate::memory::{facts, vectors};
use crate::queue::transaction::Transaction;
use crate::rows::turn_read::{MESSAGE, call, get, message};
use model::{
    AgentToolCall, ExtractedFact, IndexedTurn, MemoryKind, MemoryReindex, PENDING_BYTES,
    PendingText, PendingTurn, Role, SessionIdentity, SessionKey, UnextractedTurn, Vectors,
    summary_of,
};

const READING: &str = "read turns for the memory";

/// The statement's part that notes the turn `turn` for the memory, for each row of `of`, unless it was forgotten while it ran.
pub(crate) fn note(turn: &str, of: &str) -> String {
    format!(
        ", remembered as (insert into @memory_pending (turn_id) select {turn} from {of}
             where not exists (select from @memory_forgotten f where f.kind = 'turn' and f.id = {turn}) on conflict do nothing)"
    )
}

/// The oldest turns that are to be indexed.
pub(crate) async fn pending(
    server: &Server,
    limit: usize,
    with_calls: bool,
) -> Stored<Vec<PendingTurn>> {
    let text = "select t.id, t.session_label, t.turn_type = 'compaction' as is_summary
       from @memory_pending p join @turns t on t.id = p.turn_id where t.status <> 'streaming' order by t.id limit $1";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = server.rows(READING, text, &[(&limit, Type::INT8)]).await?;
    let mut found: Vec<PendingTurn> = Vec::new();
    let mut bytes = 0;
    for row in &rows {
        let turn = with_texts(server, row, get(row, "is_summary")?, with_calls).await?;
        bytes += turn.bytes();
        found.push(turn);
        if bytes >= PENDING_BYTES {
            break;
        }
    }
    Ok(found)
}

/// The oldest turns whose facts are not extracted yet.
pub(crate) async fn unextracted(server: &Server, limit: usize) -> Stored<Vec<UnextractedTurn>> {
    let text = "select t.id, t.session_label, e.attempts from @memory_extractions e join @turns t on t.id = e.turn_id
       where not e.is_skipped order by t.id limit $1";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = server.rows(READING, text, &[(&limit, Type::INT8)]).await?;
    let mut found = Vec::new();
    for row in &rows {
        let attempts = u32::try_from(get::<i32>(row, "attempts")?).unwrap_or(0);
        found
            .push(UnextractedTurn { turn: with_texts(server, row, false, false).await?, attempts });
    }
    Ok(found)
}

async fn with_texts(
    server: &Server,
    row: &Row,
    is_summary: bool,
    with_calls: bool,
) -> Stored<PendingTurn> {
    let (turn_id, session_label): (String, String) = (get(row, "id")?, get(row, "session_label")?);
    let of: [Param<'_>; 1] = [(&turn_id, Type::TEXT)];
    let text = format!(
        "select {MESSAGE} from @messages where turn_id = $1 and role in ('user', 'assistant') order by sequence"
    );
    let mut texts = Vec::new();
    for row in &server.rows(READING, &text, &of).await? {
        let message = message(row)?;
        if !matches!(message.role, Role::User | Role::Assistant) {
            continue;
        }
        let text = message.content();
        let text = if is_summary { summary_of(&text).to_owned() } else { text };
        let role = message.role.as_str().to_owned();
        texts.push(PendingText { role, text, created_at: message.created_at });
    }
    let mut calls: Vec<AgentToolCall> = Vec::new();
    if with_calls {
        let text =
            "select id, body, checksum from @tool_calls where turn_id = $1 order by sequence";
        let rows = server.rows(READING, text, &of).await?;
        calls = rows.iter().map(call).collect::<Stored<_>>()?;
    }
    let identity = identity_of(server, &session_label).await?;
    Ok(PendingTurn { turn_id, session_label, identity, is_summary, texts, calls })
}

/// What decides the scope of a session: that of the session it works for, at the top.
pub(crate) async fn identity_of(server: &Server, label: &str) -> Stored<SessionIdentity> {
    let text = "with recursive above (label, n) as (
         select $1::text collate \"C\", 0
         union all
         select s.parent_session_label, n + 1 from above a join @sessions s on s.label = a.label
         where s.is_subagent and s.parent_session_label is not null and n < 16)
       select a.label, s.persona_id, s.agent_id from above a left join @sessions s on s.label = a.label
       order by a.n desc limit 1";
    let row = server.row(READING, text, &[(&label, Type::TEXT)]).await?;
    let (mut top, mut known): (String, Option<(String, String)>) = (label.to_owned(), None);
    if let Some(row) = row {
        top = get(&row, "label")?;
        let persona: Option<String> = get(&row, "persona_id")?;
        known = persona.zip(get(&row, "agent_id")?);
    }
    let (persona, agent) = known.unwrap_or_else(|| {
        let Identity { persona, agent } = Identity::of(&top);
        let default = || "default".to_owned();
        (persona.unwrap_or_else(default), agent.unwrap_or_else(default))
    });
    let key = SessionKey::parse(&top);
    Ok(SessionIdentity { label: top, kind: key.kind, peer: key.peer, persona, agent })
}

/// Stores the chunks of a turn. False if it is not to be indexed any more.
pub(crate) async fn index(
    transaction: &Transaction<'_>,
    turn: &IndexedTurn,
) -> Result<bool, Failure> {
    chunks::lock(transaction).await?;
    let of: [Param<'_>; 3] = [
        (&turn.turn_id, Type::TEXT),
        (&turn.session_label, Type::TEXT),
        (&turn.is_clipped, Type::BOOL),
    ];
    let take = "with taken as (delete from @memory_pending where turn_id = $1 returning turn_id)
       insert into @memory_turns (turn_id, session_label, is_clipped) select turn_id, $2, $3 from taken
         where not exists (select from @memory_forgotten f where f.kind = 'turn' and f.id = $1) on conflict do nothing";
    if transaction.exec(take, &of).await? == 0 {
        return Ok(false);
    }
    if turn.kind == MemoryKind::Summary {
        // It has what the one before it had.
        let former = "session_label = $1 and kind = 'summary'";
        chunks::delete(transaction, former, &turn.session_label).await?;
    }
    for fact in &turn.facts {
        facts::store(transaction, fact).await?;
    }
    if turn.extracts {
        let note = "insert into @memory_extractions (turn_id, session_label) select $1, $2 where $3 is not null on conflict do nothing";
        transaction.exec(note, &of).await?;
    }
    if turn.chunks.is_empty() {
        return Ok(true);
    }
    let scope = chunks::scope(transaction, &turn.scope).await?;
    for (part, chunk) in (0..).zip(&turn.chunks) {
        let new = Chunk {
            kind: turn.kind.as_str(),
            scope,
            session_label: Some(&turn.session_label),
            turn_id: Some(&turn.turn_id),
            part: Some(part),
            role: Some(&chunk.role),
            fact_id: None,
            text: &chunk.text,
            created_at: chunk.created_at,
        };
        chunks::add(transaction, &new).await?;
    }
    Ok(true)
}

/// Stores the facts of a turn. False if it is not to be extracted any more.
pub(crate) async fn extracted(
    transaction: &Transaction<'_>,
    turn_id: &str,
    found: &[ExtractedFact],
) -> Result<bool, Failure> {
    chunks::lock(transaction).await?;
    let take = "delete from @memory_extractions where turn_id = $1";
    if transaction.exec(take, &[(&turn_id, Type::TEXT)]).await? == 0 {
        return Ok(false);
    }
    for fact in found {
        facts::store_extracted(transaction, fact).await?;
    }
    Ok(true)
}

/// Notes an answer that could not be used.
pub(crate) async fn not_extracted(
    server: &Server,
    turn_id: &str,
    problem: &str,
    gives_up: bool,
) -> Stored<()> {
    let text = "update @memory_extractions set attempts = attempts + 1, problem = $2, is_skipped = $3 where turn_id = $1";
    let of: [Param<'_>; 3] =
        [(&turn_id, Type::TEXT), (&problem, Type::TEXT), (&gives_up, Type::BOOL)];
    // Twice, the turn would be given up a try too early.
    server.once("extract facts", text, &of).await.map(drop)
}

/// Notes the ended turns that are neither indexed nor forgotten, and the extractions that were given up. Returns what is left to do.
pub(crate) async fn again(
    transaction: &Transaction<'_>,
    model: Option<i64>,
    vectors: Vectors,
) -> Result<MemoryReindex, Failure> {
    chunks::lock(transaction).await?;
    let add = "insert into @memory_pending (turn_id) select t.id from @turns t where t.status <> 'streaming'
         and not exists (select from @memory_turns m where m.turn_id = t.id)
         and not exists (select from @memory_forgotten f where f.kind = 'turn' and f.id = t.id)
       on conflict do nothing";
    transaction.exec(add, &[]).await?;
    let retry = "update @memory_extractions set attempts = 0, problem = null, is_skipped = false where is_skipped";
    transaction.exec(retry, &[]).await?;
    match (vectors, model) {
        (Vectors::Anew, _) => vectors::delete_all(transaction).await?,
        (Vectors::Stay, Some(model)) => vectors::delete_former(transaction, model).await?,
        (Vectors::Stay, None) => {}
    }
    let counts = "select (select count(*) from @memory_pending) as turns,
       case when $1 then (select count(*) from @memory_chunks) else 0 end as chunks";
    let anew = vectors == Vectors::Anew;
    let row = transaction.row(counts, &[(&anew, Type::BOOL)]).await?;
    let count = |name: &str| match &row {
        Some(row) => get::<i64>(row, name).map(|it| u64::try_from(it).unwrap_or(0)),
        None => Ok(0),
    };
    Ok(MemoryReindex { turns: count("turns")?, chunks: count("chunks")? })
}
