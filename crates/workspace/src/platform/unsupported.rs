//! The workspace of platforms without `openat2`: it cannot be opened, because no other way of opening has been proven here.

use std::convert::Infallible;
use std::path::PathBuf;

use crate::cancel::Cancel;
use crate::error::{OpenError, ToolError};
use crate::output::{Outcome, Output};
use crate::params::WorkspaceOptions;
use crate::support::{SandboxSupport, Support};

/// What this platform can do: nothing.
#[must_use]
pub fn support() -> Support {
    Support { files: false, sandbox: SandboxSupport::default() }
}

/// A workspace, which does not exist on this platform.
#[derive(Debug)]
pub struct Workspace(Infallible);

impl Workspace {
    /// # Errors
    /// Always: the file tools need Linux.
    pub fn open(_options: &WorkspaceOptions) -> Result<Self, OpenError> {
        Err(OpenError {
            field: "workspace".to_owned(),
            message:
                "the file tools need Linux 5.6 or newer; use tools of your own on this platform"
                    .to_owned(),
        })
    }

    /// # Errors
    /// Never called.
    pub fn call(&self, _tool: &str, _params: &str, _cancel: &Cancel) -> Result<Output, ToolError> {
        match self.0 {}
    }

    /// # Errors
    /// Never called.
    pub fn text(
        &self,
        _path: &str,
        _most: u64,
        _cancel: &Cancel,
    ) -> Result<Option<String>, ToolError> {
        match self.0 {}
    }

    /// # Errors
    /// Never called.
    pub fn spill(&self, _tool: &str, _text: &str) -> Result<PathBuf, ToolError> {
        match self.0 {}
    }

    /// # Errors
    /// Never called.
    pub fn call_with_updates(
        &self,
        _tool: &str,
        _params: &str,
        _cancel: &Cancel,
        _update: &dyn Fn(Output),
    ) -> Result<Output, ToolError> {
        match self.0 {}
    }

    /// # Errors
    /// Never called.
    pub fn outcome(
        &self,
        _tool: &str,
        _params: &str,
        _cancel: &Cancel,
    ) -> Result<Outcome, ToolError> {
        match self.0 {}
    }
}
