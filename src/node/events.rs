//! Stored runs and their events for JavaScript, of this process and of others: where one is, its result, following, watching, abort and
//! steering by session.
//!
//! A page is one request, which is answered when there are events. It must never retain a cancelled request.

use std::sync::{Arc, PoisonError};

use napi::Result;
use napi_derive::napi;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::engine::NativeEngine;
use super::errors::js_error;
use super::reply::{json, reply};
use base::error::{EngineError, ErrorCode};
use model::{
    AgentResult, Cursor, EventPage, Follows, InputError, LedgerPorts, RunFilter, SessionCommand,
    SessionPage, StorageErrorKind, from_json, repair_text, session_label,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Attach {
    #[serde(default)]
    run_id: Option<String>,
    #[serde(default)]
    turn_id: Option<String>,
    after_seq: u64,
}

#[derive(Deserialize)]
struct Watch {
    label: String,
    #[serde(default)]
    cursor: Option<Cursor>,
}

#[derive(Deserialize)]
struct Command {
    label: String,
    #[serde(default)]
    message: Option<String>,
}

fn arguments<T: serde::de::DeserializeOwned>(json: &str) -> std::result::Result<T, EngineError> {
    serde_json::from_str(&repair_text(json))
        .map_err(|error| EngineError::new(ErrorCode::InvalidOptions, error.to_string()))
}

fn label(given: &str) -> std::result::Result<String, EngineError> {
    session_label("label", given).map_err(|error| EngineError::at(ErrorCode::InvalidLabel, error))
}

#[napi]
impl NativeEngine {
    /// The next events of a run; answers request `id`.
    #[napi(catch_unwind)]
    pub fn attach(&self, id: u32, args: String) -> Result<()> {
        let ready = self.known_ledger().and_then(|ledger| {
            let Attach { run_id, turn_id, after_seq } = arguments(&args)?;
            let follows = match (turn_id, run_id) {
                (Some(turn), _) => Follows::Turn(turn),
                (None, run) => Follows::Run(run.unwrap_or_default()),
            };
            Ok((ledger, follows, after_seq))
        });
        let (ledger, follows, after) = ready.map_err(|error| js_error(&error))?;
        self.wait(id, async move { Ok(event_page(&ledger.read.follow(follows, after).await?)) });
        Ok(())
    }

    /// The next events of a session's runs; answers request `id`.
    #[napi(catch_unwind)]
    pub fn watch(&self, id: u32, args: String) -> Result<()> {
        let ready = self.known_ledger().and_then(|ledger| {
            let watch: Watch = arguments(&args)?;
            Ok((ledger, label(&watch.label)?, watch.cursor))
        });
        let (ledger, label, cursor) = ready.map_err(|error| js_error(&error))?;
        // A run that begins after this call may have ended before its page is read.
        let since = self.clock.new_id();
        self.wait(id, async move {
            let label = ledger.read.resolve(label).await?;
            session_page(&ledger.read.watch(&label, cursor, &since).await?)
        });
        Ok(())
    }

    /// Cancels the page of request `id`.
    #[napi(catch_unwind)]
    pub fn leave(&self, id: u32) {
        let waiting = self.followers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cancel) = waiting.as_ref().and_then(|waiting| waiting.get(&id)) {
            cancel.cancel();
        }
    }

    /// The number of the newest stored event of a turn; answers request `id`.
    #[napi(catch_unwind)]
    pub fn last_event(&self, id: u32, turn: String) -> Result<()> {
        let ledger = self.known_ledger().map_err(|error| js_error(&error))?;
        self.answer(id, async move { Ok(ledger.read.last_event(&turn).await?.to_string()) });
        Ok(())
    }

    /// Aborts the run of a session, or, with a message, steers it; answers request `id`.
    #[napi(catch_unwind)]
    pub fn command(&self, id: u32, args: String) -> Result<()> {
        let ready = self.known_ledger().and_then(|ledger| {
            let Command { label: session, message } = arguments(&args)?;
            Ok((ledger, label(&session)?, message))
        });
        let (ledger, label, message) = ready.map_err(|error| js_error(&error))?;
        let engine = Arc::clone(self.engine());
        self.answer(id, async move {
            let label = ledger.read.resolve(label).await?;
            let taken = match message {
                Some(message) => {
                    ledger.admin.command(&label, SessionCommand::Steer(message)).await?
                }
                None => engine.abort_session(&ledger, &label).await?,
            };
            Ok(taken.to_string())
        });
        Ok(())
    }
}

