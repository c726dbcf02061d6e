//! One turn of a transfer: read whole, and written in one statement with its messages, calls and approvals.

use std::collections::HashSet;

use model::{AgentToolCall, CompactionResult, Metadata, StorageError, StorageErrorKind};
use portable::{MessageNotes, MessageRecord, Parent, Stored, TurnRecord};
use tokio_postgres::types::Type;

use crate::connect::error::damaged;
use crate::connect::server::Param;
use crate::journal::pointer::unknown_turn;
use crate::queue::approvals;
use crate::rows::body;
use crate::rows::turn_body::{HeaderBody, OutcomeBody, integer};
use crate::rows::turn_read::{self, MESSAGE, TURN, get};
use crate::rows::written::{Calls, Messages, insert_calls, insert_messages};
use crate::transfer::rows::ServerRows;

impl ServerRows<'_> {
    pub(crate) async fn read_turn(&self, id: &str) -> Stored<TurnRecord> {
        let select = format!(
            "select {TURN}, c.body, c.checksum as cut_checksum from @turns t left join @compactions c on c.turn_id = t.id
             where t.id = $1 and t.status <> 'streaming'"
        );
        let messages = format!(
            "select {MESSAGE}, context_json from @messages where turn_id = $1 order by sequence"
        );
        let calls =
            "select id, body, checksum from @tool_calls where turn_id = $1 order by sequence";
        let of: [Param<'_>; 1] = [(&id, Type::TEXT)];
        let (rows, messages, calls) =
            tokio::join!(self.rows(&select, &of), self.rows(&messages, &of), self.rows(calls, &of));
        let rows = rows?;
        let row = rows.first().ok_or_else(|| unknown_turn(id))?;
        let mut turn = turn_read::turn(row)?;
        turn.tool_calls = calls?.iter().map(turn_read::call).collect::<Stored<_>>()?;
        if let Some(bytes) = get::<Option<&[u8]>>(row, "body")? {
            let what = format!("compaction `{id}`");
            let cut: CompactionResult = body::decode(bytes, get(row, "cut_checksum")?, &what)?;
            turn.compaction = Some(cut);
        }
        let mut notes = Vec::new();
        for row in &messages? {
            let what = format!("message `{}`", get::<&str>(row, "id")?);
            let record: MessageRecord =
                body::decode(get(row, "body")?, get(row, "checksum")?, &what)?;
            let MessageRecord { message, metadata_json, .. } = record;
            let layers = get::<Option<&str>>(row, "context_json")?.map(serde_json::from_str);
            let altered =
                |_| damaged(format_args!("the layers of {what} are not as they were written"));
            let layers = layers.transpose().map_err(altered)?;
            turn.messages.push(message.into());
            notes.push(MessageNotes { metadata_json, layers });
        }
        Ok(TurnRecord::of(turn, notes))
    }

    pub(crate) async fn write_turn(
        &self,
        turn: &TurnRecord,
        parent: Option<&Parent>,
    ) -> Stored<()> {
        let mut ids = HashSet::new();
        if let Some(twice) = turn.messages.iter().find(|it| !ids.insert(it.message.id.as_str())) {
            let message = format!("the turn has two messages with the id `{}`", twice.message.id);
            return Err(StorageError::new(StorageErrorKind::Constraint, message));
        }
        let header = body::encode(&HeaderBody {
            toolset_name: turn.toolset_name.clone(),
            tools_available: turn.tools_available.clone(),
            permissions_granted: turn.permissions_granted.clone(),
            query_message_ids: turn.query_message_ids.clone(),
            source_event_id: turn.source_event_id.clone(),
            workspace_path: turn.workspace_path.clone(),
            metadata: turn.metadata.as_ref().map(|it| it.as_str().to_owned()),
        })?;
        let outcome = body::encode(&OutcomeBody {
            usage_estimated: turn.usage_estimated,
            context_tokens: turn.context_tokens,
            query_message_ids: turn.query_message_ids.clone(),
            response_message_id: turn.response_message_id.clone(),
            error: turn.error.clone(),
            attempts: turn.attempts.clone(),
            permissions_used: turn.permissions_used.clone(),
        })?;
        let calls: Vec<AgentToolCall> =
            turn.tool_calls.iter().map(|it| Self::call(it, &ids)).collect();
        let (messages, calls) =
            (Messages::of_records(&turn.messages)?, Calls::of(&calls, self.clock)?);
        let usage = turn.usage;
        let usage = [
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_input_tokens,
            usage.cache_write_tokens,
            usage.reasoning_tokens,
            usage.total_tokens,
        ]
        .map(integer);
        let [_, _, _, _, _, total] = usage;
        let tokens = parent.map_or(0, |it| it.thread_tokens).saturating_add(total);
        let depth = parent.map_or(0, |it| it.depth + 1);
        let count = i64::try_from(turn.tool_calls.len()).unwrap_or(i64::MAX);
        let parent = parent.map(|it| it.id.as_str());
        let metadata = turn.metadata.as_ref().map(Metadata::as_str);
        let checksum = header.checksum ^ outcome.checksum;
        let mut params: Vec<Param<'_>> = vec![
            (&turn.id, Type::TEXT),
            (&parent, Type::TEXT),
            (&turn.session_label, Type::TEXT),
            (&turn.run_id, Type::TEXT),
            (&turn.turn_type, Type::TEXT),
            (&turn.status, Type::TEXT),
            (&turn.stop_reason, Type::TEXT),
            (&depth, Type::INT8),
            (&tokens, Type::INT8),
            (&turn.started_at, Type::INT8),
            (&turn.completed_at, Type::INT8),
            (&turn.provider, Type::TEXT),
            (&turn.model, Type::TEXT),
            (&turn.role, Type::TEXT),
            (&count, Type::INT8),
            (&turn.cost, Type::FLOAT8),
            (&header.bytes, Type::BYTEA),
            (&outcome.bytes, Type::BYTEA),
            (&checksum, Type::INT8),
            (&turn.usage_estimated, Type::BOOL),
            (&metadata, Type::TEXT),
        ];
        params.extend(usage.iter().map(|it| -> Param<'_> { (it, Type::INT8) }));
        let first = params.len() + 1;
        let text = format!(
            "with of as (select 1), turn as (
               insert into @turns (n, id, parent_turn_id, session_label, run_id, turn_type, status, stop_reason, depth,
                 thread_tokens, started_at, completed_at, provider, model, role, tool_call_count, cost, header, outcome,
                 checksum, usage_estimated, metadata, input_tokens, output_tokens, cached_input_tokens, cache_write_tokens,
                 reasoning_tokens, total_tokens, is_run)
               select nextval('@turn_numbers'), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17,
                 $18, $19, $20, $21::jsonb, $22, $23, $24, $25, $26, $27,
                 $5 = 'normal' and not exists (select from @turns where run_id = $4 and is_run)),
             messages as ({}) {}",
            insert_messages("$1", "of", first),
            insert_calls("$1", "of", first + Messages::PARAMS)
        );
        params.extend(messages.params());
        params.extend(calls.params());
        self.rows(&text, &params).await?;
        self.write_approvals(turn).await
    }

    /// A call as it is stored: it names no message that the turn does not have.
    fn call(call: &AgentToolCall, messages: &HashSet<&str>) -> AgentToolCall {
        let mut call = call.clone();
        if !messages.contains(call.message_id.as_str()) {
            call.message_id.clear();
        }
        call
    }

    async fn write_approvals(&self, turn: &TurnRecord) -> Stored<()> {
        for approval in &turn.approvals {
            // Nobody can decide about a call of an ended turn.
            let status = match approval.status {
                model::ApprovalStatus::Pending => model::ApprovalStatus::Cancelled,
                decided => decided,
            };
            let (body, status) = (approvals::body(approval)?, status.as_str());
            let text = "insert into @approvals (id, status, turn_id, run_id, session_label, call_id, reason, expires_at,
                 decided_at, result, body) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)";
            let params: [Param<'_>; 11] = [
                (&approval.id, Type::TEXT),
                (&status, Type::TEXT),
                (&approval.turn_id, Type::TEXT),
                (&approval.run_id, Type::TEXT),
                (&approval.session_label, Type::TEXT),
                (&approval.call_id, Type::TEXT),
                (&approval.reason, Type::TEXT),
                (&approval.expires_at, Type::INT8),
                (&approval.decided_at, Type::INT8),
                (&approval.result_json, Type::TEXT),
                (&body, Type::TEXT),
            ];
            self.rows(text, &params).await?;
        }
        Ok(())
    }
}
