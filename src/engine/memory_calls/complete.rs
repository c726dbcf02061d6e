//! The answer of a model to one text, in one request. It must never read the answer.

use std::sync::Arc;

use super::ask::{CallParts, Question};
use crate::engine::call::Ending;
use model::{
    Block, CallPurpose, Failure, FailureKind, Message, RequestOptions, ResponseFormat, Role, Stop,
    TokenUsage,
};
use provider::ModelRequest;
use turn::estimate;

/// What a model is asked.
#[derive(Debug, Clone)]
pub(crate) struct TextRequest {
    pub(crate) system: String,
    pub(crate) text: String,
    /// The form of the answer, where the API can enforce one.
    pub(crate) format: Option<ResponseFormat>,
    pub(crate) max_tokens: u64,
    /// The session that pays.
    pub(crate) session_label: String,
}

/// An answer, and what it cost.
#[derive(Debug, Clone, Default)]
pub(crate) struct CompletedText {
    pub(crate) text: String,
    pub(crate) usage: TokenUsage,
    /// US dollars; `None` for a model without a price.
    pub(crate) cost: Option<f64>,
}

/// Asks a model in one call.
pub(crate) async fn complete(
    parts: CallParts<'_>,
    input: TextRequest,
) -> Result<CompletedText, Failure> {
    let target = parts.target();
    let clock = &parts.shared.clock;
    let question = Message {
        id: clock.new_id(),
        role: Role::User,
        blocks: vec![Block::text(input.text.as_str())],
        sequence: 0,
        created_at: clock.now_ms(),
        provenance: None,
        provider_stop_reason: None,
    };
    let tokens = estimate::text_tokens(&input.text) + estimate::text_tokens(&input.system);
    let options = RequestOptions { response_format: input.format, ..RequestOptions::default() };
    let request = ModelRequest {
        model: target.model_name.clone(),
        system: input.system,
        messages: vec![target.provider.encode_messages(std::slice::from_ref(&question))],
        open_end: true,
        max_tokens: input.max_tokens.min(target.model.max_output_tokens).max(1),
        options: Arc::new(options),
        reasoning_model: target.model.reasoning,
        ..ModelRequest::default()
    };
    let session_label = input.session_label.as_str();
    let purpose = CallPurpose::Extract;
    let called = parts.ask(&target, Question { purpose, session_label, request, tokens }).await?;
    if let Ending::Completed(completion) = &called.ending
        && matches!(completion.stop, Stop::Refusal | Stop::ContentFilter)
    {
        let message = format!("the model stopped with `{}`", completion.stop_raw);
        return Err(Failure::new(FailureKind::Refusal, "refusal", message));
    }
    let (usage, cost) = (called.tokens(), called.cost);
    let blocks = called.reply.map(|reply| reply.blocks).unwrap_or_default();
    let text = blocks.iter().filter_map(Block::as_text).collect();
    Ok(CompletedText { text, usage, cost })
}