#[napi]
impl NativeEngine {
    /// Where a run is, as the JSON of a `RunInfo`; answers request `id`.
    #[napi(catch_unwind)]
    pub fn run_info(&self, id: u32, run: String) -> Result<()> {
        let ledger = self.known_ledger().map_err(|error| js_error(&error))?;
        self.answer(id, async move { json(&ledger.read.run_info(&run).await?) });
        Ok(())
    }

    /// The runs that match `filter`, the JSON of a `RunFilter`; answers request `id`.
    #[napi(catch_unwind)]
    pub fn runs(&self, id: u32, filter: String) -> Result<()> {
        let ready = self.known_ledger().and_then(|ledger| {
            let code = ErrorCode::Storage(StorageErrorKind::InvalidQuery);
            let filter: RunFilter = from_json(&filter).map_err(|error: InputError| {
                let path = format!("filter.{}", error.path);
                EngineError::at(code, InputError { path, ..error })
            })?;
            if let Some(label) = &filter.session {
                session_label("filter.session", label)
                    .map_err(|error| EngineError::at(ErrorCode::InvalidLabel, error))?;
            }
            Ok((ledger, filter))
        });
        let (ledger, filter) = ready.map_err(|error| js_error(&error))?;
        self.answer(id, async move { json(&ledger.read.runs(filter).await?) });
        Ok(())
    }

    /// The result of a run, once it has ended, as the JSON of an `AgentResult`; answers request `id`, which can be cancelled.
    #[napi(catch_unwind)]
    pub fn result_of(&self, id: u32, run: String) -> Result<()> {
        let ledger = self.known_ledger().map_err(|error| js_error(&error))?;
        self.wait(id, async move { json(&AgentResult::from(ledger.read.ended_run(run).await?)) });
        Ok(())
    }
}

impl NativeEngine {
    pub(super) fn known_ledger(&self) -> std::result::Result<LedgerPorts, EngineError> {
        self.ledger.clone().ok_or_else(|| {
            EngineError::new(
                ErrorCode::NoLedger,
                "the engine has no ledger; pass `ledger: { path }`",
            )
        })
    }

    /// Answers request `id` with the page, or with `null` when it is cancelled or the engine closes.
    pub(super) fn wait(
        &self,
        id: u32,
        page: impl Future<Output = std::result::Result<String, EngineError>> + Send + 'static,
    ) {
        let (hub, followers) = (Arc::clone(self.hub()), Arc::clone(&self.followers));
        let cancel = CancellationToken::new();
        match followers.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            Some(waiting) => drop(waiting.insert(id, cancel.clone())),
            None => cancel.cancel(),
        }
        self.tasks().spawn(async move {
            let answer = tokio::select! {
                biased;
                () = cancel.cancelled() => Ok("null".to_owned()),
                page = page => page,
            };
            if let Some(waiting) = followers.lock().unwrap_or_else(PoisonError::into_inner).as_mut()
            {
                waiting.remove(&id);
            }
            reply(&hub, id, answer);
        });
    }
}

fn event_page(page: &EventPage) -> String {
    let EventPage { turn_id, events, last, over } = page;
    let turn_id = serde_json::Value::from(turn_id.as_str());
    let events = events.join(",");
    format!(r#"{{"turnId":{turn_id},"events":[{events}],"last":{last},"over":{over}}}"#)
}

fn session_page(page: &SessionPage) -> std::result::Result<String, EngineError> {
    let cursor = serde_json::to_string(&page.cursor)
        .map_err(|error| EngineError::new(ErrorCode::Internal, error.to_string()))?;
    let events: Vec<String> = page
        .events
        .iter()
        .map(|(run, turn, event)| {
            let (run, turn) = (serde_json::Value::from(&**run), serde_json::Value::from(&**turn));
            format!(r#"{{"runId":{run},"turnId":{turn},"event":{event}}}"#)
        })
        .collect();
    Ok(format!(r#"{{"cursor":{cursor},"events":[{}]}}"#, events.join(",")))
}
