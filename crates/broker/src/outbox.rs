//! Which turns have a delivery, and what becomes of one that has failed (docs/rules/deliveries.md).

use model::{DeliveryOutcome, DeliveryStatus, StoredDelivery};
use serde::Deserialize;
use serde_json::value::RawValue;

/// The first delay before another try; doubled each time.
const BASE: i64 = 500;
/// The longest delay.
const LONGEST: i64 = 10_000;
/// So many failures park a delivery.
const PARKED: u32 = 7;

/// The part of a stored request that says where the answer goes.
#[derive(Deserialize)]
struct Request<'r> {
    #[serde(borrow, default)]
    target: Option<&'r RawValue>,
    /// Absent where the host passes the answer on itself.
    #[serde(default)]
    outbox: Option<Outbox>,
}

#[derive(Deserialize)]
struct Outbox {
    #[serde(default)]
    silent: Vec<String>,
}

/// What a turn's delivery needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addressed {
    /// The target: JSON.
    pub target: String,
    /// The answers that are not delivered.
    silent: Vec<String>,
}

impl Addressed {
    /// Whether an answer is one that is not delivered: one of the silent texts, and nothing else.
    #[must_use]
    pub fn is_silent(&self, answer: &str) -> bool {
        let answer = bare(answer);
        self.silent.iter().any(|silent| bare(silent) == answer && !answer.is_empty())
    }
}

/// A text without the marks that a model puts around it.
fn bare(text: &str) -> &str {
    text.trim_matches(|it: char| it.is_whitespace() || matches!(it, '*' | '_' | '`' | '"' | '.'))
}

/// Where the answer to messages with these stored requests goes: to the target of the newest one that has one.
#[must_use]
pub fn addressed<'r>(requests: impl DoubleEndedIterator<Item = &'r str>) -> Option<Addressed> {
    requests.rev().find_map(|request| {
        let Request { target, outbox } = serde_json::from_str(request).ok()?;
        let target = target.map(RawValue::get).filter(|target| *target != "null")?;
        Some(Addressed { target: target.to_owned(), silent: outbox?.silent })
    })
}

/// What becomes of a delivery that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterFailure {
    /// It is handed out again at this time, in Unix milliseconds.
    Again(i64),
    /// It waits for the host.
    Parked,
}

/// What becomes of a delivery that has failed for the `failures`th time.
#[must_use]
pub fn after_failure(failures: u32, now: i64) -> AfterFailure {
    if failures >= PARKED {
        return AfterFailure::Parked;
    }
    // 500 ms doubled five times is over the longest delay.
    let doubled = BASE << failures.saturating_sub(1).min(5);
    AfterFailure::Again(now.saturating_add(doubled.min(LONGEST)))
}

/// Ends a claim of a delivery: it is delivered, fails once more, or is released as it was.
pub fn end_claim(delivery: &mut StoredDelivery, outcome: &DeliveryOutcome, now: i64) {
    match outcome {
        DeliveryOutcome::Delivered => {
            delivery.status = DeliveryStatus::Delivered;
            delivery.delivered_at = Some(now);
        }
        DeliveryOutcome::Failed(error) => {
            delivery.failures = delivery.failures.saturating_add(1);
            delivery.error = Some(error.clone());
            match after_failure(delivery.failures, now) {
                AfterFailure::Again(at) => delivery.not_before = at,
                AfterFailure::Parked => delivery.status = DeliveryStatus::Parked,
            }
        }
        DeliveryOutcome::Released => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{AfterFailure, addressed, after_failure};

    #[test]
    fn the_answer_goes_to_the_target_of_the_newest_message_that_has_one() {
        let target = |requests: &[&str]| addressed(requests.iter().copied()).map(|it| it.target);
        let (a, b) = (r#"{"target":{"chat":1},"outbox":{}}"#, r#"{"target":"b","outbox":{}}"#);
        assert_eq!(target(&[a, b, r#"{"identity":1}"#]).as_deref(), Some(r#""b""#));
        assert_eq!(target(&[b, a]).as_deref(), Some(r#"{"chat":1}"#));
        assert_eq!(target(&[r#"{"target":"c"}"#, r#"{"target":null,"outbox":{}}"#, "{}"]), None);
    }

    #[test]
    fn an_answer_is_silent_that_is_one_of_the_texts_and_nothing_else() {
        let request = r#"{"target":1,"outbox":{"silent":["NO_REPLY","HEARTBEAT_OK",""]}}"#;
        let addressed = addressed([request].into_iter()).unwrap();
        let silent = ["NO_REPLY", " **HEARTBEAT_OK**.\n", "`NO_REPLY`"];
        let loud = ["", "NO_REPLY needed", "no_reply", "All is well. HEARTBEAT_OK"];
        assert_eq!(silent.map(|text| addressed.is_silent(text)), [true; 3]);
        assert_eq!(loud.map(|text| addressed.is_silent(text)), [false; 4]);
    }

    #[test]
    fn a_delivery_waits_longer_after_each_failure_and_is_parked_after_the_seventh() {
        let after: Vec<AfterFailure> =
            (1..=7).map(|failures| after_failure(failures, 1_000)).collect();
        let again = [1_500, 2_000, 3_000, 5_000, 9_000, 11_000].map(AfterFailure::Again);
        assert_eq!(after[..6], again);
        assert_eq!(after[6], AfterFailure::Parked);
    }
}
