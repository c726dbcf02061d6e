//! The outbox of a broker for JavaScript: what a host passes on, and its answers. It must never decide anything.

use std::sync::Arc;

use napi::Result;
use napi_derive::napi;
use serde::Deserialize;

use super::super::errors::js_error;
use super::dispatch::NativeBroker;
use super::json::delivery_json;
use base::error::EngineError;
use model::{DeliveryFilter, DeliveryOutcome, DeliveryStatus, from_json};

/// A list of deliveries, as JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Deliveries {
    status: DeliveryStatus,
    #[serde(default)]
    session: Option<String>,
    #[serde(default)]
    after: Option<String>,
    limit: u32,
}

#[napi]
impl NativeBroker {
    /// JavaScript takes deliveries from now on, or no more.
    #[napi(catch_unwind)]
    pub fn listen(&self, is_listening: bool) {
        self.dispatcher.listen(is_listening);
    }

    /// JavaScript answers none of its deliveries any more.
    #[napi(catch_unwind)]
    pub fn abandon_deliveries(&self) {
        self.dispatcher.abandon_deliveries();
    }

    /// Answers the delivery of a turn: `delivered`, `failed` with the reason, or `released`; answers request `id` when that is stored.
    #[napi(catch_unwind)]
    pub fn answer_delivery(
        &self,
        id: u32,
        turn_id: String,
        outcome: String,
        error: Option<String>,
    ) {
        let outcome = match outcome.as_str() {
            "delivered" => DeliveryOutcome::Delivered,
            "failed" => DeliveryOutcome::Failed(error.unwrap_or_default()),
            _ => DeliveryOutcome::Released,
        };
        let dispatcher = Arc::clone(&self.dispatcher);
        self.answer(id, async move {
            dispatcher.answered(turn_id, outcome).await;
            Ok("null".to_owned())
        });
    }

    /// JavaScript has passed the answer of a turn on itself; answers request `id` with whether something waited for that.
    #[napi(catch_unwind)]
    pub fn delivered(&self, id: u32, turn_id: String) {
        let dispatcher = Arc::clone(&self.dispatcher);
        self.answer(id, async move { Ok(dispatcher.acknowledge(turn_id).await?.to_string()) });
    }

    /// Hands a parked delivery out again; answers request `id` with whether it was parked.
    #[napi(catch_unwind)]
    pub fn redeliver(&self, id: u32, turn_id: String) {
        let dispatcher = Arc::clone(&self.dispatcher);
        self.answer(id, async move { Ok(dispatcher.redeliver(turn_id).await?.to_string()) });
    }

    /// The deliveries of a filter, as JSON; answers request `id`.
    #[napi(catch_unwind)]
    pub fn deliveries(&self, id: u32, filter: String) -> Result<()> {
        let filter: Deliveries =
            from_json(&filter).map_err(|error| js_error(&EngineError::option(error)))?;
        let filter = DeliveryFilter {
            status: filter.status,
            session_label: filter.session,
            after: filter.after,
            limit: filter.limit,
        };
        let dispatcher = Arc::clone(&self.dispatcher);
        self.answer(id, async move {
            let rows = dispatcher.deliveries(filter).await?;
            let rows: Vec<_> = rows.iter().map(delivery_json).collect();
            Ok(serde_json::Value::from(rows).to_string())
        });
        Ok(())
    }
}
