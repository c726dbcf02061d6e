//! The schedules of a broker for JavaScript: it computes their times. It must never decide which of them are due.

use std::sync::Arc;

use napi::Result;
use napi_derive::napi;
use serde::Deserialize;

use super::super::errors::js_error;
use super::dispatch::{NativeBroker, new_item};
use super::json::{receipt_json, schedule_json};
use base::error::EngineError;
use model::{Firing, from_json};

/// A schedule that is defined, as JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Definition {
    id: String,
    spec: String,
    item: String,
    #[serde(default)]
    next_at: Option<i64>,
}

/// A due time that is taken, as JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Taken {
    id: String,
    due: i64,
    #[serde(default)]
    next_at: Option<i64>,
    /// The time that the message is for.
    #[serde(default)]
    at: Option<i64>,
    /// The message, as `send` takes it.
    #[serde(default)]
    item: Option<String>,
}

impl Taken {
    fn firing(self) -> std::result::Result<Firing, EngineError> {
        let message = match (self.item, self.at) {
            (Some(item), Some(at)) => Some((Box::new(new_item(&item)?), at)),
            _ => None,
        };
        Ok(Firing { id: self.id, due: self.due, next_at: self.next_at, message })
    }
}

#[napi]
impl NativeBroker {
    /// Defines a schedule; answers request `id` with what is stored.
    #[napi(catch_unwind)]
    pub fn schedule(&self, id: u32, args: String) -> Result<()> {
        let Definition { id: name, spec, item, next_at } =
            from_json(&args).map_err(|error| js_error(&EngineError::option(error)))?;
        let dispatcher = Arc::clone(&self.dispatcher);
        self.answer(id, async move {
            let stored = dispatcher.schedule(name, spec, item, next_at).await?;
            Ok(schedule_json(&stored).to_string())
        });
        Ok(())
    }

    /// Removes a schedule; answers request `id` with whether there was one.
    #[napi(catch_unwind)]
    pub fn unschedule(&self, id: u32, name: String) {
        let dispatcher = Arc::clone(&self.dispatcher);
        self.answer(id, async move { Ok(dispatcher.unschedule(name).await?.to_string()) });
    }

    /// All schedules; answers request `id`.
    #[napi(catch_unwind)]
    pub fn schedules(&self, id: u32) {
        let dispatcher = Arc::clone(&self.dispatcher);
        self.answer(id, async move {
            let rows: Vec<_> = dispatcher.schedules().await?.iter().map(schedule_json).collect();
            Ok(serde_json::Value::from(rows).to_string())
        });
    }

    /// Takes a due time of a schedule and queues its message; answers request `id` with the receipt, or null.
    #[napi(catch_unwind)]
    pub fn fire(&self, id: u32, args: String) -> Result<()> {
        let taken: Taken =
            from_json(&args).map_err(|error| js_error(&EngineError::option(error)))?;
        let firing = taken.firing().map_err(|error| js_error(&error))?;
        let dispatcher = Arc::clone(&self.dispatcher);
        self.answer(id, async move {
            let receipt = dispatcher.fire(firing).await?;
            Ok(receipt.as_ref().map_or_else(|| "null".to_owned(), receipt_json))
        });
        Ok(())
    }
}
