//! The tool `bash`: `tool` runs a command and makes its result, `process` starts the shell and watches it, `output` holds what it
//! prints, `sandbox` says what it may reach (`landlock` is the kernel's interface), and `survivors` finds what it left running.

mod landlock;
mod output;
mod process;
mod sandbox;
mod survivors;
mod tool;

pub(crate) use sandbox::{Directories, support};
pub(crate) use tool::{Shell, bash};
