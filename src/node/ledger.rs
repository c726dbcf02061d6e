//! The ledger's methods for JavaScript: a name and JSON arguments in, an answer through the hub.
//!
//! It must never read or write on the JavaScript thread.

use std::path::PathBuf;
use std::sync::Arc;

use napi::Result;
use napi_derive::napi;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::backend;
use super::backend::copying::{self, CopyPart};
use super::engine::NativeEngine;
use super::errors::js_error;
use super::hub::NativeHub;
use super::reply::{json, reply};
use base::error::{EngineError, ErrorCode};
use model::{
    GivenHistory, InputError, LedgerFormat, LedgerPorts, QueryLimits, StorageError,
    StorageErrorKind, parse_result, repair_surrogates, session_label,
};

#[derive(Deserialize)]
struct Label {
    label: String,
}

#[derive(Deserialize)]
struct Id {
    id: String,
}

#[derive(Deserialize)]
struct Query {
    sql: String,
    params: Box<RawValue>,
}

#[derive(Deserialize)]
struct WriteTurn {
    context: Box<RawValue>,
    result: Box<RawValue>,
}

#[derive(Deserialize)]
struct Target {
    path: PathBuf,
}

#[derive(Deserialize)]
struct Transfer {
    path: PathBuf,
    format: LedgerFormat,
    #[serde(default)]
    session: Option<String>,
}

fn arguments<T: DeserializeOwned>(json: &str) -> std::result::Result<T, EngineError> {
    serde_json::from_str(json).map_err(|error| {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or_default().to_owned();
        EngineError::at(
            ErrorCode::InvalidContext,
            InputError { path: "arguments".to_owned(), message },
        )
    })
}

/// An error of the file that the argument `field` names.
fn at_path(field: &str, error: StorageError) -> EngineError {
    let about = matches!(error.kind, StorageErrorKind::Exists | StorageErrorKind::InvalidImport);
    let field = about.then(|| field.to_owned());
    EngineError { field, ..EngineError::from(error) }
}

#[napi]
impl NativeEngine {
    /// Calls a method of the ledger and answers request `id`. A wrong argument is thrown here.
    #[napi(catch_unwind)]
    pub fn ledger(&self, id: u32, method: String, args: String) -> Result<()> {
        self.call(id, &method, &args).map_err(|error| js_error(&error))
    }
}

#[napi]
impl NativeHub {
    /// Copies everything that is readable in a damaged ledger to a new one; answers request `id`.
    #[napi(catch_unwind)]
    pub fn salvage(&self, id: u32, damaged: String, fresh: String) {
        let hub = Arc::clone(self.core());
        self.tasks().spawn(async move {
            let (damaged, fresh) = (PathBuf::from(damaged), PathBuf::from(fresh));
            let answer = backend::salvage(&damaged, &fresh).await;
            let answer = answer.map_err(|error| match error.kind {
                StorageErrorKind::Exists => at_path("fresh", error),
                _ => at_path("damaged", error),
            });
            reply(&hub, id, answer.and_then(|saved| json(&saved)));
        });
    }
}

impl NativeEngine {
    fn call(&self, id: u32, method: &str, args: &str) -> std::result::Result<(), EngineError> {
        // As in a context, a lone surrogate becomes U+FFFD, so that stored texts are found again.
        let repaired = repair_surrogates(args.as_bytes());
        let args = std::str::from_utf8(&repaired).unwrap_or(args);
        let ledger = self
            .ledger
            .clone()
            .ok_or_else(|| EngineError::new(ErrorCode::NoLedger, "the engine has no ledger"))?;
        match method {
            "session" => {
                let Label { label } = arguments(args)?;
                self.answer(id, async move { json(&ledger.read.session(&label).await?) });
            }
            "history" => {
                let Label { label } = arguments(args)?;
                self.answer(id, async move { json(&ledger.read.history(&label).await?) });
            }
            "turn" => {
                let Id { id: turn } = arguments(args)?;
                self.answer(id, async move { json(&ledger.read.turn(&turn).await?) });
            }
            "uncompact" => {
                let Label { label } = arguments(args)?;
                self.answer(id, async move { json(&ledger.admin.uncompact(&label).await?) });
            }
            "query" => {
                let Query { sql, params } = arguments(args)?;
                self.answer(id, async move {
                    let params = params.get().to_owned();
                    json(&ledger.read.query(sql, params, QueryLimits::default()).await?)
                });
            }
            "verify" => self.answer(id, async move { json(&ledger.admin.verify().await?) }),
            "stats" => self.answer(id, async move { json(&ledger.admin.stats().await?) }),
            "vacuum" => self.answer(id, async move { json(&ledger.admin.vacuum().await?) }),
            "backup" => {
                let Target { path } = arguments(args)?;
                self.answer(id, async move {
                    let copied = ledger.admin.backup(&path).await;
                    json(&copied.map_err(|error| at_path("path", error))?)
                });
            }
            "export" => {
                let Transfer { path, format, session } = arguments(args)?;
                self.answer(id, async move {
                    let report = ledger.admin.export(&path, format, session).await;
                    json(&report.map_err(|error| at_path("path", error))?)
                });
            }
            "copy" => {
                let part: CopyPart = arguments(args)?;
                copying::check(&part)?;
                self.answer(id, copying::part(ledger, part));
            }
            "import" => {
                let Transfer { path, format, session } = arguments(args)?;
                if let Some(label) = &session {
                    session_label("session", label)
                        .map_err(|error| EngineError::at(ErrorCode::InvalidLabel, error))?;
                }
                self.answer(id, async move {
                    let report = ledger.admin.import(&path, format, session).await;
                    json(&report.map_err(|error| at_path("path", error))?)
                });
            }
            "writeTurn" => self.write_turn(id, ledger, args)?,
            other => self.call_list(id, ledger, other, args)?,
        }
        Ok(())
    }

    fn write_turn(
        &self,
        id: u32,
        ledger: LedgerPorts,
        args: &str,
    ) -> std::result::Result<(), EngineError> {
        let WriteTurn { context, result } = arguments(args)?;
        let context = self.context(context.get(), GivenHistory::default())?;
        let turn = self
            .with_defaults(|defaults| parse_result(&context, result.get(), defaults))
            .map_err(EngineError::context)?;
        self.answer(id, async move { json(&ledger.admin.write_turn(turn).await?.turn_id) });
        Ok(())
    }
}
