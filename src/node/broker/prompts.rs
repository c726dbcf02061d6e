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
use crate::engine::PromptSource;
use base::error::{EngineError, ErrorCode};
use broker::prompt::{
    BOOTSTRAP_FILES, FileCaps, FilePiece, GivenLayer, Layer, PromptFile, PromptMode, PromptParts,
    build_system_prompt, context_tag, file_pieces, may_have, prompt_layers,
};
use model::{BlockOrigin, InputError, LedgerPorts, PortFuture};
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
    /// The turn that is resumed; none for a new one.
    #[serde(default)]
    turn: Option<String>,
    request: FileRequest,
}

/// What is stored of a session's prompt.
#[derive(Default, Deserialize, Serialize)]
struct StoredPrompt {
    files: Vec<FilePiece>,
    /// The turn within which they were read, at a compaction.
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<String>,
    /// The system prompt of that turn from then on.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
}

/// How a turn's system prompt is made again after a compaction.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RenewalArgs {
    request: FileRequest,
    parts: PromptParts,
    /// The files that it has now.
    files: Vec<FilePiece>,
    /// Whether it is empty without files.
    needs_files: bool,
    /// What stands before its layers.
    before: String,
    /// What stands after them.
    after: String,
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

    /// The files of a session's prompt: those that were stored, else they are read and stored; and the prompt of the turn that is
    /// resumed, where a compaction has renewed it. Answers request `id`; with null where a resumed turn's are unknown.
    #[napi(catch_unwind)]
    pub fn prompt_files(&self, id: u32, args: String) -> Result<()> {
        let args: FileArgs = checked(&args)?;
        let (ledger, hub) = (self.ledger.clone(), Arc::clone(self.hub()));
        self.tasks().spawn(async move {
            reply(&hub, id, files_of(ledger.as_ref(), args).await);
        });
        Ok(())
    }
}

async fn files_of(ledger: Option<&LedgerPorts>, args: FileArgs) -> Answer {
    let FileArgs { session, turn, request } = args;
    let key = json(&request)?;
    let stored = match ledger {
        Some(ledger) => ledger.prompts.prompt_files(&session, &key).await?,
        None => None,
    };
    if let Some(stored) = stored {
        let mut stored = StoredPrompt::parse(&stored)?;
        if turn.is_none() || stored.turn != turn {
            stored.prompt = None;
        }
        return json(&stored);
    }
    // A compaction has forgotten them: the next turn reads them, and what the resumed one had is not known.
    if turn.is_some() {
        return Ok("null".to_owned());
    }
    // A folder that does not exist has no files, also when a tool makes it meanwhile.
    let files = pieces(&request, read(request.clone()).await?.unwrap_or_default());
    let stored = json(&StoredPrompt { files, ..StoredPrompt::default() })?;
    if let Some(ledger) = ledger {
        ledger.prompts.set_prompt_files(session, key, stored.clone()).await?;
    }
    Ok(stored)
}

impl StoredPrompt {
    /// A row of an earlier version has the list of files only.
    fn parse(json: &str) -> std::result::Result<Self, EngineError> {
        let parsed = match json.starts_with('[') {
            true => serde_json::from_str(json).map(|files| Self { files, ..Self::default() }),
            false => serde_json::from_str(json),
        };
        parsed.map_err(|error| {
            EngineError::new(
                ErrorCode::Internal,
                format!("a stored prompt cannot be read: {error}"),
            )
        })
    }
}

fn pieces(request: &FileRequest, files: Vec<PromptFile>) -> Vec<FilePiece> {
    let FileRequest { caps, mode, is_main_session, .. } = *request;
    file_pieces(&PromptParts { caps, mode, is_main_session, files, ..PromptParts::default() })
}

/// The source of a turn's system prompt after a compaction. `args`: the JSON of [`RenewalArgs`].
pub(super) fn prompt_of(
    engine: &NativeEngine,
    (session, turn_id): (&str, &str),
    args: &str,
) -> Result<Box<dyn PromptSource>> {
    let args: RenewalArgs = checked(args)?;
    Ok(Box::new(TurnPrompt {
        ledger: engine.ledger.clone(),
        session: session.to_owned(),
        turn: turn_id.to_owned(),
        key: json(&args.request).map_err(|error| js_error(&error))?,
        args,
        renewed: None,
    }))
}

/// The system prompt of a turn, from one compaction to the next.
struct TurnPrompt {
    ledger: Option<LedgerPorts>,
    session: String,
    turn: String,
    /// The request as the ledger has it.
    key: String,
    args: RenewalArgs,
    /// The newest prompt, if a compaction has changed it.
    renewed: Option<String>,
}

impl PromptSource for TurnPrompt {
    fn renewed(&mut self) -> PortFuture<'_, Option<String>> {
        Box::pin(async move {
            // What the session has is whole: it keeps that where the files cannot be read now.
            if let Ok(Some(files)) = read(self.args.request.clone()).await {
                self.set_files(pieces(&self.args.request, files));
            }
            let (files, prompt) = (&self.args.files, &self.renewed);
            let turn = prompt.as_ref().map(|_| &self.turn);
            let stored =
                serde_json::json!({ "files": files, "turn": turn, "prompt": prompt }).to_string();
            if let Some(ledger) = &self.ledger {
                let (session, key) = (self.session.clone(), self.key.clone());
                ledger.prompts.set_prompt_files(session, key, stored).await?;
            }
            Ok(self.renewed.clone())
        })
    }
}

impl TurnPrompt {
    fn set_files(&mut self, files: Vec<FilePiece>) {
        let RenewalArgs { parts, files: former, needs_files, before, after, .. } = &mut self.args;
        if files == *former {
            return;
        }
        let layers = match files.is_empty() && *needs_files {
            true => Vec::new(),
            false => prompt_layers(parts, &files),
        };
        let layers = layers.iter().map(|layer| layer.text.as_str());
        let texts = std::iter::once(before.as_str()).chain(layers).chain([after.as_str()]);
        let texts: Vec<&str> = texts.filter(|text| !text.trim().is_empty()).collect();
        self.renewed = Some(texts.join("\n\n"));
        *former = files;
    }
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
