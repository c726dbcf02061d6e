//! System prompts and layers of contexts for JavaScript: JSON of the arguments in, the answer out. The files of a workspace are
//! read on a blocking thread, beneath its handle.
//!
//! It must never decide what a prompt has: `broker::prompt` does.

use std::path::PathBuf;
use std::sync::Arc;

use napi::Result;
use napi_derive::napi;
use serde::{Deserialize, Serialize};

use super::super::engine::NativeEngine;
use super::super::errors::js_error;
use super::super::hosts::blocking;
use super::super::reply::{Answer, json, reply};
use super::decisions::checked;
use base::error::{EngineError, ErrorCode};
use broker::prompt::{
    BOOTSTRAP_FILES, FileCaps, FilePiece, GivenLayer, Layer, PromptFile, PromptMode, PromptParts,
    build_system_prompt, context_tag, file_pieces, may_have, prompt_layers,
};
use model::{BlockOrigin, InputError, LedgerPorts};
use workspace::{Cancel, Workspace, WorkspaceOptions};

/// The most bytes of a file that are read.
const MOST_BYTES: u64 = 1024 * 1024;

#[derive(Deserialize)]
struct PromptArgs {
    parts: PromptParts,
}

#[derive(Deserialize)]
struct LayerArgs {
    parts: PromptParts,
    /// The files of the session's prompt, where they were read.
    #[serde(default)]
    files: Option<Vec<FilePiece>>,
}

#[derive(Deserialize)]
struct MeasureArgs {
    layers: Vec<GivenLayer>,
}

#[derive(Deserialize)]
struct TagArgs {
    origin: BlockOrigin,
    nonce: String,
    /// Names and values.
    attributes: Vec<(String, String)>,
    text: String,
}

#[derive(Deserialize)]
struct FileArgs {
    session: String,
    request: FileRequest,
}

/// Which files of a workspace a prompt has.
#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct FileRequest {
    workspace: PathBuf,
    /// The files, each of which is expected; without them those of [`BOOTSTRAP_FILES`] that exist.
    #[serde(default)]
    names: Option<Vec<String>>,
    #[serde(default)]
    caps: FileCaps,
    #[serde(default)]
    mode: PromptMode,
    #[serde(default)]
    is_main_session: bool,
}

#[napi]
impl NativeEngine {
    /// A system prompt. `args`: the JSON of `{ parts }`.
    #[napi(catch_unwind)]
    pub fn build_system_prompt(args: String) -> Result<String> {
        let PromptArgs { parts } = checked(&args)?;
        Ok(build_system_prompt(&parts))
    }

    /// The layers of a system prompt, as JSON. `args`: the JSON of `{ parts, files }`.
    #[napi(catch_unwind)]
    pub fn prompt_layers(args: String) -> Result<String> {
        let LayerArgs { parts, files } = checked(&args)?;
        let files = files.unwrap_or_else(|| file_pieces(&parts));
        json(&prompt_layers(&parts, &files)).map_err(|error| js_error(&error))
    }

    /// Layers with their tokens and hashes, as JSON. `args`: the JSON of `{ layers }`.
    #[napi(catch_unwind)]
    pub fn measure_layers(args: String) -> Result<String> {
        let MeasureArgs { layers } = checked(&args)?;
        let layers: Vec<Layer> = layers.into_iter().map(Layer::from).collect();
        json(&layers).map_err(|error| js_error(&error))
    }

    /// A text that is put into a message, in its tag. `args`: the JSON of `{ origin, nonce, attributes, text }`.
    #[napi(catch_unwind)]
    pub fn context_tag(args: String) -> Result<String> {
        let TagArgs { origin, nonce, attributes, text } = checked(&args)?;
        let attributes: Vec<(&str, &str)> =
            attributes.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        Ok(context_tag(origin, &nonce, &attributes, &text))
    }

    /// The files of a session's prompt: those that were stored, else they are read and stored. And those that a compaction will
    /// bring, where they differ; answers request `id`.
    #[napi(catch_unwind)]
    pub fn prompt_files(&self, id: u32, args: String) -> Result<()> {
        let FileArgs { session, request } = checked(&args)?;
        let (ledger, hub) = (self.ledger.clone(), Arc::clone(self.hub()));
        self.tasks().spawn(async move {
            reply(&hub, id, files_of(ledger.as_ref(), session, request).await);
        });
        Ok(())
    }
}

async fn files_of(ledger: Option<&LedgerPorts>, session: String, request: FileRequest) -> Answer {
    let key = json(&request)?;
    let stored = match ledger {
        Some(ledger) => ledger.prompts.prompt_files(&session, &key).await?,
        None => None,
    };
    let read = match read(request.clone()).await {
        Ok(read) => read,
        // What the session has is whole.
        Err(_) if stored.is_some() => None,
        Err(error) => return Err(error),
    };
    let FileRequest { caps, mode, is_main_session, .. } = request;
    let read = match read {
        Some(files) => {
            let parts =
                PromptParts { caps, mode, is_main_session, files, ..PromptParts::default() };
            Some(json(&file_pieces(&parts))?)
        }
        None => None,
    };
    let files = match (stored, read) {
        (Some(stored), Some(next)) if next != stored => {
            return Ok(format!(r#"{{"files":{stored},"next":{next}}}"#));
        }
        (Some(stored), _) => stored,
        (None, None) => "[]".to_owned(),
        (None, Some(files)) => {
            if let Some(ledger) = ledger {
                ledger.prompts.set_prompt_files(session, key, files.clone()).await?;
            }
            files
        }
    };
    Ok(format!(r#"{{"files":{files}}}"#))
}

/// The files; `None` where the folder cannot be opened and none of its files is expected.
async fn read(request: FileRequest) -> std::result::Result<Option<Vec<PromptFile>>, EngineError> {
    let FileRequest { workspace, names, mode, is_main_session, .. } = request;
    let is_expected = names.is_some();
    let names = names.unwrap_or_else(|| BOOTSTRAP_FILES.map(ToOwned::to_owned).to_vec());
    let names: Vec<String> =
        names.into_iter().filter(|name| may_have(name, mode, is_main_session)).collect();
    if names.is_empty() {
        return Ok(Some(Vec::new()));
    }
    let options = WorkspaceOptions {
        workspace,
        read_roots: Vec::new(),
        protect: Vec::new(),
        ..WorkspaceOptions::default()
    };
    let opened = tokio::task::spawn_blocking(move || Workspace::open(&options)).await;
    let opened = opened.map_err(|_panic| {
        EngineError::new(ErrorCode::Internal, "a workspace could not be opened; see standard error")
    })?;
    let workspace = match opened {
        Ok(workspace) => Arc::new(workspace),
        Err(_) if !is_expected => return Ok(None),
        Err(error) => {
            let path = format!("agents.{}", error.field);
            return Err(EngineError::option(InputError { path, message: error.message }));
        }
    };
    let read = blocking(workspace, false, Cancel::default(), move |workspace, cancel| {
        let file = |path: String| match workspace.text(&path, MOST_BYTES, cancel) {
            Ok(None) if !is_expected => None,
            Ok(content) => Some(PromptFile { path, content, problem: None }),
            Err(error) => {
                Some(PromptFile { path, content: None, problem: Some(error.to_string()) })
            }
        };
        Ok(names.into_iter().filter_map(file).collect())
    });
    match read.await? {
        Ok(files) => Ok(Some(files)),
        // Each file has its own error.
        Err(error) => Err(EngineError::new(ErrorCode::Internal, error.to_string())),
    }
}
