//! The task that has a model extract the facts of turns, one turn after the other, behind the indexer.
//!
//! An answer that cannot be used is repaired once; a turn whose answers cannot be used is skipped and counted. A service that fails is called
//! again after a growing wait. It must never store a part of an answer, or a fact of a turn twice.

use std::sync::Arc;
use std::time::Duration;

use serde_json::value::to_raw_value;

use super::extraction_model::ExtractionModel;
use super::facts::input;
use super::indexer::wait_for_service;
use super::secrets::clipped;
use super::service::Memory;
use crate::engine::TextRequest;
use base::clock;
use memory::extract::{ANSWER_TOKENS, FoundFact, INSTRUCTIONS, question, read, repair, schema};
use model::{
    CallPurpose, ExtractedFact, FactSource, Failure, FailureKind, MemoryFact, PendingTurn,
    ResponseFormat, StorageError, UnextractedTurn,
};

/// The answers about one turn that may be unusable before it is skipped, over all processes.
const MOST_ATTEMPTS: u32 = 3;
/// The calls about one turn that may get no answer in time, in a row. The service may be slow for all turns, or for this one.
const MOST_TIMEOUTS: u32 = 5;
/// The bytes of a text that are read for keys: more of it is not sent.
const MOST_READ: usize = 64 * 1024;

/// Why a turn's facts were not extracted.
enum Unextracted {
    /// The turn is the reason: another may succeed.
    Turn(String),
    /// The service did not answer in time.
    Slow { message: String, wait: Duration },
    /// It may succeed later.
    Passing { message: String, wait: Duration },
}

/// The calls in a row that got no answer in time.
#[derive(Default)]
struct Timeouts {
    turn_id: String,
    count: u32,
}

impl From<StorageError> for Unextracted {
    fn from(error: StorageError) -> Self {
        Self::Passing { message: error.message, wait: Duration::ZERO }
    }
}

impl From<Failure> for Unextracted {
    fn from(failure: Failure) -> Self {
        let is_of_turn = matches!(
            failure.kind,
            FailureKind::Format | FailureKind::ContextOverflow | FailureKind::Refusal
        );
        if is_of_turn && failure.code.as_deref() != Some("on_request_failed") {
            return Self::Turn(failure.message);
        }
        let (message, wait) = (failure.message, failure.retry_after.unwrap_or_default());
        match failure.kind {
            FailureKind::Timeout => Self::Slow { message, wait },
            _ => Self::Passing { message, wait },
        }
    }
}

