//! Vectors of texts, in one request. It must never judge a vector.

use std::sync::Arc;

use super::ask::{CallParts, Question, SESSION};
use crate::engine::call::Ending;
use model::{CallPurpose, Failure, TokenUsage};
use provider::{EmbedInput, ModelRequest};
use turn::estimate;

/// Vectors, and what they cost.
#[derive(Debug, Clone, Default)]
pub(crate) struct EmbeddedTexts {
    pub(crate) vectors: Vec<Vec<f32>>,
    pub(crate) usage: TokenUsage,
    /// US dollars; `None` for a model without a price.
    pub(crate) cost: Option<f64>,
}

/// Embeds texts in one call.
pub(crate) async fn embed(
    parts: CallParts<'_>,
    input: EmbedInput,
) -> Result<EmbeddedTexts, Failure> {
    let target = parts.target();
    let tokens = input.texts.iter().map(|text| estimate::text_tokens(text)).sum();
    let request = ModelRequest {
        model: target.model_name.clone(),
        embed: Some(Arc::new(input)),
        ..ModelRequest::default()
    };
    let (purpose, session_label) = (CallPurpose::Embed, SESSION);
    let called = parts.ask(&target, Question { purpose, session_label, request, tokens }).await?;
    let (usage, cost) = (called.tokens(), called.cost);
    let vectors = match called.ending {
        Ending::Embedded(answer) => answer.vectors,
        Ending::Completed(_) | Ending::Counted(_) | Ending::Failed(_) | Ending::Interrupted(_) => {
            Vec::new()
        }
    };
    Ok(EmbeddedTexts { vectors, usage, cost })
}
