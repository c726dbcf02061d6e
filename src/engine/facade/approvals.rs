//! Approvals as a host uses them: lists them, decides about them, provides results.
//!
//! Every process of a ledger may call these; the one that has the run, or resumes it, continues the turn. It must never run a
//! tool.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::super::recovery::journal_of;
use super::super::state::arguments_hash;
use super::engine::Engine;
use base::error::{EngineError, ErrorCode};
use model::{
    Approval, ApprovalDecision, ApprovalFilter, ApprovalName, ApprovalStore, ApprovalVerdict,
    ApprovedParams, AssembledContext, Defaults, InputError, Page, StorageError, StorageErrorKind,
    parse_context, quoted,
};
use tools::ToolAnswer;

impl Engine {
    /// A page of the approvals that match a filter, oldest first. One that nobody has decided about in time has expired.
    ///
    /// # Errors
    /// `no_ledger`; any of storage.
    pub(crate) async fn approvals(
        &self,
        mut filter: ApprovalFilter,
    ) -> Result<Page<Approval>, EngineError> {
        let store = self.approval_store()?;
        if let Some(session) = &mut filter.session {
            *session = journal_of(&self.shared)?.session_named(session).await?;
        }
        Ok(store.approvals(filter).await?)
    }

    /// Approves a call, with other arguments where `params` has some: JSON text of an object. They are checked against the
    /// schema of the turn's tool.
    ///
    /// # Errors
    /// `unknown_approval`; `already_decided`; `invalid_params`; `no_ledger`; any of storage. Nothing is decided then.
    pub(crate) async fn approve(
        &self,
        id: String,
        params: Option<String>,
        by: Option<String>,
    ) -> Result<Approval, EngineError> {
        let params = match params {
            Some(params) => Some(self.checked_params(&id, &params).await?),
            None => None,
        };
        let verdict = ApprovalVerdict::Approve(params);
        self.decide(ApprovalDecision { of: ApprovalName::Id(id), verdict, by }).await
    }

    /// Denies a call. The model reads the reason as the call's failure.
    ///
    /// # Errors
    /// `unknown_approval`; `already_decided`; `no_ledger`; any of storage.
    pub(crate) async fn deny(
        &self,
        id: String,
        reason: String,
        by: Option<String>,
    ) -> Result<Approval, EngineError> {
        let verdict = ApprovalVerdict::Deny(reason);
        self.decide(ApprovalDecision { of: ApprovalName::Id(id), verdict, by }).await
    }

    /// Provides the result of a call whose tool runs elsewhere: the JSON of an answer, as the host of tools gives it.
    ///
    /// # Errors
    /// `unknown_approval` for a call that waits for no result; `already_decided`; `no_ledger`; any of storage.
    pub(crate) async fn provide_tool_result(
        &self,
        call_id: String,
        answer: String,
        by: Option<String>,
    ) -> Result<Approval, EngineError> {
        if ToolAnswer::parse(&answer).is_none() {
            let message = "is not the answer of a tool".to_owned();
            let error = InputError { path: "result".to_owned(), message };
            return Err(EngineError::at(ErrorCode::InvalidParams, error));
        }
        let verdict = ApprovalVerdict::Provide(answer);
        self.decide(ApprovalDecision { of: ApprovalName::Call(call_id), verdict, by }).await
    }

    fn approval_store(&self) -> Result<&Arc<dyn ApprovalStore>, EngineError> {
        journal_of(&self.shared)?;
        self.shared.approvals.as_ref().ok_or_else(|| {
            EngineError::new(ErrorCode::NoLedger, "the engine's ledger stores no approvals")
        })
    }

    async fn decide(&self, decision: ApprovalDecision) -> Result<Approval, EngineError> {
        Ok(self.approval_store()?.decide(decision).await?)
    }

    /// The arguments with which a call is approved, valid by the schema of its turn's tool.
    async fn checked_params(&self, id: &str, params: &str) -> Result<ApprovedParams, EngineError> {
        let store = self.approval_store()?;
        let unknown = || {
            let message = format!(
                "the ledger has no open approval {}; pass an id that `approvals()` lists",
                quoted(id)
            );
            EngineError::from(StorageError::new(StorageErrorKind::UnknownApproval, message))
        };
        let approval = store.approval(id).await?.ok_or_else(unknown)?;
        let Some(turn) = store.open_turn(&approval.turn_id).await? else {
            // Its turn has ended, and with it the approval: the decision is refused for that.
            return Ok(ApprovedParams { json: params.to_owned(), hash: String::new() });
        };
        let invalid = |message: String| {
            let error = InputError { path: "params".to_owned(), message };
            EngineError::at(ErrorCode::InvalidParams, error)
        };
        let unreadable = || invalid("the tools of the turn cannot be read".to_owned());
        let json = turn.context_json().map_err(|_| unreadable())?;
        let context = self.stored_context(&json).map_err(|_| unreadable())?;
        let tool_set = self
            .tool_sets
            .get_or_compile(&context.tools_json, &context.tools)
            .map_err(EngineError::context)?;
        let prepared = tool_set.prepare(&approval.tool_name, params).await.map_err(invalid)?;
        let json = RawValue::from_string(prepared.arguments_json)
            .map_err(|_| invalid("are not JSON".to_owned()))?;
        Ok(ApprovedParams { hash: arguments_hash(&json), json: json.get().to_owned() })
    }

    fn stored_context(&self, json: &str) -> Result<AssembledContext, InputError> {
        let clock = &self.shared.clock;
        let mut new_id = || clock.new_id();
        parse_context(json, &mut Defaults { new_id: &mut new_id, now_ms: clock.now_ms() })
    }
}
