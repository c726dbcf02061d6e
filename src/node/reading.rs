//! The ledger's reads and session names for JavaScript: the arguments of each method, checked field by field.
//!
//! It must never read or write on the JavaScript thread.

use napi::Result;
use napi_derive::napi;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::engine::NativeEngine;
use super::errors::js_error;
use super::reply::json;
use base::error::{EngineError, ErrorCode};
use model::{
    DeleteSessionOptions, DeleteTurnsOptions, Deletion, DiffOptions, InputError, LedgerPorts,
    MetadataKey, PageOptions, PruneOptions, SearchOptions, SessionChange, SessionFilter,
    SessionKey, StorageErrorKind, ToolCallFilter, TurnFilter, TurnSelection, UsageFilter,
    from_json, session_label,
};

type Checked<T> = std::result::Result<T, EngineError>;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OfTurn {
    turn_id: String,
    #[serde(default)]
    page: PageOptions,
}

#[derive(Deserialize)]
struct OfSession {
    label: String,
    #[serde(default)]
    page: PageOptions,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Diff {
    turn_a: String,
    turn_b: String,
    #[serde(default)]
    options: DiffOptions,
}

#[derive(Deserialize)]
struct AsOf {
    label: String,
    time: i64,
}

#[derive(Deserialize)]
struct Search {
    text: String,
    #[serde(default)]
    options: SearchOptions,
}

#[derive(Deserialize)]
struct Filtered<F> {
    filter: F,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fork {
    turn_id: String,
    #[serde(default)]
    options: ForkOptions,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ForkOptions {
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    at_tool_call: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MoveSession {
    label: String,
    turn_id: String,
    #[serde(default)]
    options: MoveOptions,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct MoveOptions {
    #[serde(default)]
    expected_head: Option<String>,
}

#[derive(Deserialize)]
struct ChangeSession {
    label: String,
    #[serde(default)]
    session: SessionChange,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
enum Delete {
    Session { label: String, options: DeleteSessionOptions },
    Turns { filter: TurnSelection, options: DeleteTurnsOptions },
    Prune { options: PruneOptions },
}

#[derive(Deserialize)]
struct IndexMetadata {
    key: String,
    indexed: bool,
}

#[derive(Deserialize)]
struct Alias {
    alias: String,
    label: String,
}

#[derive(Deserialize)]
struct OneAlias {
    alias: String,
}

#[derive(Deserialize)]
struct Aliases {
    #[serde(default)]
    label: Option<String>,
    #[serde(default)]
    page: PageOptions,
}

#[derive(Deserialize)]
struct Label {
    label: String,
}

#[derive(Deserialize)]
struct Persona {
    id: String,
    #[serde(default)]
    options: PersonaOptions,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PersonaOptions {
    #[serde(default)]
    main_session_label: Option<String>,
}

#[derive(Deserialize)]
struct Personas {
    #[serde(default)]
    page: PageOptions,
}

fn checked<T: DeserializeOwned>(args: &str) -> Checked<T> {
    let code = ErrorCode::Storage(StorageErrorKind::InvalidQuery);
    from_json(args).map_err(|error| EngineError::at(code, error))
}

/// A label, checked by docs/rules/sessions-and-ledger.md#labels.
fn label(path: &str, label: &str) -> Checked<String> {
    session_label(path, label).map_err(|error| EngineError::at(ErrorCode::InvalidLabel, error))
}

impl NativeEngine {
    /// The methods of the ledger for lists and session names.
    pub(super) fn call_list(
        &self,
        id: u32,
        ledger: LedgerPorts,
        method: &str,
        args: &str,
    ) -> Checked<()> {
        match method {
            "ancestry" => {
                let OfTurn { turn_id, page } = checked(args)?;
                self.answer(id, async move { json(&ledger.read.ancestry(turn_id, page).await?) });
            }
            "children" => {
                let OfTurn { turn_id, page } = checked(args)?;
                self.answer(id, async move { json(&ledger.read.children(turn_id, page).await?) });
            }
            "sessionHistory" => {
                let OfSession { label, page } = checked(args)?;
                self.answer(
                    id,
                    async move { json(&ledger.read.session_history(label, page).await?) },
                );
            }
            "diff" => {
                let Diff { turn_a, turn_b, options } = checked(args)?;
                self.answer(
                    id,
                    async move { json(&ledger.read.diff(turn_a, turn_b, options).await?) },
                );
            }
            "asOf" => {
                let AsOf { label, time } = checked(args)?;
                self.answer(id, async move { json(&ledger.read.as_of(label, time).await?) });
            }
            "search" => {
                let Search { text, options } = checked(args)?;
                self.answer(id, async move { json(&ledger.read.search(text, options).await?) });
            }
            "turns" => {
                let Filtered::<TurnFilter> { filter } = checked(args)?;
                self.answer(id, async move { json(&ledger.read.turns(filter).await?) });
            }
            "usage" => {
                let Filtered::<UsageFilter> { filter } = checked(args)?;
                self.answer(id, async move { json(&ledger.read.usage(filter).await?) });
            }
            "sessions" => {
                let Filtered::<SessionFilter> { filter } = checked(args)?;
                self.answer(id, async move { json(&ledger.read.sessions(filter).await?) });
            }
            "toolCalls" => {
                let Filtered::<ToolCallFilter> { filter } = checked(args)?;
                self.answer(id, async move { json(&ledger.read.tool_calls(filter).await?) });
            }
            other => self.call_name(id, ledger, other, args)?,
        }
        Ok(())
    }

    fn call_name(&self, id: u32, ledger: LedgerPorts, method: &str, args: &str) -> Checked<()> {
        match method {
            "fork" => {
                let Fork { turn_id, options: ForkOptions { label: name, at_tool_call } } =
                    checked(args)?;
                if let Some(name) = &name {
                    label("label", name)?;
                }
                self.answer(id, async move {
                    let call = at_tool_call.as_deref();
                    json(&ledger.admin.fork_at(&turn_id, name.as_deref(), call).await?)
                });
            }
            "moveSession" => {
                let MoveSession { label, turn_id, options } = checked(args)?;
                self.answer(id, async move {
                    let expected = options.expected_head.as_deref();
                    json(&ledger.admin.move_session(&label, &turn_id, expected).await?)
                });
            }
            "createSession" | "updateSession" => {
                let ChangeSession { label: name, session } = checked(args)?;
                let name = label("label", &name)?;
                if method == "createSession" {
                    self.answer(id, async move {
                        json(&ledger.admin.create_session(name, session).await?)
                    });
                } else {
                    self.answer(id, async move {
                        json(&ledger.admin.update_session(name, session).await?)
                    });
                }
            }
            "delete" => {
                let deletion = match checked(args)? {
                    Delete::Session { label: name, options } => {
                        Deletion::Session(label("label", &name)?, options)
                    }
                    Delete::Turns { filter, options } => Deletion::Turns(filter, options),
                    Delete::Prune { options } => Deletion::Prune(options),
                };
                self.answer(id, async move { json(&ledger.admin.delete(deletion).await?) });
            }
            "indexMetadata" => {
                let IndexMetadata { key, indexed } = checked(args)?;
                let key = MetadataKey::parse(&key).map_err(|message| {
                    let code = ErrorCode::Storage(StorageErrorKind::InvalidQuery);
                    EngineError::at(code, InputError { path: "key".to_owned(), message })
                })?;
                self.answer(
                    id,
                    async move { json(&ledger.admin.index_metadata(key, indexed).await?) },
                );
            }
            "resolve" => {
                let Label { label: name } = checked(args)?;
                let name = label("label", &name)?;
                self.answer(id, async move { json(&ledger.read.resolve(name).await?) });
            }
            "alias" => {
                let Alias { alias, label: to } = checked(args)?;
                let (alias, to) = (label("alias", &alias)?, label("label", &to)?);
                self.answer(id, async move { json(&ledger.admin.set_alias(alias, to).await?) });
            }
            "removeAlias" => {
                let OneAlias { alias } = checked(args)?;
                self.answer(id, async move { json(&ledger.admin.remove_alias(alias).await?) });
            }
            "aliases" => {
                let Aliases { label, page } = checked(args)?;
                self.answer(id, async move { json(&ledger.read.aliases(label, page).await?) });
            }
            "archive" | "unarchive" => {
                let Label { label } = checked(args)?;
                let archived = method == "archive";
                self.answer(
                    id,
                    async move { json(&ledger.admin.set_archived(label, archived).await?) },
                );
            }
            "persona" => {
                let Persona { id: persona, .. } = checked(args)?;
                self.answer(id, async move { json(&ledger.read.persona(persona).await?) });
            }
            "personas" => {
                let Personas { page } = checked(args)?;
                self.answer(id, async move { json(&ledger.read.personas(page).await?) });
            }
            "putPersona" => {
                let Persona { id: persona, options } = checked(args)?;
                let persona = label("id", &persona)?;
                let main = match options.main_session_label {
                    Some(main) => Some(label("options.mainSessionLabel", &main)?),
                    None => {
                        // The default label must be valid too.
                        label("id", &format!("agent:{persona}:main"))?;
                        None
                    }
                };
                self.answer(
                    id,
                    async move { json(&ledger.admin.put_persona(persona, main).await?) },
                );
            }
            other => {
                return Err(EngineError::new(
                    ErrorCode::Internal,
                    format!("the ledger has no method `{other}`"),
                ));
            }
        }
        Ok(())
    }
}

#[napi]
impl NativeEngine {
    /// The parts of a session's label, as the JSON of a `SessionKey`.
    #[napi(catch_unwind)]
    pub fn parse_session_key(label: String) -> Result<String> {
        json(&SessionKey::parse(&label)).map_err(|error| js_error(&error))
    }
}
