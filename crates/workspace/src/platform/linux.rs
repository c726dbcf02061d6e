//! The workspace: its roots, what is protected in them, and the tools by name.
//!
//! It must never let two writes of one workspace overlap.

use std::io::Write as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::cancel::Cancel;
use crate::error::{OpenError, ToolError, quoted, system};
use crate::output::{Outcome, Output};
use crate::params::{WorkspaceOptions, parsed};
use crate::paths::{Location, locate, plain_spaces, spellings};
use crate::protected_paths::of_process;
use crate::root::{Opened, Protected, Root, Scratch};
use crate::shell::{Directories, Shell};
use crate::support::Support;
use crate::{apply_patch, edit, ls, read, search, shell, write};
use rustix::io::Errno;

/// The tools that change nothing.
const READERS: [&str; 4] = ["read", "ls", "find", "grep"];

/// An open workspace.
#[derive(Debug)]
pub struct Workspace {
    /// The workspace, then the read roots.
    roots: Vec<Root>,
    /// The names of each root.
    names: Vec<Vec<PathBuf>>,
    protected: Protected,
    writes: Mutex<()>,
    shell: Option<Shell>,
    temporary: PathBuf,
    /// Its temporary files, made when they are first needed.
    scratch: OnceLock<Result<Scratch, String>>,
    /// The long outputs among them, which are read as in a read root.
    outputs: OnceLock<(Root, Vec<PathBuf>)>,
}

/// What this kernel can do.
#[must_use]
pub fn support() -> Support {
    Support { files: Root::open(Path::new("/")).is_ok(), sandbox: shell::support() }
}

impl Workspace {
    /// Opens the directories.
    ///
    /// # Errors
    /// One of them is not a directory that can be opened, or the kernel has no `openat2`.
    pub fn open(options: &WorkspaceOptions) -> Result<Self, OpenError> {
        let named = std::iter::once(("workspace".to_owned(), &options.workspace)).chain(
            options
                .read_roots
                .iter()
                .enumerate()
                .map(|(at, path)| (format!("readRoots[{at}]"), path)),
        );
        let mut roots = Vec::new();
        let mut names = Vec::new();
        for (field, path) in named {
            if !path.is_absolute() {
                let message = format!("`{}` is not an absolute path", path.display());
                return Err(OpenError { field, message });
            }
            let (root, of_root) = Root::open(path).map_err(|error| {
                let message = match error {
                    Errno::NOSYS => "the file tools need Linux 5.6 or newer (`openat2`)".to_owned(),
                    other => format!(
                        "the directory `{}` cannot be opened: {}",
                        path.display(),
                        std::io::Error::from(other)
                    ),
                };
                OpenError { field, message }
            })?;
            roots.push(root);
            names.push(of_root);
        }
        let shell = options
            .shell
            .clone()
            .map(|shell| {
                refuse_within(&names, &options.protect)?;
                let field = "bash.sandbox".to_owned();
                Shell::new(shell).map_err(|message| OpenError { field, message })
            })
            .transpose()?;
        Ok(Self {
            roots,
            names,
            protected: Protected::new(&options.protect),
            writes: Mutex::new(()),
            shell,
            temporary: options.temporary.clone(),
            scratch: OnceLock::new(),
            outputs: OnceLock::new(),
        })
    }

    /// Runs a tool with the JSON of its parameters. It blocks while the disk does.
    ///
    /// # Errors
    /// What the model is to read: a file that does not exist, a text that is not found, a path outside.
    pub fn call(&self, tool: &str, params: &str, cancel: &Cancel) -> Result<Output, ToolError> {
        self.call_with_updates(tool, params, cancel, &|_| {})
    }