impl Memory {
    /// Extracts facts as turns are indexed, until the engine closes.
    pub(super) async fn extract_facts(self: Arc<Self>) {
        let Some(extractor) = &self.parts.extractor else { return };
        let mut failures = 0;
        let mut timeouts = Timeouts::default();
        loop {
            let done = tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                done = self.extract_next(extractor, &mut timeouts) => done,
            };
            let wait = match done {
                Ok(Some(problem)) => {
                    failures = 0;
                    self.progress().extraction = problem;
                    continue;
                }
                Ok(None) => None,
                Err((message, wait)) => {
                    failures += 1;
                    self.progress().extraction = Some(message);
                    Some(wait_for_service(failures, wait))
                }
            };
            let waited = async {
                match wait {
                    None => self.turn_indexed.notified().await,
                    Some(wait) => tokio::time::sleep(wait).await,
                }
            };
            tokio::select! {
                biased;
                () = self.closing.cancelled() => return,
                () = waited => {}
            }
        }
    }

    /// Extracts the facts of the next turn. `None`: there is none; else the problem of a turn that could not be used.
    async fn extract_next(
        &self,
        extractor: &ExtractionModel,
        timeouts: &mut Timeouts,
    ) -> Result<Option<Option<String>>, (String, Duration)> {
        let of_store = |error: StorageError| (error.message, Duration::ZERO);
        let store = &self.parts.store;
        let next = store.unextracted(1).await.map_err(of_store)?;
        let Some(UnextractedTurn { turn, attempts }) = next.into_iter().next() else {
            return Ok(None);
        };
        let id = turn.turn_id.clone();
        let found = match self.facts_of(extractor, &turn).await {
            Ok(found) => found,
            Err(Unextracted::Passing { message, wait }) => return Err((message, wait)),
            Err(Unextracted::Slow { message, wait }) => {
                if timeouts.turn_id != id {
                    *timeouts = Timeouts { turn_id: id.clone(), count: 0 };
                }
                timeouts.count += 1;
                if timeouts.count >= MOST_TIMEOUTS {
                    store.not_extracted(id, message.clone(), true).await.map_err(of_store)?;
                }
                return Err((message, wait));
            }
            Err(Unextracted::Turn(problem)) => {
                let gives_up = attempts + 1 >= MOST_ATTEMPTS;
                let noted = store.not_extracted(id, problem.clone(), gives_up).await;
                noted.map_err(of_store)?;
                // The next one need not wait for a turn that is the reason itself.
                let wait = if gives_up { return Ok(Some(Some(problem))) } else { Duration::ZERO };
                return Err((problem, wait));
            }
        };
        let facts = found.into_iter().filter_map(|fact| self.extracted_fact(&turn, fact)).collect();
        if store.extracted(id, facts).await.map_err(of_store)? {
            self.chunk_written.notify_one();
        }
        Ok(Some(None))
    }

    /// The facts that the model finds in a turn.
    async fn facts_of(
        &self,
        extractor: &ExtractionModel,
        turn: &PendingTurn,
    ) -> Result<Vec<FoundFact>, Unextracted> {
        let keys = self.parts.engine.known_keys();
        let texts: Vec<(&str, String)> = turn
            .texts
            .iter()
            .map(|it| (it.role.as_str(), keys.clean(clipped(&it.text, MOST_READ))))
            .collect();
        if texts.iter().all(|(_, text)| text.trim().is_empty()) {
            return Ok(Vec::new());
        }
        let date = clock::date(turn.texts.first().map_or(0, |text| text.created_at));
        let asked = question(&date, texts.iter().map(|(role, text)| (*role, text.as_str())));
        let answer = self.ask(extractor, turn, asked.clone()).await?;
        let problems = match read(&answer) {
            Ok(found) => return Ok(found),
            Err(problems) => problems,
        };
        let again = repair(&asked, &answer, &problems);
        let answer = self.ask(extractor, turn, again).await?;
        read(&answer).map_err(|problems| {
            let problems = problems.join("; ");
            Unextracted::Turn(format!("the model's answer could not be used: {problems}"))
        })
    }

    /// One call of the model.
    async fn ask(
        &self,
        extractor: &ExtractionModel,
        turn: &PendingTurn,
        text: String,
    ) -> Result<String, Unextracted> {
        let ExtractionModel { options, to, spending } = extractor;
        let budget = options.budget;
        if budget.max_tokens.is_some() || budget.max_cost.is_some() {
            let now = self.parts.clock.now_ms();
            let spent = self.parts.store.extraction_spent(now).await?;
            #[expect(clippy::cast_precision_loss, reason = "a sum of money")]
            let dollars = spent.nanos as f64 / 1e9;
            if budget.max_tokens.is_some_and(|most| spent.tokens >= most)
                || budget.max_cost.is_some_and(|most| dollars >= most)
            {
                let message = "the budget of `memory.facts.extract` is used up for today (UTC)";
                return Err(Unextracted::Passing {
                    message: message.to_owned(),
                    wait: Duration::from_secs(60),
                });
            }
        }
        let request = TextRequest {
            system: INSTRUCTIONS.to_owned(),
            text,
            format: Some(ResponseFormat::JsonSchema {
                name: Some("facts".to_owned()),
                schema: schema(),
                strict: None,
            }),
            max_tokens: ANSWER_TOKENS,
            session_label: turn.session_label.clone(),
        };
        let done = self.parts.engine.complete(to, request).await?;
        spending.note(to, CallPurpose::Extract, &turn.session_label, done.usage, done.cost);
        Ok(done.text)
    }

    fn extracted_fact(&self, turn: &PendingTurn, found: FoundFact) -> Option<ExtractedFact> {
        let FoundFact { entity, of_type, content, confidence, replaces } = found;
        let now = self.parts.clock.now_ms();
        let fact = MemoryFact {
            id: self.parts.clock.new_id(),
            entity,
            r#type: of_type,
            content: to_raw_value(&content).ok()?,
            scope: self.parts.options.scopes.scope_of(&turn.identity),
            source: FactSource { turn_id: Some(turn.turn_id.clone()), call_id: None },
            confidence,
            valid_from: turn.texts.first().map_or(now, |text| text.created_at),
            valid_to: None,
            superseded_by: None,
            created_at: now,
        };
        let fact = self.without_keys(fact);
        Some(ExtractedFact { input: input(fact), replaces })
    }
}