    /// The same; `update` gets what a command printed so far, at most 10 times a second.
    ///
    /// # Errors
    /// As for [`Workspace::call`].
    pub fn call_with_updates(
        &self,
        tool: &str,
        params: &str,
        cancel: &Cancel,
        update: &dyn Fn(Output),
    ) -> Result<Output, ToolError> {
        cancel.check()?;
        let recovered = self.recover();
        if !READERS.contains(&tool) {
            // What only reads shows the files as they are; a change on top of half a patch could not be undone.
            recovered?;
        }
        match (tool, &self.shell) {
            ("bash", Some(shell)) => {
                refuse_within(&self.names, &of_process()).map_err(|error| {
                    ToolError::new(format!("a ledger of this process: {}", error.message))
                })?;
                return shell::bash(self, shell, &parsed(params)?, cancel, update);
            }
            ("bash", None) => {
                return Err(ToolError::new("`bash` is not one of the tools of this workspace"));
            }
            _ => {}
        }
        match tool {
            "read" => read::read(self, &parsed(params)?, cancel),
            "write" => write::write(self, &parsed(params)?, cancel),
            "edit" => edit::edit(self, parsed(params)?, cancel),
            "ls" => ls::ls(self, &parsed(params)?, cancel),
            "apply_patch" => apply_patch::apply_patch(self, &parsed(params)?, cancel),
            "find" => search::find(self, &parsed(params)?, cancel),
            "grep" => search::grep(self, &parsed(params)?, cancel),
            other => Err(ToolError::new(format!("there is no tool `{other}`"))),
        }
    }

    /// Whether an `edit` or `apply_patch` in doubt happened.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn outcome(&self, tool: &str, params: &str, cancel: &Cancel) -> Result<Outcome, ToolError> {
        self.recover()?;
        match tool {
            "edit" => edit::outcome(self, parsed(params)?, cancel),
            "apply_patch" => apply_patch::outcome(self, &parsed(params)?, cancel),
            other => Err(ToolError::new(format!("`{other}` has no outcome"))),
        }
    }

    /// Undoes a patch that a crash interrupted.
    fn recover(&self) -> Result<(), ToolError> {
        apply_patch::recover(self.root()?, &self.protected)
    }

    /// What shells may read, and what they may write: the workspace and directories of their own.
    pub(crate) fn directories_of_shells(&self, own: &[&Path]) -> Result<Directories, Errno> {
        let handle = |root: &Root| root.open_path(Path::new(".")).map(Opened::into_handle);
        let own = own.iter().map(|path| handle(&Root::open(path)?.0));
        let own = own.collect::<Result<Vec<_>, _>>()?;
        let mut roots = self.roots.iter().map(handle);
        let workspace = roots.next().transpose()?;
        let writable = workspace.into_iter().chain(own).collect();
        Ok(Directories { readable: roots.collect::<Result<_, _>>()?, writable })
    }

    /// Its temporary files. Long outputs among them are readable from then on.
    pub(crate) fn scratch(&self) -> Result<&Scratch, String> {
        let scratch = self.scratch.get_or_init(|| {
            let scratch = Scratch::create(&self.temporary)
                .map_err(|error| format!("a temporary directory cannot be made: {error}"))?;
            let opened = Root::open(&scratch.outputs())
                .map_err(|error| format!("its outputs: {}", std::io::Error::from(error)))?;
            // A workspace has one directory of outputs.
            let _was_there = self.outputs.set(opened);
            Ok(scratch)
        });
        scratch.as_ref().map_err(Clone::clone)
    }

    /// Puts a result that is too long for a model into a file that `read` reads, and returns its path.
    ///
    /// # Errors
    /// There is no place for it.
    pub fn spill(&self, tool: &str, text: &str) -> Result<PathBuf, ToolError> {
        let failed = |error: std::io::Error| ToolError::new(error.to_string());
        let (path, mut file) =
            self.scratch().map_err(ToolError::new)?.output(tool).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        Ok(path)
    }

    /// The workspace itself.
    pub(crate) fn root(&self) -> Result<&Root, ToolError> {
        self.roots.first().ok_or_else(|| outside("."))
    }

    /// Opens what a path names, for reading, in any root.
    pub(crate) fn open_to_read(&self, path: &str) -> Result<Opened, ToolError> {
        self.find_to_read(path).map(|located| located.opened)
    }

    /// The text of a file, for a prompt; `None` where there is none by exactly this name.
    ///
    /// # Errors
    /// It leads outside of the workspace, is no text in UTF-8, or has more than `most` bytes.
    pub fn text(
        &self,
        path: &str,
        most: u64,
        cancel: &Cancel,
    ) -> Result<Option<String>, ToolError> {
        let opened = match self.open_exactly(path) {
            Ok(located) => located.opened,
            Err(Missing::NotFound(_)) => return Ok(None),
            Err(Missing::Refused(error)) => return Err(error),
        };
        opened.refuse_special(path)?;
        self.protected.refuse_file(opened.identity(), path)?;
        if opened.is_directory() {
            return Err(ToolError::new(format!("`{}` is a directory", quoted(path))));
        }
        let bytes = read::read_whole(Vec::new(), &mut opened.file(path)?, path, cancel, most)?;
        match String::from_utf8(bytes) {
            Ok(text) => Ok(Some(text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned())),
            Err(_) => Err(ToolError::new(format!("`{}` is not UTF-8", quoted(path)))),
        }
    }

    /// The same, with how the path is called beneath its root.
    pub(crate) fn find_to_read(&self, path: &str) -> Result<Located<'_>, ToolError> {
        let mut found = self.open_exactly(path);
        if matches!(found, Err(Missing::NotFound(_))) {
            for spelling in spellings(path) {
                let other = self.open_exactly(&spelling);
                if !matches!(other, Err(Missing::NotFound(_))) {
                    found = other;
                    break;
                }
            }
        }
        let located = found.map_err(Missing::into_error)?;
        located.opened.refuse_special(path)?;
        self.protected.refuse_file(located.opened.identity(), path)?;
        Ok(located)
    }

    fn open_exactly(&self, path: &str) -> Result<Located<'_>, Missing> {
        let located = locate(path, &self.names);
        let of_outputs = || {
            let (root, names) = self.outputs.get().filter(|_| path.starts_with('/'))?;
            let Location { relative, .. } = locate(path, std::slice::from_ref(names)).ok()?;
            Some((root, relative))
        };
        let (root, relative) = match located {
            Ok(Location { root, relative }) => {
                let root = self.roots.get(root).ok_or_else(|| Missing::Refused(outside(path)))?;
                (root, relative)
            }
            Err(error) => of_outputs().ok_or(Missing::Refused(error))?,
        };
        let opened = root.open_path(&relative).map_err(|error| match error {
            Errno::NOENT => Missing::NotFound(system(path, error)),
            other => Missing::Refused(system(path, other)),
        })?;
        Ok(Located { opened, root, relative })
    }

    /// The workspace itself, and how a path that is to be written is called beneath it. A file that exists is named as it is;
    /// otherwise Unicode spaces are plain ones.
    pub(crate) fn writable(&self, path: &str) -> Result<(&Root, PathBuf), ToolError> {
        let others = spellings(path);
        let exists =
            |spelling: &&String| !matches!(self.open_exactly(spelling), Err(Missing::NotFound(_)));
        let given = path.to_owned();
        let found = std::iter::once(&given).chain(&others).find(exists);
        let plain = plain_spaces(path);
        let spelling = found.unwrap_or(&plain);
        let Location { root, relative } = locate(spelling, &self.names)?;
        if root != 0 {
            let path = quoted(path);
            return Err(ToolError::new(format!("`{path}` is in a directory that is only read")));
        }
        Ok((self.root()?, relative))
    }

    pub(crate) fn protected(&self) -> &Protected {
        &self.protected
    }

    /// Held while a file is read and replaced.
    pub(crate) fn lock_writes(&self) -> MutexGuard<'_, ()> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A sandbox can only allow: what is in the workspace can be written by a shell, also what a link elsewhere leads to.
fn refuse_within(names: &[Vec<PathBuf>], protect: &[PathBuf]) -> Result<(), OpenError> {
    let workspace = names.first().map(Vec::as_slice).unwrap_or_default();
    for (at, path) in protect.iter().enumerate() {
        let directory = path.parent().and_then(|parent| std::fs::canonicalize(parent).ok());
        let file = std::fs::canonicalize(path).ok();
        let is_within = |name: &PathBuf| {
            directory.as_deref().unwrap_or(path).starts_with(name)
                || file.as_deref().is_some_and(|file| file.starts_with(name))
        };
        if workspace.iter().any(is_within) {
            return Err(OpenError {
                field: format!("protect[{at}]"),
                message: format!(
                    "`{}` is in the workspace, where `bash` could change it; move it, or leave `bash` out of `tools`",
                    path.display()
                ),
            });
        }
    }
    Ok(())
}

/// What a path names, and its path beneath a root.
pub(crate) struct Located<'w> {
    pub(crate) opened: Opened,
    pub(crate) root: &'w Root,
    pub(crate) relative: PathBuf,
}

/// Why a path was not opened.
enum Missing {
    NotFound(ToolError),
    Refused(ToolError),
}

impl Missing {
    fn into_error(self) -> ToolError {
        match self {
            Self::NotFound(error) | Self::Refused(error) => error,
        }
    }
}

fn outside(path: &str) -> ToolError {
    ToolError::new(format!("`{}` is outside of the workspace", quoted(path)))
}
